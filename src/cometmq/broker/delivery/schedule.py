"""Delivery of delayed messages: each level's queue in order, each message when it is due.

All messages of a level wait equally long, so the first of its queue is the first to go: one
coroutine for each level sleeps until then, or waits for the queue to grow. Progress is kept in
delayOffset.json a second after it was made. What a killed process delivered in that second is
found by its unique key, since a copy names the place of the message it was made of; only without
such a key is it delivered twice.
"""

import asyncio
import logging
from pathlib import Path

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.copies import copy_of, real_queue
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.durable_progress import DurableProgress
from cometmq.broker.tables.table_file import KeptTable
from cometmq.broker.tables.topics import SCHEDULE_QUEUES
from cometmq.errors import BeingDeleted, DiskFull, PeerError, StoreFailed
from cometmq.protocol.bodies.tables import DelayOffsetTable
from cometmq.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import UNIQ_KEY, take_property
from cometmq.seams import Clock, Disk
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.queue_extension import is_address
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

_TURN = 32  # messages of one level, before others on the loop have their turn
_RETRY_MS = 1_000  # after a delivery for which there was no room
_LOOK_AGAIN_MS = 60_000  # in a long sleep: the machine may have slept, or its clock been set
_PATIENCE_MS = 24 * 3600 * 1000
_EVER_MS = 2**62
_GROUP = "SCHEDULE_CONSUMER"  # under which deliveries are counted


class Schedule:
    """Level to the queue offset of the message that is to be delivered next."""

    def __init__(
        self,
        store: MessageStore,
        levels: DelayLevels,
        arrivals: Arrivals,
        clock: Clock,
        settings: LiveSettings,
        background: Background,
        disk: Disk,
        path: Path,
        stats: Statistics,
    ) -> None:
        self._store = store
        self._stats = stats
        self._levels = levels
        self._arrivals = arrivals
        self._clock = clock
        self._settings = settings
        self._background = background
        self._offsets: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        self.file = KeptTable(disk, path, lambda: DelayOffsetTable(offset_table=self._kept))
        self._progress = DurableProgress(
            store,
            clock,
            background,
            lambda: settings.now(BrokerConfig).flush_delay_offset_interval,
            lambda: dict(self._offsets),
            self._keep,
        )

    def load(self) -> None:
        """Read the file, and pass over what was delivered after it was written."""
        kept = self.file.read(DelayOffsetTable)
        if kept is not None:
            self._offsets = dict(kept.offset_table)
        for level in self._served():
            self._pass_over_delivered(level)

    def start(self) -> None:
        """Deliver, from now on."""
        for level in self._served():
            self._background.start(self._serve(level), f"delivery of delay level {level}")

    async def save(self) -> None:
        """Keep how far it is; at the stop, once nothing is delivered any more."""
        await self._progress.save()

    @property
    def body(self) -> DelayOffsetTable:
        """How far each level is, as a slave wants it."""
        return DelayOffsetTable(offset_table=dict(self._offsets))

    @property
    def progress(self) -> dict[int, tuple[int, int]]:
        """Level to where it is and where its queue ends."""
        return {
            level: (offset, self._store.bounds(SCHEDULE_TOPIC, level - 1)[1])
            for level, offset in sorted(self._offsets.items())
        }

    async def _keep(self, offsets: dict[int, int]) -> None:
        if offsets != self._kept:
            self._kept = offsets
            self.file.changed()
        await self.file.save()

    def _served(self) -> range:
        """Also levels that the settings do not name any more: they may hold messages."""
        return range(1, max(self._levels.count, SCHEDULE_QUEUES) + 1)

    def _offset(self, level: int) -> int:
        """Where a level is: inside its queue, whatever the file says."""
        first, end = self._store.bounds(SCHEDULE_TOPIC, level - 1)
        said = self._offsets.get(level, first)
        offset = min(max(said, first), end)
        if offset != said:
            log.error(
                "delay level %d: offset %d is not in its queue, which has %d to %d; on from %d",
                level,
                said,
                first,
                end,
                offset,
            )
        return offset

    # A kill between a delivery and the note of it

    def _pass_over_delivered(self, level: int) -> None:
        """Those whose copies are in the log already; they are in order, so the first miss ends."""
        last_ms = self._store.recovered.last_stored_ms
        offset = start = self._offset(level)
        while units := self._store.units(SCHEDULE_TOPIC, level - 1, offset, 1):
            message = self._store.message(SCHEDULE_TOPIC, level - 1, offset)
            if units[0].code > last_ms or message is None or not self._has_copy(message):
                break
            offset += 1
        if offset > start:
            log.info("delay level %d: %d were delivered before the stop", level, offset - start)
        if offset or level in self._offsets:
            self._offsets[level] = offset

    def _has_copy(self, message: StoredMessage) -> bool:
        _, key = take_property(message.properties_text, UNIQ_KEY)
        place = real_queue(message.properties_text)
        if not key or place is None or not self._settings.now(StoreConfig).message_index_enable:
            return False
        # At any time: the clock may have been set back between the message and its copy.
        found = self._store.query(place[0], key, 0, _EVER_MS)
        return any(each.prepared_offset == message.physical_offset for each in found)

    # Delivery

    async def _serve(self, level: int) -> None:
        while True:
            try:
                await self._serve_some(level)
            except Exception as error:
                is_ours = not isinstance(error, OSError)
                log.error("delay level %d waits: %s", level, error, exc_info=is_ours)
                await self._clock.sleep_ms(_RETRY_MS)

    async def _serve_some(self, level: int) -> None:
        queue_id, start = level - 1, self._offset(level)
        units = self._store.units(SCHEDULE_TOPIC, queue_id, start, _TURN)
        if not units:
            await self._arrivals.wait_past(SCHEDULE_TOPIC, queue_id, start, None, _PATIENCE_MS)
        for offset, unit in enumerate(units, start):
            await self._until(self._due_ms(queue_id, offset, unit.code), level)
            stored = await self._delivered(level, offset)
            self._offsets[level] = offset + 1
            self._progress.moved(stored)
        await asyncio.sleep(0)

    def _due_ms(self, queue_id: int, offset: int, code: int) -> int:
        """When a message is due: its unit's code, or if the extension is lost, what itself says."""
        lost = is_address(code)
        message = self._store.message(SCHEDULE_TOPIC, queue_id, offset) if lost else None
        if message is None:
            return code
        text, stored_ms = message.properties_text, message.stored_ms
        return self._levels.unit_code(SCHEDULE_TOPIC, text, 0, stored_ms)

    async def _until(self, due_ms: int, level: int) -> None:
        """Return when it is due, and never later than a message of this level can be due from now.

        A message that seems to be due later than that was stored before the clock was set back.
        """
        clock = self._clock
        delay_ms = self._levels.delay_ms(level) if level <= self._levels.count else _EVER_MS
        wait_ms = due_ms - clock.wall_ms()
        if not 0 < wait_ms <= delay_ms:
            return
        # One more than it waits: the two clocks count their milliseconds from different moments,
        # and this bound is for a wall clock that is set back meanwhile, not to be early by a part.
        end_ms = clock.monotonic_ms() + wait_ms + 1
        while (wait_ms := min(due_ms - clock.wall_ms(), end_ms - clock.monotonic_ms())) > 0:
            await clock.sleep_ms(min(wait_ms, _LOOK_AGAIN_MS))

    async def _delivered(self, level: int, offset: int) -> Stored | None:
        """Put it in its real queue, as soon as there is room; None if that can never be."""
        queue_id = level - 1
        message = self._store.message(SCHEDULE_TOPIC, queue_id, offset)
        copy = _delivery(message) if message is not None else None
        if copy is None:
            log.error("delayed message %d of %d cannot be delivered: %s", offset, queue_id, message)
            return None
        is_told = False
        while True:
            try:
                stored = self._store.put(copy, self._clock.wall_ms(), internal=True)
                self._count(queue_id, copy, stored)
                return stored
            except (DiskFull, BeingDeleted, StoreFailed) as error:
                if not is_told:
                    is_told = True
                    log.error("delayed messages wait: %s", error)
                await self._clock.sleep_ms(_RETRY_MS)
            except PeerError as error:  # the limits are others than when it was sent
                log.error("delayed message %d of %d is given up: %s", offset, queue_id, error)
                return None

    def _count(self, queue_id: int, copy: NewMessage, stored: Stored) -> None:
        """Out of the schedule topic, and into its own: there it was not counted when it came."""
        if self._settings.now(BrokerConfig).enable_schedule_message_stats:
            self._stats.delivered(_GROUP, SCHEDULE_TOPIC, queue_id, stored.size)
            self._stats.put(copy.topic, copy.queue_id, 1, stored.size)


def _delivery(message: StoredMessage) -> NewMessage | None:
    """What is put in the real queue; None if it must not, or the message does not say where.

    Its properties still tell of the delay, as the original's do. The field of a transaction's
    prepared message, which is free here, names the place that it comes from.
    """
    place = real_queue(message.properties_text)
    if place is None or place[0] in (HALF_TOPIC, SCHEDULE_TOPIC):
        return None
    copy = copy_of(message, *place)
    copy.prepared_offset = message.physical_offset
    return copy
