"""Rebuilds damaged units of a queue from the log while the store serves.

A reader that meets a wrong unit requests its rebuild and returns REBUILDING until it is done. The
rebuild searches for the nearest good units on both sides, walks the log between their records, and
rewrites the units of that stretch. The walk decides what is damaged: if the log has the record, the
unit was wrong; if the log is damaged, the unit stays empty and the log is reported.

Bounds: the work yields to the loop after about a millisecond. A stretch has at most `_UNITS_MAX`
units, and at most half of them before the requested one. If no good unit is that near, the walk
starts at the beginning of the log, and units outside of the stretch wait for their own request.
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
from cometmq.store.queue.results import UnitVerdict
from cometmq.store.queue.unit_check import judge_unit
from cometmq.store.recovery.rebuild import TRANSACTION, UNQUEUED, Coder

log = logging.getLogger(__name__)

_UNITS_A_TURN = 256  # compared with their records
_RECORDS_A_TURN, _BYTES_A_TURN = 256, 1 << 20  # walked
_COPIED_A_TURN = 2048 * UNIT_SIZE  # bytes of units read, filled or vouched for
_GOOD_AFTER = 64  # consecutive good units end a stretch
_UNITS_MAX = 1 << 20  # of one stretch: 20 MB
_RETRY_MS = 5_000  # after a failed write
_NO_UNIT = bytes(UNIT_SIZE)

Announce = Callable[[str, int, int, int], None]
WriteUnits = Callable[[Callable[[], list[Write] | None]], Coroutine[Any, Any, bool]]


class Stretch(msgspec.Struct):
    """Units from queue offset `first` to `end`, and the part of the log that has their records."""

    first: int
    end: int
    log_start: int
    log_end: int
    is_oldest: bool  # no unit before `first` has its record in the log
    is_open: bool  # no good unit follows it


class Rebuilt(msgspec.Struct):
    """The units of a stretch as the log has them."""

    stretch: Stretch
    units: bytearray
    old: bytes
    wrong: int = 0  # units that differ from the old ones
    lost: int = 0  # units without a good record
    leading_lost: int = 0  # of these, the ones before the first unit with a record


class UnitRebuild:
    """Rebuilds one stretch at a time. `count` is the number of stretches that had a wrong unit."""

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
        self._requested: dict[ConsumeQueue, set[int]] = {}
        self.count = 0
        self.requested = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def request(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Rebuild the unit, and damaged ones around it, in the background."""
        assert queue_offset >= 0, "queue offsets start at 0"
        self._requested.setdefault(queue, set()).add(queue_offset)
        self.idle.clear()
        self.requested.set()

    async def serve(self, write: WriteUnits, pause_ms: Callable[[int], Any]) -> None:
        """Rebuild requested units until cancelled."""
        while True:
            await self.requested.wait()
            self.requested.clear()
            while self._requested:
                queue, offsets = next(iter(self._requested.items()))
                try:
                    await self._rebuild(queue, min(offsets), write)
                except OSError as error:
                    log.error("queue %d of %s still has damaged units: %s", *_named(queue), error)
                    del self._requested[queue]
                    self._requested[queue] = offsets  # the other queues come first
                    await pause_ms(_RETRY_MS)
                    continue
                self._requested.pop(queue, None)
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
            queue.rewritten()
            for _ in self._vouch(queue, rebuilt):
                await asyncio.sleep(0)
            self._report(queue, rebuilt)
        self._announce(topic, queue_id, queue.end, 0)

    def check_now(self, queue: ConsumeQueue, start: int, disk: Disk) -> None:
        """Check the units from `start` on and rebuild wrong ones; only before the store serves."""
        start = max(start, queue.first)
        while start < queue.trusted_from:
            end = min(start + _UNITS_A_TURN, queue.trusted_from)
            judged = self._judged(queue, start, end)
            wrong = next((number for number, verdict, _, _ in judged if verdict.is_wrong), None)
            start = end if wrong is None else self._rebuild_now(queue, wrong, disk)

    def _rebuild_now(self, queue: ConsumeQueue, queue_offset: int, disk: Disk) -> int:
        """Rebuild without yielding; returns the queue offset after the stretch, rebuilt or not."""
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
                log.error("queue %d of %s still has damaged units: %s", *_named(queue), error)
            else:
                queue.rewritten()
                for _ in self._vouch(queue, rebuilt):
                    continue
                self._report(queue, rebuilt)
        return max(queue_offset + 1, rebuilt.stretch.end if rebuilt is not None else 0)

    def _steps(
        self, queue: ConsumeQueue, queue_offset: int
    ) -> Generator[None, None, Rebuilt | None]:
        """Do the work up to the writes; yields after each turn."""
        if not queue.first <= queue_offset < queue.in_files_to:
            return None
        stretch = yield from self._stretch(queue, queue_offset)
        count = stretch.end - stretch.first
        assert 0 < count <= _UNITS_MAX, "a stretch has at least the requested unit, and a bound"
        old = bytearray()
        for start in range(stretch.first, stretch.end, _COPIED_A_TURN // UNIT_SIZE):
            end = min(start + _COPIED_A_TURN // UNIT_SIZE, stretch.end)
            old += b"".join(_units_of(queue, start, end))
            yield
        rebuilt = Rebuilt(stretch, bytearray(count * UNIT_SIZE), bytes(old))
        yield from self._collect(queue, rebuilt)
        yield from self._fill(rebuilt)
        return rebuilt

    # Find the stretch

    def _stretch(self, queue: ConsumeQueue, requested: int) -> Generator[None, None, Stretch]:
        found = Stretch(requested, requested + 1, self._log.start, self._log.end, True, True)
        yield from self._find_first(queue, found)
        end_max = min(queue.in_files_to, found.first + _UNITS_MAX)
        good = 0  # units in a row
        for start in range(requested + 1, end_max, _UNITS_A_TURN):
            end = min(start + _UNITS_A_TURN, end_max)
            for number, verdict, offset, _ in self._judged(queue, start, end):
                if verdict is not UnitVerdict.GOOD:
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
        """Search backwards for the nearest good unit, or one whose record left the log."""
        first_min = max(queue.first, found.first - _UNITS_MAX // 2)
        while found.first > first_min:
            start = max(first_min, found.first - _UNITS_A_TURN)
            block = list(self._judged(queue, start, found.first))
            for number, verdict, offset, size in reversed(block):
                if verdict is UnitVerdict.GOOD:
                    found.log_start, found.is_oldest = offset + size, False
                if verdict in (UnitVerdict.GOOD, UnitVerdict.GONE):
                    return
                found.first = number
            yield
        found.is_oldest = first_min == queue.first

    def _judged(
        self, queue: ConsumeQueue, start: int, end: int
    ) -> Iterator[tuple[int, UnitVerdict, int, int]]:
        """Queue offset, verdict, physical offset and size of each unit."""
        key, units = queue.key, b"".join(_units_of(queue, start, end))
        for number, (offset, size, _) in enumerate(UNIT.iter_unpack(units), start):
            yield number, judge_unit(self._log, key, number, offset, size), offset, size

    # Read the log

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
        """Write an empty unit where the log has no record, and count the wrong units."""
        stretch, units, old = rebuilt.stretch, rebuilt.units, rebuilt.old
        following = stretch.log_end
        for at in range(len(units) - UNIT_SIZE, -1, -UNIT_SIZE):
            if at % _COPIED_A_TURN == 0:
                yield
            was = old[at : at + UNIT_SIZE]
            if units[at : at + UNIT_SIZE] != _NO_UNIT:
                rebuilt.wrong += units[at : at + UNIT_SIZE] != was
                following = UNIT.unpack_from(units, at)[0]
                rebuilt.leading_lost = 0
                continue
            if self._has_misnamed_record(was, stretch.log_start, following):
                units[at : at + UNIT_SIZE] = was
                following = UNIT.unpack(was)[0]
                rebuilt.leading_lost = 0
                continue
            place, size, _ = UNIT.unpack(was)
            was_right = size == NO_RECORD or stretch.log_start <= place < following
            rebuilt.wrong += not was_right
            rebuilt.lost += 1
            rebuilt.leading_lost += 1
            UNIT.pack_into(units, at, following, NO_RECORD, 0)

    def _has_misnamed_record(self, unit: bytes, start: int, end: int) -> bool:
        """A good record is in the right place, but its header names another queue offset.

        The crc covers only the body of a record.
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

    # Write the units

    def _writes(self, queue: ConsumeQueue, rebuilt: Rebuilt) -> list[Write]:
        """The writes, without leading units whose records left the log: their files may be gone."""
        stretch, units = rebuilt.stretch, rebuilt.units
        gone = rebuilt.leading_lost
        if stretch.is_oldest and gone and self._log.start:
            queue.first = max(queue.first, stretch.first + gone)
            rebuilt.lost -= gone
        skipped = max(queue.first - stretch.first, 0)
        del units[: skipped * UNIT_SIZE]
        stretch.first += skipped
        assert len(units) == max(stretch.end - stretch.first, 0) * UNIT_SIZE, "one unit per message"
        return queue.rewrite(stretch.first, bytes(units)) if units else []

    def _vouch(self, queue: ConsumeQueue, rebuilt: Rebuilt) -> Generator[None, None, None]:
        """Mark the rebuilt units as verified, so that no reader compares them again."""
        first, units = rebuilt.stretch.first, memoryview(rebuilt.units)
        for at in range(0, len(units), _COPIED_A_TURN):
            part = units[at : at + _COPIED_A_TURN]
            start = first + at // UNIT_SIZE
            for number, (_, size, _) in enumerate(UNIT.iter_unpack(part), start):
                if size != NO_RECORD:
                    self._vetting.vouch_for(queue, number)
            yield

    def _report(self, queue: ConsumeQueue, rebuilt: Rebuilt) -> None:
        stretch = rebuilt.stretch
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
    """The units in the files; zeros where a file has none."""
    while start < end:
        units = queue.units(start, end - start) or _NO_UNIT
        yield units
        start += len(units) // UNIT_SIZE
