"""The topics of a broker: their queues and permissions, and the version of the table."""

from collections.abc import Collection
from pathlib import Path

import msgspec

from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.versioned_table import VersionedTable
from cometmq.protocol.bodies.tables import TopicConfig, TopicConfigTable
from cometmq.protocol.flags import Perm, TopicFlag
from cometmq.protocol.names import (
    BENCHMARK_TOPIC,
    DEFAULT_TOPIC,
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    check_topic,
    reply_topic,
)
from cometmq.seams import Clock, Disk
from cometmq.settings.live_settings import LiveSettings

READ_WRITE = int(Perm.READ | Perm.WRITE)
_INHERIT = int(Perm.INHERIT)
SCHEDULE_QUEUES = 18


class TopicTable(VersionedTable[TopicConfig]):
    """Topic name to its configuration, persisted in topics.json."""

    def __init__(self, disk: Disk, path: Path, clock: Clock, settings: LiveSettings) -> None:
        super().__init__(disk, path, clock)
        self._settings = settings
        self._permission = settings.now(BrokerConfig).broker_permission  # as routes show it

    def load(self) -> None:
        """Read the file, and add the topics that every broker has."""
        kept = self.file.read(TopicConfigTable)
        if kept is not None:
            self._entries.update(kept.topic_config_table)
            self._version = kept.data_version
        config = self._settings.now(BrokerConfig)
        self.system = {topic.topic_name: topic for topic in _system_topics(config)}
        for name, topic in self.system.items():
            if name == DEFAULT_TOPIC or name not in self._entries:
                self._entries[name] = topic

    def follow_settings(self) -> None:
        """The pattern for new topics, and what routes show, is as the settings have it now."""
        config = self._settings.now(BrokerConfig)
        for topic in _system_topics(config):
            if topic.topic_name == DEFAULT_TOPIC:
                self.put(topic)
        if config.broker_permission != self._permission:
            self._permission = config.broker_permission
            self.touch()

    @property
    def body(self) -> TopicConfigTable:
        """The whole table, as sent to slaves and name servers and written to the file."""
        return TopicConfigTable(
            data_version=self._version, topic_config_table=dict(sorted(self._entries.items()))
        )

    def _name_of(self, topic: TopicConfig) -> str:
        return topic.topic_name

    def _check(self, name: str) -> str:
        return check_topic(name)

    def put_in_order(self, names: Collection[str]) -> None:
        """These topics keep an order over all brokers, and no others do."""
        for name, topic in list(self._entries.items()):
            if topic.order != (name in names):
                self.put(msgspec.structs.replace(topic, order=not topic.order))

    def like(self, pattern_name: str, name: str, queue_count: int) -> TopicConfig | None:
        """A topic after the pattern that its producer names, if that may be inherited.

        It is `keep` that makes it.
        """
        pattern = self._entries.get(pattern_name)
        if pattern is None or not pattern.perm & _INHERIT:
            return None
        if (
            pattern_name == DEFAULT_TOPIC
            and not self._settings.now(BrokerConfig).auto_create_topic_enable
        ):
            return None
        count = max(0, min(queue_count, pattern.write_queue_nums))
        return msgspec.structs.replace(
            pattern,
            topic_name=name,
            perm=pattern.perm & ~_INHERIT,
            read_queue_nums=count,
            write_queue_nums=count,
            topic_sys_flag=0,
        )

    def own(self, name: str, queue_count: int, *, unit: bool = False) -> TopicConfig:
        """A topic for retries, dead letters or our own: as it is, or as `keep` would make it."""
        return self._entries.get(name) or TopicConfig(
            topic_name=check_topic(name),
            perm=READ_WRITE,
            read_queue_nums=queue_count,
            write_queue_nums=queue_count,
            topic_sys_flag=int(TopicFlag.UNIT) if unit else 0,
        )

    def ensure(self, name: str, queue_count: int, *, unit: bool = False) -> TopicConfig:
        """The same, made if it is not there."""
        topic = self.own(name, queue_count, unit=unit)
        self.keep(topic)
        return topic


def _system_topics(config: BrokerConfig) -> list[TopicConfig]:
    def topic(name: str, count: int, perm: int = READ_WRITE) -> TopicConfig:
        return TopicConfig(
            topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm
        )

    cluster, broker = config.broker_cluster_name, config.broker_name
    topics = [
        topic(SELF_TEST_TOPIC, 1),
        topic(BENCHMARK_TOPIC, 1024),
        topic(cluster, 16, READ_WRITE | _INHERIT if config.cluster_topic_enable else _INHERIT),
        topic(broker, 1, READ_WRITE | _INHERIT if config.broker_topic_enable else _INHERIT),
        topic(OFFSET_MOVED_TOPIC, 1),
        topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        topic(reply_topic(cluster), 1),
    ]
    if config.auto_create_topic_enable:
        count = config.default_topic_queue_nums
        topics.append(topic(DEFAULT_TOPIC, count, READ_WRITE | _INHERIT))
    if config.trace_topic_enable:
        topics.append(topic(config.msg_trace_topic_name, 1))
    return topics
