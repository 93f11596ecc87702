"""Reads of a queue: units in range, filtered by tag code and record, as views of the log."""

import os
from collections.abc import Callable

import msgspec

from cometmq.errors import Malformed
from cometmq.protocol.records.message import StoredMessage, unpack_record
from cometmq.store.config import StoreConfig
from cometmq.store.log.commit_log import CommitLog, LogFile
from cometmq.store.log.vetting import Vetting
from cometmq.store.queue.consume_queue import NO_RECORD, UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.queue.queue_extension import is_address
from cometmq.store.queue.results import Found, GetStatus, UnitVerdict
from cometmq.store.queue.unit_check import plausible_count

# Whether a message with this tag code, or this record, is wanted.
TagFilter = Callable[[int], bool]
RecordFilter = Callable[[memoryview], bool]

# Requests the rebuild of a damaged unit, given its queue and queue offset.
Rebuild = Callable[[ConsumeQueue, int], None]

Runs = list[tuple[int, int]]  # start and end of adjacent records in the log

NEVER = 2**63  # an offset after all others
UNITS_SCANNED_MAX = 800  # per read, as Apache's 16000 bytes


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one read: hot data is in memory, cold data must be read from the disk."""

    hot_bytes: int = 256 << 10
    hot_count: int = 32
    cold_bytes: int = 64 << 10
    cold_count: int = 8
    memory: int = 4 << 30  # bytes of the log's end that count as hot

    @property
    def count(self) -> int:
        """The maximum number of messages of any read."""
        return max(self.hot_count, self.cold_count)


def read_limits(config: StoreConfig) -> ReadLimits:
    """The limits for the settings and the memory of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return ReadLimits(
        hot_bytes=config.max_transfer_bytes_on_message_in_memory,
        hot_count=config.max_transfer_count_on_message_in_memory,
        cold_bytes=config.max_transfer_bytes_on_message_in_disk,
        cold_count=config.max_transfer_count_on_message_in_disk,
        memory=memory * config.access_message_in_memory_max_ratio // 100,
    )


class Reader:
    """Reads the queues of one store."""

    def __init__(
        self, log: CommitLog, limits: ReadLimits, vetting: Vetting, rebuild: Rebuild
    ) -> None:
        self._log = log
        self._vetting = vetting
        self._rebuild = rebuild
        self.use(limits)

    def use(self, limits: ReadLimits) -> None:
        """Use other limits from now on."""
        self._limits = limits
        self._count_max = limits.count

    def get(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        count_max: int,
        wants_tag: TagFilter | None = None,
        wants_record: RecordFilter | None = None,
        units_max: int = UNITS_SCANNED_MAX,
    ) -> Found:
        """Up to `count_max` messages from `queue_offset` on; one if that is 0 or less.

        A filtered read scans at most `units_max` units.
        """
        if not queue.first <= queue_offset < queue.end:
            return _refusal(queue, queue_offset)
        filtered = wants_tag is not None or wants_record is not None
        if count_max > self._count_max:
            count_max = self._count_max
        elif count_max < 1:
            count_max = 1
        units = queue.units(queue_offset, units_max if filtered else count_max)
        is_trusted = queue_offset >= queue.trusted_from
        if not is_trusted:
            units = self._plausible(queue, queue_offset, units)
        if len(units) < UNIT_SIZE:
            self._rebuild(queue, queue_offset)
            return _nothing(queue, queue_offset, GetStatus.REBUILDING, 0)
        physical_offset = UNIT.unpack_from(units)[0]
        limits = self._limits
        if self._log.end - physical_offset > limits.memory:
            bytes_max, count_max = limits.cold_bytes, min(count_max, limits.cold_count)
        else:
            bytes_max, count_max = limits.hot_bytes, min(count_max, limits.hot_count)
        if is_trusted and not filtered and physical_offset >= self._log.trusted_from:
            units = units[: count_max * UNIT_SIZE]
            file = self._log.file_at(physical_offset)
            views = _views_of_all(units, file, bytes_max) if file is not None else None
            if views is not None:
                count = len(units) // UNIT_SIZE
                last_offset, size, _ = UNIT.unpack_from(units, len(units) - UNIT_SIZE)
                return self._found(queue, queue_offset, count, count, views, last_offset + size)
        return self._scan(queue, queue_offset, units, bytes_max, count_max, wants_tag, wants_record)

    def _scan(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        units: bytes,
        bytes_max: int,
        count_max: int,
        wants_tag: TagFilter | None,
        wants_record: RecordFilter | None,
    ) -> Found:
        """Scan unit by unit: filter, limit the bytes, skip removed records, join adjacent ones."""
        # One flat loop over local names: 0.4 us a message.
        runs: Runs = []
        start = end = -1
        count = total = scanned = 0
        log_start, removed, is_wrong = self._log.start, False, False
        trusted_from = NEVER if queue_offset < queue.trusted_from else self._log.trusted_from
        for physical_offset, size, tag_code in queue.coded(units):
            if count >= count_max or (total + size > bytes_max and count):
                break
            scanned += 1
            if physical_offset < log_start:  # its file is deleted, and the queue is not swept yet
                removed = True
                continue
            # The code may be an address in an extension: then the consumer filters by tag itself.
            if wants_tag is not None and not is_address(tag_code) and not wants_tag(tag_code):
                continue
            if size == NO_RECORD:
                continue
            if physical_offset < trusted_from:
                place = queue_offset + scanned - 1
                verdict = self._vetting.verdict(queue, place, physical_offset, size)
                if verdict.is_wrong and place < queue.trusted_from:
                    self._rebuild(queue, place)
                    is_wrong, scanned = True, scanned - 1
                    break
                if verdict is not UnitVerdict.GOOD:
                    if verdict.is_wrong:  # the unit is in memory, so the record has changed
                        self._vetting.report(physical_offset, size)
                    continue
            if wants_record is not None and not self._is_wanted(
                physical_offset, size, wants_record
            ):
                continue
            if physical_offset != end:
                if start >= 0:
                    runs.append((start, end))
                start = physical_offset
            end = physical_offset + size
            total += size
            count += 1
        if start >= 0:
            runs.append((start, end))
        if not count and is_wrong and not scanned:
            return _nothing(queue, queue_offset, GetStatus.REBUILDING, 0)
        if not count:
            why = GetStatus.MESSAGE_WAS_REMOVING if removed else GetStatus.NO_MATCHED_MESSAGE
            return _nothing(queue, queue_offset, why, scanned)
        # A run never spans two files, because a blank record ends each file.
        views = self._log.views(runs)
        if views is None:  # units past the end of the log
            return _nothing(queue, queue_offset, GetStatus.MESSAGE_WAS_REMOVING, scanned)
        return self._found(queue, queue_offset, scanned, count, views, end)

    def units(self, queue: ConsumeQueue, queue_offset: int, count: int) -> bytes:
        """Packed units up to the first wrong one, whose rebuild is requested."""
        units = queue.units(queue_offset, count)
        if queue_offset >= queue.trusted_from:
            return units
        units = self._plausible(queue, queue_offset, units)
        place = queue_offset
        for physical_offset, size, _ in UNIT.iter_unpack(units):
            if (
                size != NO_RECORD
                and self._vetting.verdict(queue, place, physical_offset, size).is_wrong
            ):
                break
            place += 1
        if place == queue_offset and queue.first <= place < queue.end:
            self._rebuild(queue, place)
        return units[: (place - queue_offset) * UNIT_SIZE]

    def _plausible(self, queue: ConsumeQueue, queue_offset: int, units: bytes) -> bytes:
        return units[: plausible_count(self._log, queue, queue_offset, units) * UNIT_SIZE]

    def is_hot(self, physical_offset: int) -> bool:
        """Whether an offset is near enough to the end of the log to be in memory."""
        return self._log.end - physical_offset <= self._limits.memory

    def _is_wanted(self, physical_offset: int, size: int, wants: RecordFilter) -> bool:
        view = self._log.view(physical_offset, size)
        return view is not None and wants(view)

    def _found(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        scanned: int,
        count: int,
        views: list[memoryview],
        end: int,
    ) -> Found:
        return Found(
            status=GetStatus.FOUND,
            next_offset=queue_offset + scanned,
            min_offset=queue.first,
            max_offset=queue.end,
            views=tuple(views),
            count=count,
            from_slave=self._log.end - end > self._limits.memory,
        )

    def record(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record starts at this offset; None if no record does."""
        file = self._log.file_at(physical_offset)
        if file is None:
            return None
        at = physical_offset - file.base
        size = int.from_bytes(file.memory[at : at + 4], signed=True)
        if not 4 <= size <= file.written - at:
            return None
        message = unpack_record(file.memory[at : at + size])
        # A body may look like a record, but only a real record names its own offset.
        return message if message.physical_offset == physical_offset else None

    def record_or_none(self, physical_offset: int) -> StoredMessage | None:
        """As `record`; also None if the record is damaged."""
        try:
            return self.record(physical_offset)
        except Malformed:
            return None


def _views_of_all(units: bytes, file: LogFile, bytes_max: int) -> list[memoryview] | None:
    """The records of all units, adjacent ones joined; None if one must be skipped or does not fit.

    Most reads stay in one file, and this costs half of `_scan`: "get of 32" in bench/store.py.
    """
    base, memory = file.base, file.memory
    start = end = UNIT.unpack_from(units)[0] - base
    views = []
    total = 0
    for physical_offset, size, _ in UNIT.iter_unpack(units):
        at = physical_offset - base
        if at != end:
            if not start < end < at:  # along a queue, places grow
                return None
            views.append(memory[start:end])
            start = at
        end = at + size
        total += size
    if not start < end <= file.written or total > bytes_max:
        return None
    views.append(memory[start:end])
    return views


def _refusal(queue: ConsumeQueue, queue_offset: int) -> Found:
    """The result for an offset outside of the queue."""
    first, end = queue.first, queue.end
    if end == 0:
        status, next_offset = GetStatus.NO_MESSAGE_IN_QUEUE, 0
    elif queue_offset < first:
        status, next_offset = GetStatus.OFFSET_TOO_SMALL, first
    elif queue_offset == end:
        status, next_offset = GetStatus.OFFSET_OVERFLOW_ONE, queue_offset
    else:
        status, next_offset = GetStatus.OFFSET_OVERFLOW_BADLY, end
    return Found(status=status, next_offset=next_offset, min_offset=first, max_offset=end)


def _nothing(queue: ConsumeQueue, queue_offset: int, status: GetStatus, scanned: int = 1) -> Found:
    return Found(
        status=status,
        next_offset=queue_offset + scanned,
        min_offset=queue.first,
        max_offset=queue.end,
    )
