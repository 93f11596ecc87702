"""Reads of a queue: units in range, filtered by tag code, as few views of the log as can be."""

from collections.abc import Callable

import msgspec

from cometmq.errors import Malformed
from cometmq.protocol.message import StoredMessage, unpack_record
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import NO_RECORD, UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.found import Found, GetStatus

# Is a message with this tag code wanted? And, if so, with this record?
TagFilter = Callable[[int], bool]
RecordFilter = Callable[[memoryview], bool]

_UNITS_SCANNED_MAX = 800  # of one read, as the original's 16000 bytes


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one read may return: from memory, or from further back, where it costs a disk."""

    hot_bytes: int = 256 << 10
    hot_count: int = 32
    cold_bytes: int = 64 << 10
    cold_count: int = 8
    memory: int = 4 << 30  # bytes of the log's end that count as hot


class Reader:
    """Reads of one store."""

    def __init__(self, log: CommitLog, limits: ReadLimits) -> None:
        self._log = log
        self._limits = limits

    def get(
        self, queue: ConsumeQueue, queue_offset: int, count_max: int,
        wants_tag: TagFilter | None = None, wants_record: RecordFilter | None = None,
    ) -> Found:  # fmt: skip
        """Up to `count_max` messages from `queue_offset` on."""
        refusal = _refusal(queue, queue_offset)
        if refusal is not None:
            return refusal
        filtered = wants_tag is not None or wants_record is not None
        units = queue.units(queue_offset, _UNITS_SCANNED_MAX if filtered else count_max)
        if len(units) < UNIT_SIZE:
            return _nothing(queue, queue_offset, GetStatus.OFFSET_FOUND_NULL)
        bytes_max, count_max = self._limits_at(UNIT.unpack_from(units)[0], count_max)
        # One flat loop over local names: 0.4 us a message, and it is run for every message read.
        runs: list[tuple[int, int]] = []  # start and end of neighbouring records
        start = end = -1
        count = total = scanned = 0
        log_start, removed = self._log.start, False
        for physical_offset, size, tag_code in UNIT.iter_unpack(units):
            if count >= count_max or (total + size > bytes_max and count):
                break
            scanned += 1
            if physical_offset < log_start:  # its file went, and the queue does not know yet
                removed = True
                continue
            if wants_tag is not None and not wants_tag(tag_code):
                continue
            if wants_record is not None and not self._is_wanted(
                physical_offset, size, wants_record
            ):
                continue
            if physical_offset != end or size == NO_RECORD:
                if count and start >= 0:
                    runs.append((start, end))
                start = physical_offset
                if size == NO_RECORD:
                    start = end = -1
                    continue
            end = physical_offset + size
            total += size
            count += 1
        if start >= 0:
            runs.append((start, end))
        if not count:
            why = GetStatus.MESSAGE_WAS_REMOVING if removed else GetStatus.NO_MATCHED_MESSAGE
            return _nothing(queue, queue_offset, why, scanned)
        return self._found(queue, queue_offset, scanned, count, runs)

    def _limits_at(self, physical_offset: int, count_max: int) -> tuple[int, int]:
        """Bytes and messages that one read from there may return."""
        limits = self._limits
        if self._log.end - physical_offset > limits.memory:
            return limits.cold_bytes, min(count_max, limits.cold_count)
        return limits.hot_bytes, min(count_max, limits.hot_count)

    def _is_wanted(self, physical_offset: int, size: int, wants: RecordFilter) -> bool:
        view = self._log.view(physical_offset, size)
        return view is not None and wants(view)

    def _found(
        self, queue: ConsumeQueue, queue_offset: int, scanned: int, count: int,
        runs: list[tuple[int, int]],
    ) -> Found:  # fmt: skip
        log = self._log
        # Neighbours leave as one slice: a run never spans two files, since a blank ends each.
        views = log.views(runs)
        if views is None:  # units past the end of the log: never written, or by someone else
            return _nothing(queue, queue_offset, GetStatus.MESSAGE_WAS_REMOVING, scanned)
        return Found(
            status=GetStatus.FOUND,
            next_offset=queue_offset + scanned,
            min_offset=queue.first,
            max_offset=queue.end,
            views=tuple(views),
            count=count,
            from_slave=log.end - runs[-1][1] > self._limits.memory,
        )

    def record(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record starts there, if one does."""
        head = self._log.view(physical_offset, 4)
        if head is None:
            return None
        view = self._log.view(physical_offset, int.from_bytes(head, signed=True))
        return unpack_record(view) if view is not None else None

    def record_or_none(self, physical_offset: int) -> StoredMessage | None:
        """As `record`; None also for a damaged one."""
        try:
            return self.record(physical_offset)
        except Malformed:
            return None


def _refusal(queue: ConsumeQueue, queue_offset: int) -> Found | None:
    """The answer to an offset that is not in the queue."""
    first, end = queue.first, queue.end
    if first <= queue_offset < end:
        return None
    if end == 0:
        status, next_offset = GetStatus.NO_MESSAGE_IN_QUEUE, 0
    elif queue_offset < first:
        status, next_offset = GetStatus.OFFSET_TOO_SMALL, first
    elif queue_offset == end:
        status, next_offset = GetStatus.OFFSET_OVERFLOW_ONE, queue_offset
    else:
        status, next_offset = GetStatus.OFFSET_OVERFLOW_BADLY, end if first else 0
    return Found(status=status, next_offset=next_offset, min_offset=first, max_offset=end)


def _nothing(queue: ConsumeQueue, queue_offset: int, status: GetStatus, scanned: int = 1) -> Found:
    return Found(
        status=status,
        next_offset=queue_offset + scanned,
        min_offset=queue.first,
        max_offset=queue.end,
    )
