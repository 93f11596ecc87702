"""Administration of topics: create, change, list, inspect and delete."""

import logging
from dataclasses import dataclass

from cometmq.broker.handlers.checks import Checks
from cometmq.broker.registration import Registration
from cometmq.broker.storage import Storage
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.tables import Tables
from cometmq.errors import Refused
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import GroupList, TopicList
from cometmq.protocol.bodies.stats import TopicOffset, TopicStats
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.topic import CreateTopicHeader, TopicHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.names import SYSTEM_TOPICS, check_topic, is_system_topic
from cometmq.remoting.dispatch import Call, Reply

log = logging.getLogger(__name__)

_QUEUES_MAX = 65_536
_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


@dataclass(frozen=True, slots=True)
class TopicHandlers:
    """Topics of this broker."""

    tables: Tables
    checks: Checks
    storage: Storage
    identity: Identity
    registration: Registration

    async def update(self, call: Call, ask: CreateTopicHeader) -> Reply:
        """UPDATE_AND_CREATE_TOPIC: answered when it is on disk and registered."""
        self._is_users(ask.topic)
        for name, count in (("read", ask.read_queue_nums), ("write", ask.write_queue_nums)):
            if not 0 <= count <= _QUEUES_MAX:
                raise _bad(f"{name}QueueNums is {count}, not 0 to {_QUEUES_MAX}")
        if ask.topic_filter_type not in _FILTER_TYPES:
            raise _bad(f"topicFilterType is none of {', '.join(_FILTER_TYPES)}")
        self.tables.topics.put(
            TopicConfig(
                topic_name=ask.topic,
                read_queue_nums=ask.read_queue_nums,
                write_queue_nums=ask.write_queue_nums,
                perm=ask.perm,
                topic_filter_type=ask.topic_filter_type,
                topic_sys_flag=ask.topic_sys_flag or 0,
                # Not ask.order: which topics have an order is said by the name servers.
            )
        )
        await self.tables.topics.file.save()
        await self.registration.settled()
        return Reply()

    async def delete(self, call: Call, ask: TopicHeader) -> Reply:
        """DELETE_TOPIC_IN_BROKER: also its queues and the consumer offsets of all groups."""
        self._is_users(ask.topic)
        self.tables.topics.delete(ask.topic)
        self.tables.offsets.forget_topic(ask.topic)
        # All of it is gone from here on: if the asker leaves, the timers do the rest of the files.
        await self.storage.store.delete_topic(ask.topic)
        await self.tables.topics.file.save()
        await self.tables.offsets.file.save()
        return Reply()

    def all(self, call: Call, ask: NoHeader) -> Reply:
        return Reply(body=dumps(self.tables.topics.body))

    def stats(self, call: Call, ask: TopicHeader) -> Reply:
        topic = self.checks.known_topic(ask.topic)
        count = max(topic.read_queue_nums, topic.write_queue_nums)
        table = {
            MessageQueue(ask.topic, self.identity.name, queue_id): self._bounds(ask.topic, queue_id)
            for queue_id in range(count)
        }
        return Reply(body=dumps(TopicStats(offset_table=table)))

    def system(self, call: Call, ask: NoHeader) -> Reply:
        names = sorted(SYSTEM_TOPICS | self.tables.topics.system.keys())
        return Reply(body=dumps(TopicList(topic_list=names)))

    def consumers(self, call: Call, ask: TopicHeader) -> Reply:
        """QUERY_TOPIC_CONSUME_BY_WHO: groups that subscribe to it or have an offset in it."""
        online = {
            name
            for name, group in self.tables.clients.consumers.items()
            if ask.topic in group.subscriptions
        }
        names = sorted(online.union(self.tables.offsets.groups_of(ask.topic)))
        return Reply(body=dumps(GroupList(group_list=names)))

    async def clean_unused(self, call: Call, ask: NoHeader) -> Reply:
        """CLEAN_UNUSED_TOPIC: delete queues on disk whose topic is unknown."""
        for name in self.storage.facts.topics():
            if self.tables.topics.get(name) is None and not is_system_topic(name):
                log.info("deleting the queues of unknown topic %s", name)
                await self.storage.store.delete_topic(name)
        return Reply()

    def clean_expired(self, call: Call, ask: NoHeader) -> Reply:
        self.storage.store.clean()
        return Reply()

    def clean_queues(self, call: Call, ask: NoHeader) -> Reply:
        """CLEAN_EXPIRED_CONSUMEQUEUE: what lies before the log. Here it goes with the log."""
        return Reply()

    def _bounds(self, topic: str, queue_id: int) -> TopicOffset:
        first, end = self.storage.store.bounds(topic, queue_id)
        return TopicOffset(
            last_update_timestamp=max(self.storage.facts.last_stored_ms(topic, queue_id), 0),
            max_offset=end,
            min_offset=first,
        )

    def _is_users(self, name: str) -> None:
        """Refuse a bad name, and one of the system's own."""
        check_topic(name)
        if is_system_topic(name) or name in self.tables.topics.system:
            raise _bad(f"The topic[{name}] is conflict with system topic.")


def _bad(reason: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, reason)
