"""Damaged units of a queue are rebuilt from the log while the store serves.

A reader that meets a wrong unit requests its rebuild and returns REBUILDING until it is done. The
rebuild looks for the nearest good units on both sides, walks the log between their records, and
writes the units of that stretch again. The walk decides what is damaged: where the log has the
record, the unit was wrong; where the log is damaged, the unit stays empty and the log is reported.
The work is done in turns of about a millisecond.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

import msgspec

from cometmq.seams import Disk
from cometmq.store.index.tag_and_keys import tag_code_and_keys
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.vetting import Vetting
from cometmq.store.log.walk import BadBytes, record_at, walk
from cometmq.store.queue.consume_queue import NO_RECORD, UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.queue.file_runs import Write
from cometmq.store.queue.queue_table import QueueTable
from cometmq.store.queue.results import Verdict
from cometmq.store.queue.unit_check import judge
from cometmq.store.recovery.rebuild import TRANSACTION, UNQUEUED, Coder

log = logging.getLogger(__name__)

_UNITS_A_TURN = 256  # looked at
_RECORDS_A_TURN, _BYTES_A_TURN = 256, 1 << 20  # walked
_FILLED_A_TURN = 2048 * UNIT_SIZE  # bytes of units
_GOOD_AFTER = 64  # units in a row that are good end a stretch
_UNITS_MAX = 1 << 20  # of one stretch: 20 MB
_RETRY_MS = 5_000  # after a write that failed
_NO_UNIT = bytes(UNIT_SIZE)

Announce = Callable[[str, int, int, int], None]
WriteUnits = Callable[[Callable[[], list[Write] | None]], Coroutine[Any, Any, bool]]


class Stretch(msgspec.Struct):
    """Units from queue offset `first` to `end`, and where in the log their records are."""

    first: int
    end: int
    log_start: int
    log_end: int
    is_oldest: bool  # no unit before it has its record in the log
    is_open: bool  # no good unit ends it


class Rebuilt(msgspec.Struct):
    """What the log says of a stretch."""

    stretch: Stretch
    units: bytearray
    old: bytes
    wrong: int = 0
    lost: int = 0


class UnitRebuild:
    """Rebuilds one stretch after the other. `count` is of those that had a wrong unit."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueTable,
        vetting: Vetting,
        coder: Coder | None,
        announce: Announce,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._vetting = vetting
        self._coder = coder
        self._announce = announce
        self._wanted: dict[ConsumeQueue, set[int]] = {}
        self.count = 0
        self.asked = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def ask_for(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Have the unit rebuilt soon."""
        self._wanted.setdefault(queue, set()).add(queue_offset)
        self.idle.clear()
        self.asked.set()

    async def serve(self, write: WriteUnits, pause_ms: Callable[[int], Any]) -> None:
        """Rebuild what is asked for, until cancelled."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            while self._wanted:
                queue, offsets = next(iter(self._wanted.items()))
                try:
                    await self._rebuild(queue, min(offsets), write)
                except OSError as error:
                    log.error("units of queue %d of %s stay damaged: %s", *_named(queue), error)
                    self._wanted[queue] = self._wanted.pop(queue)  # others come first
                    await pause_ms(_RETRY_MS)
                    continue
                self._wanted.pop(queue, None)
            self.idle.set()

    async def _rebuild(self, queue: ConsumeQueue, queue_offset: int, write: WriteUnits) -> None:
        steps = self._steps(queue, queue_offset)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                rebuilt = done.value
                break
            await asyncio.sleep(0)
        topic, queue_id = queue.key
        if rebuilt is not None and await write(
            lambda: self._writes(queue, rebuilt) if self._queues.is_current(queue) else None
        ):
            self._finish(queue, rebuilt)
        self._announce(topic, queue_id, queue.end, 0)

    def check_now(self, queue: ConsumeQueue, start: int, disk: Disk) -> None:
        """Before anybody is served: check units from `start` on, and rebuild wrong ones."""
        start = max(start, queue.first)
        while start < queue.trusted_from:
            end = min(start + _UNITS_A_TURN, queue.trusted_from)
            judged = self._judged(queue, start, end)
            wrong = next((number for number, verdict, _, _ in judged if verdict.is_wrong), None)
            start = end if wrong is None else self._rebuild_now(queue, wrong, disk)

    def _rebuild_now(self, queue: ConsumeQueue, queue_offset: int, disk: Disk) -> int:
        """Returns the queue offset after the stretch that was rebuilt, or could not be."""
        steps = self._steps(queue, queue_offset)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                rebuilt = done.value
                break
        if rebuilt is not None:
            try:
                disk.write_all(self._writes(queue, rebuilt))
            except OSError as error:
                log.error("units of queue %d of %s stay damaged: %s", *_named(queue), error)
            else:
                self._finish(queue, rebuilt)
        return max(queue_offset + 1, rebuilt.stretch.end if rebuilt is not None else 0)

    def _steps(
        self, queue: ConsumeQueue, queue_offset: int
    ) -> Generator[None, None, Rebuilt | None]:
        """Yields after each turn's work."""
        if not queue.first <= queue_offset < queue.in_files_to:
            return None
        stretch = yield from self._stretch(queue, queue_offset)
        old = b"".join(_units_of(queue, stretch.first, stretch.end))
        rebuilt = Rebuilt(stretch, bytearray((stretch.end - stretch.first) * UNIT_SIZE), old)
        yield from self._collect(queue, rebuilt)
        yield from self._fill(rebuilt)
        return rebuilt

    # Which units, and where their records are

    def _stretch(self, queue: ConsumeQueue, asked: int) -> Generator[None, None, Stretch]:
        found = Stretch(asked, asked + 1, self._log.start, self._log.end, True, True)
        yield from self._find_first(queue, found)
        end_max = min(queue.in_files_to, found.first + _UNITS_MAX)
        good = 0  # units in a row
        for start in range(asked + 1, end_max, _UNITS_A_TURN):
            end = min(start + _UNITS_A_TURN, end_max)
            for number, verdict, offset, _ in self._judged(queue, start, end):
                if verdict is not Verdict.GOOD:
                    good, found.end = 0, number + 1
                    continue
                good += 1
                if good == 1:
                    found.log_end, found.is_open = offset, False
                if good == _GOOD_AFTER:
                    return found
            yield
        if not good:
            found.is_open, found.log_end = True, self._log.end
            following = queue.unit(found.end)
            if found.end == queue.in_files_to and following is not None:
                found.is_open, found.log_end = False, following[0]
        return found

    def _find_first(self, queue: ConsumeQueue, found: Stretch) -> Generator[None, None, None]:
        """Back to the nearest good unit, or to one whose record left the log."""
        while found.first > queue.first:
            start = max(queue.first, found.first - _UNITS_A_TURN)
            block = list(self._judged(queue, start, found.first))
            for number, verdict, offset, size in reversed(block):
                if verdict is Verdict.GOOD:
                    found.log_start, found.is_oldest = offset + size, False
                if verdict in (Verdict.GOOD, Verdict.GONE):
                    return
                found.first = number
            yield

    def _judged(
        self, queue: ConsumeQueue, start: int, end: int
    ) -> Iterator[tuple[int, Verdict, int, int]]:
        """Queue offset, verdict, physical offset and size of each unit."""
        key, units = queue.key, b"".join(_units_of(queue, start, end))
        for number, (offset, size, _) in enumerate(UNIT.iter_unpack(units), start):
            yield number, judge(self._log, key, number, offset, size), offset, size

    # What the log says

    def _collect(self, queue: ConsumeQueue, rebuilt: Rebuilt) -> Generator[None, None, None]:
        stretch, units = rebuilt.stretch, rebuilt.units
        at, end = stretch.log_start, stretch.log_end
        key, coder = queue.key, self._coder
        deleted_to = self._queues.deleted.get(key[0], 0)
        while at < end:
            begun, count = max(at, self._log.start), 0
            at = begun
            for item in walk(self._log, begun):
                if isinstance(item, BadBytes):
                    at = item.offset + item.size
                    if item.offset < end:
                        self._vetting.report(item.offset, item.size)
                    continue
                offset, size, topic, queue_id, queue_offset, sys_flag, stored_ms, text, _ = item
                at, count = offset + size, count + 1
                if offset >= end:
                    break
                place = (queue_offset - stretch.first) * UNIT_SIZE
                if (topic, queue_id) == key and sys_flag & TRANSACTION not in UNQUEUED:
                    if stretch.is_open and place == len(units):
                        return
                    is_its = 0 <= place < len(units) and offset >= deleted_to
                    if is_its and units[place : place + UNIT_SIZE] == _NO_UNIT:
                        code = tag_code_and_keys(text)[0]
                        if coder is not None:
                            code = int(coder(topic, text, code, stored_ms))
                        UNIT.pack_into(units, place, offset, size, code)
                if count >= _RECORDS_A_TURN or at - begun >= _BYTES_A_TURN:
                    break
            if at == begun:
                return
            yield

    def _fill(self, rebuilt: Rebuilt) -> Generator[None, None, None]:
        """Give a unit to the places for which the log has no record; count what was wrong."""
        stretch, units, old = rebuilt.stretch, rebuilt.units, rebuilt.old
        following = stretch.log_end
        for at in range(len(units) - UNIT_SIZE, -1, -UNIT_SIZE):
            if at % _FILLED_A_TURN == 0:
                yield
            was = old[at : at + UNIT_SIZE]
            if units[at : at + UNIT_SIZE] != _NO_UNIT:
                rebuilt.wrong += units[at : at + UNIT_SIZE] != was
                following = UNIT.unpack_from(units, at)[0]
                continue
            if self._has_misnamed_record(was, stretch.log_start, following):
                units[at : at + UNIT_SIZE] = was
                following = UNIT.unpack(was)[0]
                continue
            place, size, _ = UNIT.unpack(was)
            was_right = size == NO_RECORD or stretch.log_start <= place < following
            rebuilt.wrong += not was_right
            rebuilt.lost += 1
            UNIT.pack_into(units, at, following, NO_RECORD, 0)

    def _has_misnamed_record(self, unit: bytes, start: int, end: int) -> bool:
        """A good record where this unit's record must be, whose header names another queue offset.

        No crc covers what a record says of its place.
        """
        physical_offset, size, _ = UNIT.unpack(unit)
        file = self._log.file_at(physical_offset)
        if file is None or not start <= physical_offset <= physical_offset + size <= end:
            return False
        record = record_at(file, physical_offset - file.base)
        if record is None or record[1] != size or self._queues.has_unit(*record[2:5], record[0]):
            return False
        self._vetting.report(physical_offset, size)
        return True

    # What becomes of it

    def _writes(self, queue: ConsumeQueue, rebuilt: Rebuilt) -> list[Write]:
        """Without units whose records left the log, and whose files may be gone."""
        stretch, units = rebuilt.stretch, rebuilt.units
        if stretch.is_oldest:
            gone = 0
            while gone < len(units) and UNIT.unpack_from(units, gone)[1] == NO_RECORD:
                gone += UNIT_SIZE
            if gone and self._log.start:
                queue.first = max(queue.first, stretch.first + gone // UNIT_SIZE)
                rebuilt.lost -= gone // UNIT_SIZE
        skipped = max(queue.first - stretch.first, 0)
        del units[: skipped * UNIT_SIZE]
        stretch.first += skipped
        return queue.rewrite(stretch.first, bytes(units)) if units else []

    def _finish(self, queue: ConsumeQueue, rebuilt: Rebuilt) -> None:
        queue.rewritten()
        stretch = rebuilt.stretch
        for number, (_, size, _) in enumerate(UNIT.iter_unpack(rebuilt.units), stretch.first):
            if size != NO_RECORD:
                self._vetting.vouch_for(queue, number)
        if rebuilt.wrong:
            self.count += 1
            log.error(
                "%s: %d units from queue offset %d to %d were damaged; rebuilt from the log",
                queue.path_of(stretch.first),
                rebuilt.wrong,
                stretch.first,
                stretch.end - 1,
            )
        if rebuilt.lost:
            log.error(
                "queue %d of %s: %d messages between queue offsets %d and %d"
                " have no good record in the log",
                *_named(queue),
                rebuilt.lost,
                stretch.first,
                stretch.end - 1,
            )


def _named(queue: ConsumeQueue) -> tuple[int, str]:
    topic, queue_id = queue.key
    return queue_id, topic


def _units_of(queue: ConsumeQueue, start: int, end: int) -> Iterator[bytes]:
    """What the files hold; zeros where they hold nothing."""
    while start < end:
        units = queue.units(start, end - start) or _NO_UNIT
        yield units
        start += len(units) // UNIT_SIZE
