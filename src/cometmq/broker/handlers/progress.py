"""Consumer offsets and consumer lag: of one group, of all groups, in time."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.storage import Storage
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.tables import Tables
from cometmq.protocol.bodies import stats as bodies
from cometmq.protocol.bodies.consumer import CorrectionOffsets
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.protocol.headers import consumer as headers
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.remoting.dispatch import Call, Reply

_NO_CORRECTION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProgressHandlers:
    """Consumer offsets and lag of groups, and the offsets of delay levels."""

    checks: Checks
    tables: Tables
    storage: Storage
    stats: Statistics
    identity: Identity
    schedule: Schedule

    def of_group(self, call: Call, ask: headers.ConsumeStatsHeader) -> Reply:
        """GET_CONSUME_STATS: all topics of a group, or one."""
        table: dict[MessageQueue, bodies.ConsumedOffset] = {}
        tps = 0.0
        named = [ask.topic] if ask.topic and ask.topic.strip() else None
        names = named or self.tables.offsets.topics_of(ask.consumer_group)
        for topic in self._topics(ask.consumer_group, names):
            found = self._consumed(ask.consumer_group, topic)
            table.update(found.offset_table)
            tps += found.consume_tps
        return Reply(body=dumps(bodies.ConsumeStats(consume_tps=tps, offset_table=table)))

    async def of_broker(self, call: Call, ask: headers.BrokerConsumeStatsHeader) -> Reply:
        """GET_BROKER_CONSUME_STATS: of all groups."""
        found = []
        behind = 0
        names = self.tables.offsets.topics_by_group()
        for group in self.tables.groups.names():
            topics = [
                self._consumed(group, topic)
                for topic in self._topics(group, names.get(group, ()))
                if topic.order or not ask.is_order
            ]
            found.append({group: topics})  # also of a group that consumes nothing
            behind += sum(map(_behind, topics))
            await asyncio.sleep(0)  # each queue is looked up in the log; others have their turn
        body = bodies.ConsumeStatsList(
            broker_addr=self.identity.address, consume_stats_list=found, total_diff=behind
        )
        return Reply(body=dumps(body))

    def time_span(self, call: Call, ask: headers.TimeSpanHeader) -> Reply:
        topic = self.checks.known_topic(ask.topic)
        spans = [
            self._span(ask.group, ask.topic, queue_id, call.received_ms)
            for queue_id in range(topic.write_queue_nums)
        ]
        return Reply(body=dumps(bodies.QueueTimeSpans(consume_time_span_set=spans)))

    def correction(self, call: Call, ask: headers.CorrectionHeader) -> Reply:
        """QUERY_CORRECTION_OFFSET: by queue, the least that any group wants next.

        If the compared group has the lowest offset, there is nothing to correct.
        """
        left_out = set((ask.filter_groups or "").split(","))
        found: dict[int, int] = {}
        for group in self.tables.offsets.groups_of(ask.topic):
            if group in left_out:
                continue
            for queue_id, offset in self.tables.offsets.of(group, ask.topic).items():
                if offset >= self.storage.store.bounds(ask.topic, queue_id)[0]:
                    found[queue_id] = min(found.get(queue_id, _NO_CORRECTION), offset)
        for queue_id, offset in self.tables.offsets.of(ask.compare_group, ask.topic).items():
            if found.get(queue_id, _NO_CORRECTION) > offset:
                found[queue_id] = _NO_CORRECTION
        return Reply(body=dumps(CorrectionOffsets(correction_offsets=found)))

    def all_offsets(self, call: Call, ask: NoHeader) -> Reply:
        return Reply(body=dumps(self.tables.offsets.body))

    def all_delay_offsets(self, call: Call, ask: NoHeader) -> Reply:
        return Reply(body=dumps(self.schedule.body))

    def _topics(self, group: str, names: Iterable[str]) -> list[TopicConfig]:
        """The known topics that the members of the group subscribe to, if it has members."""
        online = self.tables.clients.consumers.get(group)
        return [
            topic
            for each in names
            if (topic := self.checks.topics.get(each)) is not None
            and (online is None or not online.subscriptions or each in online.subscriptions)
        ]

    def _consumed(self, group: str, topic: TopicConfig) -> bodies.ConsumeStats:
        name = topic.topic_name
        table = {
            MessageQueue(name, self.identity.name, queue_id): self._place(group, name, queue_id)
            for queue_id in range(topic.read_queue_nums)
        }
        return bodies.ConsumeStats(
            consume_tps=self.stats.consume_tps(group, name), offset_table=table
        )

    def _place(self, group: str, topic: str, queue_id: int) -> bodies.ConsumedOffset:
        offset = self.tables.offsets.get(group, topic, queue_id) or 0
        last_ms = self.storage.facts.stored_ms(topic, queue_id, offset - 1) if offset else 0
        return bodies.ConsumedOffset(
            broker_offset=self.storage.store.bounds(topic, queue_id)[1],
            consumer_offset=offset,
            last_timestamp=max(last_ms, 0),
        )

    def _span(self, group: str, topic: str, queue_id: int, now_ms: int) -> bodies.QueueTimeSpan:
        offset = self.tables.offsets.get(group, topic, queue_id) or 0
        begin_ms = self.storage.store.earliest_ms(topic, queue_id)
        delay_ms = 0
        if offset < self.storage.store.bounds(topic, queue_id)[1]:
            delay_ms = max(now_ms - self.storage.facts.stored_ms(topic, queue_id, offset), 0)
        end_ms = self.storage.facts.last_stored_ms(topic, queue_id)
        consume_ms = (
            self.storage.facts.stored_ms(topic, queue_id, offset - 1) if offset else begin_ms
        )
        return bodies.QueueTimeSpan(
            message_queue=MessageQueue(topic, self.identity.name, queue_id),
            min_ms=begin_ms,
            min_text=_date_text(begin_ms),
            max_ms=end_ms,
            max_text=_date_text(end_ms),
            consume_ms=consume_ms,
            consume_text=_date_text(consume_ms),
            delay_time=delay_ms,
        )


def _date_text(time_ms: int) -> str:
    """A time in the local time zone, as 2024-01-31#23:59:59:999."""
    seconds, rest_ms = divmod(time_ms, 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(seconds)) + f":{rest_ms:03d}"


def _behind(topic: bodies.ConsumeStats) -> int:
    return sum(each.broker_offset - each.consumer_offset for each in topic.offset_table.values())
