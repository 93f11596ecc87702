"""One consume queue: 20-byte units that point to the records of a queue in the log.

    | physical offset 8 | record size 4 | tag code 8 |

The tag code is the hash of the tag, or the time of delivery for the schedule topic. Units stand in
files of one size, named by the offset of their first byte in 20 digits; after the last unit there
are zeros. Written only by the dispatcher, in queue order and without gaps; the file's units before
the first real one are blank (offset 0, size 2^31 - 1).

Not mapped: with many topics there are more queues than a process may map or a disk could allocate.
The newest units are in memory for readers at the end of a queue; the flusher writes them. A full
disk is then an error and not a signal. Recovery rebuilds from the log what a crash lost.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cometmq.seams import Disk
from cometmq.store.log.commit_log import name_of, sync_names
from cometmq.store.queue.file_runs import Write, file_bases, newest_run, writes_of
from cometmq.store.queue.results import UnitVerdict
from cometmq.store.recovery.manifest import Bounds, Span

UNIT = struct.Struct(">qiq")
UNIT_SIZE = 20
assert UNIT.size == UNIT_SIZE
NO_RECORD = 2**31 - 1  # a size that marks a missing or damaged record
BLANK_UNIT = UNIT.pack(0, NO_RECORD, 0)
_KEPT_UNITS = 1024  # flushed units that stay in memory for readers near the end
_READ_UNITS = 256  # at least, of one read from a file
_SCAN_SIZE = 256 << 10
_ZEROS = bytes(_SCAN_SIZE)
_PLACE_MAX = 1 << 56  # longer than any log
_pack = UNIT.pack

# What the log says of a unit: of topic and queue id, queue offset, physical offset, size.
Judge = Callable[[tuple[str, int], int, int, int], UnitVerdict]


class ConsumeQueue:
    """Queue offsets from `first` to `end`; units from `_kept` on are in memory."""

    __slots__ = (
        "_disk",
        "_file_size",
        "_folder",
        "_kept",
        "_read",
        "_read_at",
        "_units",
        "_written",
        "end",
        "first",
        "has_stale_units",
        "is_suspect",
        "trusted_from",
    )

    def __init__(self, folder: Path, file_size: int, disk: Disk) -> None:
        self._folder = folder
        self._file_size = file_size
        self._disk = disk
        self._units = bytearray()
        self._kept = 0
        self._written = 0  # units before this queue offset are in files
        self._read_at = 0  # the queue offset of
        self._read = b""  # units that were last read from a file
        self.first = 0
        self.end = 0
        self.has_stale_units = False  # some were cut off when it was loaded
        self.is_suspect = False  # its last units are damaged: it may end later than it seems to
        self.trusted_from = 0  # units before it were written before this process loaded them

    @property
    def key(self) -> tuple[str, int]:
        """Topic and queue id."""
        return self._folder.parent.name, int(self._folder.name)

    # Writing

    def append(self, physical_offset: int, size: int, tag_code: int) -> None:
        """Append the unit of queue offset `end`."""
        self._units += _pack(physical_offset, size, tag_code)
        self.end += 1

    def append_all(
        self, physical_offsets: Sequence[int], sizes: Sequence[int], tag_codes: Sequence[int]
    ) -> None:
        """Append the units from queue offset `end` on, given by columns."""
        self._units += b"".join(map(_pack, physical_offsets, sizes, tag_codes))
        self.end += len(sizes)

    def start_at(self, queue_offset: int) -> None:
        """Start an empty queue at an offset other than 0: its older records left the log."""
        assert self.end == self.first == self._written, "only an empty queue"
        per_file = self._file_size // UNIT_SIZE
        blanks = queue_offset % per_file
        self._kept = self._written = queue_offset - blanks
        self._units = bytearray(BLANK_UNIT * blanks)
        self.first = self.end = queue_offset

    def continue_at(self, end: int, physical_offset: int) -> None:
        """Move the end forward: offsets that were assigned once are not assigned again.

        The units between have no record. `physical_offset` is any place before the log's end.
        """
        if self.is_empty and end > self.end:
            self._written = self.end = self.first  # of an empty queue nothing has to be written
            self.start_at(end - 1)
        while self.end < end:
            self.append(physical_offset, NO_RECORD, 0)

    def end_at(self, queue_offset: int) -> None:
        """Empty the queue and undo `start_at`."""
        self.cut(self.first)
        self._units.clear()
        self._kept = self._written = self.first = self.end = queue_offset

    @property
    def has_unwritten(self) -> bool:
        """Some units are not in files yet."""
        return self._written < self.end

    def unwritten(self) -> list[Write]:
        """The writes for the units that are not in files yet; then call `written(end)`."""
        data = memoryview(self._units)[(self._written - self._kept) * UNIT_SIZE :]
        return writes_of(self._folder, self._file_size, self._written * UNIT_SIZE, data)

    def written(self, end: int) -> None:
        """Note that units before `end` are in files, and drop most of them from memory."""
        self._written = end
        surplus = end - _KEPT_UNITS - self._kept
        if surplus > _KEPT_UNITS:  # not at each call: it copies
            self._units = self._units[surplus * UNIT_SIZE :]
            self._kept += surplus

    @property
    def in_files_to(self) -> int:
        """Units before this queue offset are read from the files."""
        return self._kept

    def rewrite(self, queue_offset: int, units: bytes) -> list[Write]:
        """The writes that replace units in the files; then call `rewritten`."""
        assert queue_offset + len(units) // UNIT_SIZE <= self._kept, "only units in files"
        at, data = queue_offset * UNIT_SIZE, memoryview(units)
        return writes_of(self._folder, self._file_size, at, data)

    def rewritten(self) -> None:
        """Units in the files changed."""
        self._read = b""

    def path_of(self, queue_offset: int) -> Path:
        """The file of a unit."""
        at = queue_offset * UNIT_SIZE
        return self._folder / name_of(at - at % self._file_size)

    @property
    def kept_size(self) -> int:
        """Bytes of units that are in memory and in the files."""
        return (self._written - self._kept) * UNIT_SIZE

    def release(self) -> None:
        """Drop units from memory that are in files."""
        self._units = self._units[(self._written - self._kept) * UNIT_SIZE :]
        self._kept = self._written
        self._read = b""

    # Reading

    def coded(self, units: bytes) -> Iterator[tuple[int, int, int]]:
        """Unpack units; an extended queue returns richer codes."""
        return UNIT.iter_unpack(units)

    def units(self, queue_offset: int, count: int) -> bytes:
        """The units of up to `count` messages, one after the other; may be fewer."""
        count = min(count, self.end - queue_offset)
        if count <= 0 or queue_offset < self.first:
            return b""
        if queue_offset >= self._kept:
            at = (queue_offset - self._kept) * UNIT_SIZE
            return bytes(self._units[at : at + count * UNIT_SIZE])
        return self._units_in_files(queue_offset, min(count, self._kept - queue_offset))

    def _units_in_files(self, queue_offset: int, count: int) -> bytes:
        """Read ahead: saves 20 us for the next pull of a consumer."""
        ahead = (queue_offset - self._read_at) * UNIT_SIZE
        if not 0 <= ahead <= len(self._read) - count * UNIT_SIZE:
            at, ahead = queue_offset * UNIT_SIZE, 0
            base = at - at % self._file_size
            size = min(max(count, _READ_UNITS), self._kept - queue_offset) * UNIT_SIZE
            size = min(size, base + self._file_size - at)
            self._read = self._read_from(base, at - base, size)
            self._read_at = queue_offset
        found = self._read[ahead : ahead + count * UNIT_SIZE]
        if ahead + len(found) == len(self._read):
            self._read = b""  # used up: the buffers of many queues would add up
        return found

    def _read_from(self, base: int, at: int, size: int) -> bytes:
        """Whole units of a file; fewer, or none, if the file is too short or missing."""
        try:
            found = self._disk.read_at(self._folder / name_of(base), at, size)
        except FileNotFoundError:
            return b""
        return found[: len(found) // UNIT_SIZE * UNIT_SIZE]

    def unit(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Physical offset, record size and tag code of one message."""
        found = self.units(queue_offset, 1)
        return UNIT.unpack(found) if len(found) == UNIT_SIZE else None

    # Starting, cutting, forgetting

    def load(
        self, judge: Judge, bases: list[int] | None = None, listed: Bounds | None = None
    ) -> None:
        """Find where the queue ends: not before its `listed` end, which was so once.

        `bases` are its files, without a gap; by default the newest ones that have none. Units at
        the end that point to no place of the log are cut off: the log lost its end.
        """
        if bases is None:
            bases = newest_run(file_bases(self._disk, self._folder), self._file_size)
        if not bases:
            return
        self.first, end_min = bases[0] // UNIT_SIZE, 0
        if listed is not None:
            self.first, end_min = max(self.first, listed.first), listed.end
        self.end = self._kept = self._written = self.find_end(bases[-1], end_min)
        stale_end = self.end
        while self.end > max(self.first, end_min):
            unit = self.unit_on_disk(self.end - 1) or (0, 0, 0)
            verdict = judge(self.key, self.end - 1, *unit[:2])
            if verdict is not UnitVerdict.STRAY:
                self.is_suspect |= verdict is UnitVerdict.WRONG
                break
            self.has_stale_units = True
            self.is_suspect |= not 0 < unit[0] < _PLACE_MAX or unit[1] < 0
            self.end -= 1
        if self.end < stale_end:
            self.cut(self.end, stale_end)
        elif listed is None and self._has_units_after_end():
            self.is_suspect = True
        self.trusted_from = self.end

    def _has_units_after_end(self) -> bool:
        """The last file has units after zeros."""
        at = self.end * UNIT_SIZE
        while at % self._file_size:
            base = at - at % self._file_size
            found = self._read_from(base, at - base, min(_SCAN_SIZE, base + self._file_size - at))
            if not found or found != _ZEROS[: len(found)]:
                return bool(found)
            at += len(found)
        return False

    def find_end(self, base: int, end_min: int = 0) -> int:
        """Bisect the last file: used units are not zero, the others are."""
        low, high = base // UNIT_SIZE, (base + self._file_size) // UNIT_SIZE
        low = min(max(low, end_min), high)
        while low < high:
            middle = (low + high) // 2
            unit = self.unit_on_disk(middle)
            if unit is not None and unit[1] > 0:
                low = middle + 1
            else:
                high = middle
        return low

    def unit_on_disk(self, queue_offset: int) -> tuple[int, int, int] | None:
        """As `unit`, but only from the files."""
        at = queue_offset * UNIT_SIZE
        base = at - at % self._file_size
        try:
            found = self._disk.read_at(self._folder / name_of(base), at - base, UNIT_SIZE)
        except FileNotFoundError:
            return None
        return UNIT.unpack(found) if len(found) == UNIT_SIZE else None

    def sync_names(self) -> None:
        """Make the file names durable; after a crash, before writing to existing files."""
        sync_names(self._disk, self._folder)

    @property
    def is_empty(self) -> bool:
        """The queue has no units, or all of them left the log."""
        return self.end == self.first

    def cut_from(self, physical_offset: int) -> None:
        """Cut torn units and the units of records from this offset of the log on, durably."""
        low, high = self.first, self.end
        while low < high:  # physical offsets grow along a queue; a torn unit is of zeros
            middle = (low + high) // 2
            unit = self.unit(middle)
            if unit is not None and unit[1] > 0 and unit[0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        if low < self.end:
            self.cut(low)

    def cut(self, end: int, stale_end: int | None = None) -> None:
        """Make `end` the end, durably: write zeros over the later units."""
        self._read = b""
        stale_end = max(self._written, stale_end or 0)
        at = end * UNIT_SIZE
        while at < stale_end * UNIT_SIZE:
            base = at - at % self._file_size
            size = min(stale_end * UNIT_SIZE, base + self._file_size) - at
            path = self._folder / name_of(base)
            self._disk.write_at(path, at - base, bytes(size), self._file_size)
            at += size
        if end < self._kept:
            self._kept = end
            self._units.clear()
        else:
            del self._units[(end - self._kept) * UNIT_SIZE :]
        self._written = min(self._written, end)
        self.first = min(self.first, end)
        self.trusted_from = min(self.trusted_from, end)
        self.end = end
        self.is_suspect = self.is_suspect and self._has_units_after_end()

    def forget_before(self, log_start: int) -> None:
        """Advance `first` to, but never past, the first unit whose record is still in the log.

        A damaged unit may say that its record is gone. Then the units before it tell otherwise.
        """
        per_file = self._file_size // UNIT_SIZE
        start, end = self.first, min(self.first - self.first % per_file + per_file, self.end)
        # A file is gone by its last two units: one may be damaged.
        while end < self.end and all(
            self._is_gone(place, log_start) for place in range(max(end - 2, start), end)
        ):
            start, end = end, min(end + per_file, self.end)
        low = self._first_from(start, end, log_start)
        while low - 1 > start and not self._is_gone(low - 2, log_start):
            low = self._first_from(start, low - 1, log_start)
        self.first = low

    def _first_from(self, low: int, high: int, log_start: int) -> int:
        while low < high:  # physical offsets grow along a queue
            middle = (low + high) // 2
            if self._is_gone(middle, log_start):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_gone(self, queue_offset: int, log_start: int) -> bool:
        """The record left the log. False for zeros or garbage, which a crash may leave."""
        unit = self.unit(queue_offset)
        return unit is not None and unit[1] > 0 and 0 <= unit[0] < log_start

    @property
    def span(self) -> Span | None:
        """Where its first file begins that is needed, and its last; None if it needs none.

        One without a message keeps its last file: it says where the next one's place is.
        """
        last = (self._written - 1) * UNIT_SIZE // self._file_size * self._file_size
        first = self.first * UNIT_SIZE // self._file_size * self._file_size
        return (min(first, last), last) if last >= 0 else None

    def files_before_first(self) -> list[Path]:
        """Files that are no longer needed."""
        span = self.span
        bases = file_bases(self._disk, self._folder) if span is not None else []
        return [
            self._folder / name_of(base) for base in bases if span is not None and base < span[0]
        ]
