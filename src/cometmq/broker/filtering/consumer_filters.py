"""SQL conditions of consumer groups, and the bits by which they pass messages over unread.

With `enableConsumeQueueExt` and `enableCalcFilterBitMap` each condition of a topic is tried when a
message is put, and the bits of the groups that want it are kept in the queue's extension. A message
that is older than the condition was never tried by it: its bits say nothing.

A group is here from its first pull on. When nobody subscribes any more its condition is dead, and
is tried on, for a day, so that who comes back can go by the bits of what came meanwhile.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.table_file import KeptTable
from cometmq.errors import BadExpression
from cometmq.protocol.bodies.filters import BloomBits, FilterEntry, FilterTable, TopicFilters
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.protocol.filter.sql import Condition, compile_condition
from cometmq.protocol.records.properties import decode_properties
from cometmq.seams import Clock, Disk
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.store.recovery.rebuild import Coder

log = logging.getLogger(__name__)

Matcher = Callable[[Mapping[str, str]], bool]
_SQL = "SQL92"
_NEVER = 2**63 - 1
TRIED_MAX = 256  # of one topic; 1 us each, at each put
COMPARISONS_MAX = 2_048  # that they make for one message of a topic; 0.1 us each


class ConsumerFilter:
    """One group's condition on one topic; since `born_ms` it is tried on each message."""

    __slots__ = (
        "_bloom",
        "born_ms",
        "cost",
        "dead_ms",
        "expression",
        "matches",
        "positions",
        "version",
    )

    def __init__(
        self,
        bloom: BloomFilter,
        positions: tuple[int, ...],
        expression: str,
        condition: Condition,
        born_ms: int,
        version: int,
    ) -> None:
        self._bloom = bloom
        self.positions = positions
        self.expression = expression
        self.matches: Matcher = condition.matches
        self.cost = condition.cost
        self.born_ms = born_ms
        self.version = version
        self.dead_ms = 0  # 0: it lives

    def may_want(self, code: int) -> bool:
        """False if the bits that came with a code say that the message is not wanted."""
        if not isinstance(code, ExtendedCode) or code.stored_ms <= self.born_ms:
            return True
        return self._bloom.matches(code.bits, self.positions)


class ConsumerFilters:
    """Conditions by topic and group, persisted in consumerFilter.json."""

    def __init__(self, disk: Disk, path: Path, clock: Clock, bloom: BloomFilter) -> None:
        self._clock = clock
        self._bloom = bloom
        self._topics: dict[str, dict[str, ConsumerFilter]] = {}
        # When the newest message was stored. What is born is not older, though a clock go back.
        self.newest_ms = 0
        self.file = KeptTable(disk, path, lambda: self.body)

    def load(self, *, after_crash: bool) -> None:
        """Read the file; all are taken for dead until they pull.

        After a crash it may be older than the bits, which are then of other conditions: they say
        nothing of what was stored before now.
        """
        kept = self.file.read(FilterTable)
        entries = [
            entry
            for topic in (kept.filter_data_by_topic.values() if kept is not None else ())
            for entry in topic.group_filter_data.values()
        ]
        if not all(self._is_of_this_size(entry.bloom_filter_data) for entry in entries):
            log.info("the bloom filter has another size than before: no filter is kept")
            return
        now_ms = self._clock.wall_ms()
        for entry in entries:
            try:
                condition = compile_condition(entry.expression)
            except BadExpression as error:
                log.error("%s of group %s: %s", entry.topic, entry.consumer_group, error)
                continue
            if not self._may_try(entry.topic, entry.consumer_group, condition):
                continue
            born_ms = now_ms if after_crash else entry.born_time
            found = self._put(
                entry.topic,
                entry.consumer_group,
                entry.expression,
                condition,
                born_ms,
                entry.client_version,
            )
            found.dead_ms = max(entry.dead_time or now_ms, born_ms)

    def _is_of_this_size(self, bits: BloomBits) -> bool:
        return (bits.bit_num, len(bits.bit_pos)) == (self._bloom.bits_max, self._bloom.count)

    @property
    def body(self) -> FilterTable:
        """The content of the file."""
        return FilterTable(
            filter_data_by_topic={
                topic: TopicFilters(
                    group_filter_data={
                        group: self._entry(topic, group, each) for group, each in groups.items()
                    },
                    topic=topic,
                )
                for topic, groups in self._topics.items()
            }
        )

    def entry(self, topic: str, group: str) -> FilterEntry | None:
        """One group's condition on one topic, as the file has it."""
        found = self._topics.get(topic, {}).get(group)
        return None if found is None else self._entry(topic, group, found)

    def _entry(self, topic: str, group: str, each: ConsumerFilter) -> FilterEntry:
        return FilterEntry(
            bloom_filter_data=BloomBits(bit_num=self._bloom.bits_max, bit_pos=list(each.positions)),
            born_time=each.born_ms,
            client_version=each.version,
            consumer_group=group,
            dead=each.dead_ms > 0,
            dead_time=each.dead_ms,
            expression=each.expression,
            expression_type=_SQL,
            topic=topic,
        )

    def followed(
        self, group: str, subscription: Subscription, condition: Condition | None = None
    ) -> ConsumerFilter | None:
        """The condition that a group pulls by: as it was, or born now if it is another.

        None if those of the topic are too many or too costly: each is tried on each message.
        `condition` is the compiled expression, if the caller has it.
        """
        topic, expression = subscription.topic, subscription.sub_string
        groups = self._topics.get(topic, {})
        found = groups.get(group)
        if found is None or found.expression != expression:
            condition = condition or compile_condition(expression)
            if found is not None:
                found.born_ms = _NEVER  # a pull that waits by it is to go by records
            if not self._may_try(topic, group, condition):
                if groups.pop(group, None) is not None:
                    self.file.changed()
                return None
            born_ms = max(self._clock.wall_ms(), self.newest_ms)
            found = self._put(
                topic, group, expression, condition, born_ms, subscription.sub_version
            )
            self.file.changed()
        elif found.dead_ms or found.version != subscription.sub_version:
            found.dead_ms = 0
            found.version = subscription.sub_version
            self.file.changed()
        return found

    def _put(
        self,
        topic: str,
        group: str,
        expression: str,
        condition: Condition,
        born_ms: int,
        version: int,
    ) -> ConsumerFilter:
        positions = self._bloom.positions(f"{group}#{topic}")
        made = ConsumerFilter(self._bloom, positions, expression, condition, born_ms, version)
        self._topics.setdefault(topic, {})[group] = made
        return made

    def _may_try(self, topic: str, group: str, condition: Condition) -> bool:
        """With the other groups' conditions on the topic, it is not too much for each put."""
        others = [each for name, each in self._topics.get(topic, {}).items() if name != group]
        comparisons = sum(each.cost for each in others) + condition.cost
        return len(others) < TRIED_MAX and comparisons <= COMPARISONS_MAX

    def extended(self, coder: Coder) -> Coder:
        """A coder that tries the conditions on each message too."""

        def code(topic: str, properties_text: str, tag_code: int, stored_ms: int) -> int:
            self.newest_ms = max(self.newest_ms, stored_ms)
            bits = self._bits(topic, properties_text)
            plain = coder(topic, properties_text, tag_code, stored_ms)
            return ExtendedCode(plain, stored_ms, bits)

        return code

    def _bits(self, topic: str, properties_text: str) -> bytes:
        """Of the groups that want a message; none at all if nobody's condition was tried."""
        groups = self._topics.get(topic)
        if not groups:
            return b""
        properties = decode_properties(properties_text)
        bits = bytearray(self._bloom.bits_max // 8)
        for each in groups.values():
            if each.matches(properties):
                self._bloom.set_bits(bits, each.positions)
        return bytes(bits)

    async def save(self, clients: Clients, unused_ms_max: int) -> None:
        """Drop entries that were unused for longer, and save the rest."""
        self.look_after(clients, unused_ms_max)
        await self.file.save()

    def look_after(self, clients: Clients, kept_ms: int) -> None:
        """Mark conditions without a subscription as dead; remove those dead for `kept_ms`."""
        now_ms = self._clock.wall_ms()
        for topic, groups in list(self._topics.items()):
            for name, each in list(groups.items()):
                group = clients.consumers.get(name)
                if group is None or topic not in group.subscriptions:
                    if not each.dead_ms:
                        each.dead_ms = max(now_ms, each.born_ms)
                        self.file.changed()
                    elif now_ms - each.dead_ms >= kept_ms:
                        del groups[name]
                        self.file.changed()
            if not groups:
                del self._topics[topic]
