"""Delivery of delayed messages: each level's queue in order, each message when it is due.

All messages of a level have the same delay, so the first message of its queue is due first. One
coroutine per level sleeps until then, or waits for the queue to grow. Progress is persisted a
second after it was made (delay_offsets.py). A killed process may have delivered messages in that
second. The next start finds them by their unique keys, because a copy names the physical offset of
the delayed message. Only messages without a unique key are delivered twice.
"""

import asyncio
import logging

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.copies import copy_of, real_queue
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.delivery.delay_offsets import DelayOffsets
from cometmq.broker.intake import Intake
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.topics import SCHEDULE_QUEUES
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import DelayOffsetTable
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import UNIQ_KEY
from cometmq.protocol.records.property_view import PropertyView
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.queue_extension import is_address
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

_TURN = 32  # messages of one level per turn of the loop
_RETRY_MS = 1_000  # after a delivery that the store refused
_LOOK_AGAIN_MS = 60_000  # in a long sleep: the machine may have slept, or its clock been set
_PATIENCE_MS = 24 * 3600 * 1000
_EVER_MS = 2**62
_GROUP = "SCHEDULE_CONSUMER"  # the group of deliveries in the statistics


class Schedule:
    """Delivers the messages of all delay levels."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        levels: DelayLevels,
        offsets: DelayOffsets,
        arrivals: Arrivals,
        clock: Clock,
        settings: LiveSettings,
        stats: Statistics,
    ) -> None:
        self._store = store
        self._intake = intake
        self._levels = levels
        self._offsets = offsets
        self._arrivals = arrivals
        self._clock = clock
        self._settings = settings
        self._stats = stats

    def load(self) -> None:
        """Read the progress, and skip messages that were delivered after it was persisted."""
        self._offsets.load()
        for level in self._served():
            self._skip_delivered(level)

    def start(self, background: Background) -> None:
        for level in self._served():
            background.start(self._serve(level), f"delivery of delay level {level}")

    async def save(self) -> None:
        """Persist the progress; when the broker stops, after the last delivery."""
        await self._offsets.save()

    @property
    def body(self) -> DelayOffsetTable:
        """The offset of each level, for a slave."""
        return DelayOffsetTable(offset_table=self._offsets.snapshot())

    @property
    def progress(self) -> dict[int, tuple[int, int]]:
        """Level to its offset and the end of its queue."""
        return {
            level: (offset, self._store.bounds(SCHEDULE_TOPIC, level - 1)[1])
            for level, offset in sorted(self._offsets.snapshot().items())
        }

    def _served(self) -> range:
        """All levels, also ones that the settings no longer name: they may hold messages."""
        return range(1, max(self._levels.count, SCHEDULE_QUEUES) + 1)

    def _offset(self, level: int) -> int:
        """The offset of a level, moved into the bounds of its queue if it is outside of them."""
        first, end = self._store.bounds(SCHEDULE_TOPIC, level - 1)
        known = self._offsets.get(level)
        offset = first if known is None else min(max(known, first), end)
        if known is not None and offset != known:
            log.error(
                "delay level %d: offset %d is not in its queue (%d to %d); continuing at %d",
                level,
                known,
                first,
                end,
                offset,
            )
        return offset

    # After a kill between a delivery and the persisting of its progress

    def _skip_delivered(self, level: int) -> None:
        """Skip messages whose copies are in the log; the first one without a copy ends this."""
        last_ms = self._store.recovered.last_stored_ms
        offset = start = self._offset(level)
        while units := self._store.units(SCHEDULE_TOPIC, level - 1, offset, 1):
            message = self._store.message(SCHEDULE_TOPIC, level - 1, offset)
            if units[0].code > last_ms or message is None or not self._has_copy(message):
                break
            offset += 1
        if offset > start:
            log.info("delay level %d: %d were delivered before the stop", level, offset - start)
        if offset or self._offsets.get(level) is not None:
            self._offsets.set(level, offset)

    def _has_copy(self, message: StoredMessage) -> bool:
        properties = PropertyView(message.properties_text)
        key, destination = properties.get(UNIQ_KEY), real_queue(properties)
        if not key or destination is None or not self._store.has_index:
            return False
        # At any time: the clock may have been set back between the message and its copy.
        found = self._store.query(destination[0], key, 0, _EVER_MS)
        return any(each.prepared_offset == message.physical_offset for each in found)

    # Delivery

    async def _serve(self, level: int) -> None:
        while True:
            try:
                await self._deliver_some(level)
            except Exception as error:
                is_bug = not isinstance(error, OSError)
                log.error("delay level %d waits: %s", level, error, exc_info=is_bug)
                await self._clock.sleep_ms(_RETRY_MS)

    async def _deliver_some(self, level: int) -> None:
        queue_id, start = level - 1, self._offset(level)
        units = self._store.units(SCHEDULE_TOPIC, queue_id, start, _TURN)
        if not units:
            await self._arrivals.wait_past(SCHEDULE_TOPIC, queue_id, start, None, _PATIENCE_MS)
        for offset, unit in enumerate(units, start):
            await self._sleep_until(self._due_ms(queue_id, offset, unit.code), level)
            stored = await self._deliver(queue_id, offset)
            persist_ms = self._settings.now(BrokerConfig).flush_delay_offset_interval
            self._offsets.advance(level, offset + 1, stored, persist_ms)
        await asyncio.sleep(0)

    def _due_ms(self, queue_id: int, offset: int, code: int) -> int:
        """The due time: the unit's code or, if the queue's extension is lost, by the message."""
        lost = is_address(code)
        message = self._store.message(SCHEDULE_TOPIC, queue_id, offset) if lost else None
        if message is None:
            return code
        text, stored_ms = message.properties_text, message.stored_ms
        return self._levels.unit_code(SCHEDULE_TOPIC, text, 0, stored_ms)

    async def _sleep_until(self, due_ms: int, level: int) -> None:
        """Return when a message is due, and after the level's delay at the latest.

        A message that seems to be due later than that was stored before the clock was set back.
        """
        clock = self._clock
        delay_ms = self._levels.delay_ms(level) if level <= self._levels.count else _EVER_MS
        wait_ms = due_ms - clock.wall_ms()
        if not 0 < wait_ms <= delay_ms:
            return
        # One more millisecond: the two clocks count their milliseconds from different moments. This
        # bound is for a wall clock that is set back meanwhile, and must not make it early.
        end_ms = clock.monotonic_ms() + wait_ms + 1
        while (wait_ms := min(due_ms - clock.wall_ms(), end_ms - clock.monotonic_ms())) > 0:
            await clock.sleep_ms(min(wait_ms, _LOOK_AGAIN_MS))

    async def _deliver(self, queue_id: int, offset: int) -> Stored | None:
        """Store it in its real queue, retrying while the store refuses; None if it is invalid."""
        message = self._store.message(SCHEDULE_TOPIC, queue_id, offset)
        copy = _delivery(message) if message is not None else None
        if copy is None:
            log.error("delayed message %d of %d cannot be delivered: %s", offset, queue_id, message)
            return None
        is_logged = False
        while True:
            try:
                stored = self._intake.deliver(copy, self._clock.wall_ms())
            except Refused as error:
                if error.code == ResponseCode.MESSAGE_ILLEGAL:  # a limit was lowered since the send
                    log.error("delayed message %d of %d is dropped: %s", offset, queue_id, error)
                    return None
                if not is_logged:
                    is_logged = True
                    log.error("delivery of delayed messages waits: %s", error)
                await self._clock.sleep_ms(_RETRY_MS)
            else:
                self._count(queue_id, copy, stored)
                return stored

    def _count(self, queue_id: int, copy: NewMessage, stored: Stored) -> None:
        """Count it as read from the schedule topic and as put into its own topic."""
        if self._settings.now(BrokerConfig).enable_schedule_message_stats:
            self._stats.delivered(_GROUP, SCHEDULE_TOPIC, queue_id, stored.size)
            self._stats.put(copy.topic, copy.queue_id, 1, stored.size)


def _delivery(message: StoredMessage) -> NewMessage | None:
    """The copy for the real queue; None if that queue is missing, invalid or not allowed.

    Its properties still name the delay, as in Apache RocketMQ 4.9.7. The prepared offset, which
    only transactions use, names the delayed message.
    """
    destination = real_queue(PropertyView(message.properties_text))
    if destination is None or destination[0] in (HALF_TOPIC, SCHEDULE_TOPIC):
        return None
    copy = copy_of(message, *destination)
    copy.prepared_offset = message.physical_offset
    return copy
