"""Checks that several handlers share. A failed check raises Refused."""

from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.topics import TopicTable
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import GroupConfig, TopicConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import Perm
from cometmq.protocol.names import CLOSED_TOPICS, check_topic
from cometmq.settings.live_settings import LiveSettings

_READ = int(Perm.READ)
_WRITE = int(Perm.WRITE)


@dataclass(frozen=True, slots=True)
class Checks:
    """Each check returns what was asked for, or raises Refused."""

    topics: TopicTable
    groups: GroupTable
    settings: LiveSettings
    identity: Identity

    def known_topic(self, name: str) -> TopicConfig:
        """A topic that is there."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! Create it, or set "
                "autoCreateTopicEnable=true",
            )
        return topic

    def known_queue(self, name: str, queue_id: int) -> TopicConfig:
        """A queue that is there, to be read from or written to."""
        return with_queue(self.known_topic(name), queue_id)

    def readable_queue(self, group_name: str, name: str, queue_id: int) -> GroupConfig:
        """The group that may read this queue."""
        if not self.settings.now(BrokerConfig).broker_permission & _READ:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self.identity.address}] pulling message is forbidden",
            )
        group = self.groups.get(group_name) or self.groups.known(group_name)
        if not group.consume_enable:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {group_name}: consumeEnable is false",
            )
        topic = self.topics.get(name) or self.known_topic(name)
        if not topic.perm & _READ:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] pulling message is forbidden"
            )
        if not 0 <= queue_id < topic.read_queue_nums:
            raise _no_such_queue(name, queue_id, topic.read_queue_nums)
        return group

    def refuse_if_closed(self) -> None:
        """The broker as a whole, to writes."""
        if not self.settings.now(BrokerConfig).broker_permission & _WRITE:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self.identity.address}] sending message is forbidden",
            )

    def open_to_sends(self, name: str, queue_id: int, now_ms: int) -> TopicConfig | None:
        """The topic that may be sent to; None if it is not there yet and its name is in order."""
        topic = self.topics.get(name)
        config = self.settings.now(BrokerConfig)
        if now_ms < config.start_accept_send_request_time_stamp:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "broker unable to service, until startAcceptSendRequestTimeStamp="
                f"{config.start_accept_send_request_time_stamp}",
            )
        if topic is None or topic.order:
            self.refuse_if_closed()
        if name in CLOSED_TOPICS:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )
        if topic is None:
            check_topic(name)
            return None
        if queue_id >= topic.write_queue_nums and queue_id >= topic.read_queue_nums:
            count = max(topic.write_queue_nums, topic.read_queue_nums)
            raise _no_such_queue(name, queue_id, count)
        return topic


def has_queue(topic: TopicConfig, queue_id: int) -> bool:
    """Can this queue be read from or written to?"""
    return 0 <= queue_id < max(topic.read_queue_nums, topic.write_queue_nums)


def with_queue(topic: TopicConfig, queue_id: int) -> TopicConfig:
    """A topic that has this queue, to be read from or written to."""
    count = max(topic.read_queue_nums, topic.write_queue_nums)
    if not has_queue(topic, queue_id):
        raise _no_such_queue(topic.topic_name, queue_id, count)
    return topic


def _no_such_queue(name: str, queue_id: int, count: int) -> Refused:
    return Refused(
        ResponseCode.SYSTEM_ERROR,
        f"request queueId[{queue_id}] is illegal, topic {name} has {count} queues",
    )
