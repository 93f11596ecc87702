"""The files of a store as they lie on disk, of a broker at work or a copy: only ever read.

    commitlog/00000000000000000000       records, one after the other
    consumequeue/TOPIC/QUEUE/000...      20-byte units: physical offset, record size, tag code

See docs/disk.md. A queue's units say where its records are, so no record is looked for.
"""

import mmap
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from cometmq.errors import BadSetting
from cometmq.spark.read.decode import Records
from cometmq.spark.read.property_table import Ints

_UNIT = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tag", ">i8")])
assert _UNIT.itemsize == 20
_NO_RECORD = 2**31 - 1  # as a size: there is none, or it is damaged
_NAME_DIGITS = 20
_UNITS_MAX = 16_384  # looked at together
_MAPS_MAX = 16


@dataclass(frozen=True)
class Missing:
    """A unit of a queue whose record is not there or is not good."""

    queue_offset: int
    physical_offset: int


@dataclass(frozen=True)
class StoreSnapshot:
    """A folder `storePathRootDir`, and where its log is if not in it."""

    root: str
    log_folder: str

    @classmethod
    def of(cls, path: str, log_path: str | None) -> "StoreSnapshot":
        """BadSetting if it is no store."""
        log = Path(log_path) if log_path else Path(path) / "commitlog"
        if not log.is_dir():
            option = "commitLogPath" if log_path else "path"
            raise BadSetting(f"option {option}: there is no folder {log}, so this is no store")
        return cls(str(path), str(log))

    # The log

    @cached_property
    def log_files(self) -> list[tuple[int, Path]]:
        """By the place of their first byte."""
        return _numbered(Path(self.log_folder))

    def records_at(self, physical: Ints, sizes: Ints) -> Iterator[tuple[Ints, Records]]:
        """Which of them are in one file, and their records there: not looked at yet."""
        bases = np.array([base for base, _ in self.log_files] or [0], np.int64)
        files = np.searchsorted(bases, physical, "right") - 1
        for number in np.unique(files).tolist():
            chosen = np.flatnonzero(files == number)
            if number < 0 or not self.log_files:
                yield chosen, Records(pa.py_buffer(b""), np.empty(0, np.int64))
                continue
            base, path = self.log_files[number]
            yield chosen, Records(pa.py_buffer(mapped(path)), physical[chosen] - base)

    # Queues

    @property
    def has_queues(self) -> bool:
        """A copy may be of the log alone."""
        return (Path(self.root) / "consumequeue").is_dir()

    def queues(self) -> list[tuple[str, int]]:
        """Topic and number of each."""
        folder = Path(self.root) / "consumequeue"
        return sorted(
            (topic.name, int(queue.name))
            for topic in folder.iterdir()
            if topic.is_dir()
            for queue in topic.iterdir()
            if queue.name.isdigit()
        )

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first queue offset whose record is in the log, and the end."""
        files = self._unit_files(topic, queue_id)
        if not files:
            return 0, 0
        end = 0
        for base, path in reversed(files):  # a file made ahead of need has no unit
            used = np.flatnonzero(_units(path)["size"])
            if len(used):
                end = base // _UNIT.itemsize + int(used[-1]) + 1
                break
        log_start = self.log_files[0][0] if self.log_files else 0
        for base, path in files:
            units = _units(path)
            there = (units["physical"] >= log_start) & (units["size"] != 0)
            real = np.flatnonzero(there & ((units["size"] != _NO_RECORD) | (units["physical"] > 0)))
            if len(real):
                return base // _UNIT.itemsize + int(real[0]), end
        return end, end

    def read(self, topic: str, queue_id: int, start: int, end: int) -> Iterator[Records | Missing]:
        """The records of a range of a queue, in order but for the place of what is missing."""
        held: list[Ints] = []
        first = start
        for units in self._stretches(topic, queue_id, start, end):
            held.append(units)
            count = sum(map(len, held))
            if count >= _UNITS_MAX:
                yield from self._read(np.concatenate(held), first)
                held = []
                first += count
        if held:
            yield from self._read(np.concatenate(held), first)

    def _stretches(self, topic: str, queue_id: int, start: int, end: int) -> Iterator[Ints]:
        """The units of a range, not too many at a time: a file may have few or very many."""
        for base, path in self._unit_files(topic, queue_id):
            first = base // _UNIT.itemsize
            if first >= end:
                return
            units = _units(path)
            low, high = max(start - first, 0), min(end - first, len(units))
            for at in range(low, high, _UNITS_MAX):
                yield units[at : min(at + _UNITS_MAX, high)]

    def _read(self, units: Ints, first: int) -> Iterator[Records | Missing]:
        physical = units["physical"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        for chosen, records in self.records_at(physical, sizes):
            if not len(records.bytes):
                good = np.zeros(len(chosen), bool)
            else:
                good = records.is_whole
                there = records
                if not good.all():  # so that nothing is read past the end
                    there = Records(records.data, np.where(good, records.starts, 0))
                good &= there.physical_offsets == physical[chosen]
                good &= there.sizes == sizes[chosen]
            if good.any():
                yield records.where(good)
            for each in chosen[~good].tolist():
                yield Missing(first + each, int(physical[each]))

    def _unit_files(self, topic: str, queue_id: int) -> list[tuple[int, Path]]:
        return _numbered(Path(self.root) / "consumequeue" / topic / str(queue_id))


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    return sorted(
        (int(path.name), path)
        for path in folder.iterdir()
        if path.name.isdigit() and len(path.name) == _NAME_DIGITS and path.stat().st_size
    )


def _units(path: Path) -> Ints:
    """A file of them: read, as it is small, so that it does not change under us."""
    data = path.read_bytes()
    return np.frombuffer(data, _UNIT, len(data) // _UNIT.itemsize)


_maps: OrderedDict[tuple[str, int], mmap.mmap] = OrderedDict()


def mapped(path: Path) -> mmap.mmap:
    """A file of the log, mapped to read; kept for the next task of this process."""
    key = str(path), path.stat().st_ino
    if key not in _maps:
        with path.open("rb") as file:
            _maps[key] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        while len(_maps) > _MAPS_MAX:
            _maps.popitem(last=False)  # closed once nobody reads in it
    _maps.move_to_end(key)
    return _maps[key]
