"""The files of a broker's store, running or copied. They are never written.

    commitlog/00000000000000000000       records, one after the other
    consumequeue/TOPIC/QUEUE/000...      20-byte units: physical offset, record size, tag code

See docs/disk.md. The units of a queue point to its records, so that the log is not searched.
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
from cometmq.store.log.commit_log import NAME_DIGITS
from cometmq.store.queue.consume_queue import NO_RECORD, UNIT, UNIT_SIZE

_UNIT = np.dtype(
    [
        (name, f">{kind}")
        for name, kind in zip(("physical", "size", "tag"), UNIT.format[1:], strict=True)
    ]
)
assert _UNIT.itemsize == UNIT_SIZE
_UNITS_MAX = 16_384  # units that are read together
_MAPS_MAX = 16


@dataclass(frozen=True)
class Missing:
    """A unit of a queue whose record is missing or damaged."""

    queue_offset: int
    physical_offset: int


@dataclass(frozen=True)
class StoreSnapshot:
    """A folder `storePathRootDir` and the folder of its commit log, which may be elsewhere."""

    root: str
    log_folder: str

    @classmethod
    def of(cls, path: str, log_path: str | None) -> "StoreSnapshot":
        """Raise BadSetting unless the folder is a store."""
        log = Path(log_path) if log_path else Path(path) / "commitlog"
        if not log.is_dir():
            option = "commitLogPath" if log_path else "path"
            raise BadSetting(f"option {option}: not a store, because folder {log} does not exist")
        return cls(str(path), str(log))

    # The log

    @cached_property
    def log_files(self) -> list[tuple[int, Path]]:
        """The files of the log, with the log offset of their first byte."""
        return _numbered(Path(self.log_folder))

    def records_at(self, physical: Ints, sizes: Ints) -> Iterator[tuple[Ints, Records]]:
        """Yield, per log file, the indexes of the offsets in it and their unchecked records."""
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
        """Whether the folder contains queues. A copy may contain the log alone."""
        return (Path(self.root) / "consumequeue").is_dir()

    def queues(self) -> list[tuple[str, int]]:
        """Return topic and id of every queue."""
        folder = Path(self.root) / "consumequeue"
        return sorted(
            (topic.name, int(queue.name))
            for topic in folder.iterdir()
            if topic.is_dir()
            for queue in topic.iterdir()
            if queue.name.isdigit()
        )

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the first queue offset whose record is in the log, and the end of the queue."""
        files = self._unit_files(topic, queue_id)
        if not files:
            return 0, 0
        end = 0
        for base, path in reversed(files):  # a preallocated file has no units
            used = np.flatnonzero(_units(path)["size"])
            if len(used):
                end = base // _UNIT.itemsize + int(used[-1]) + 1
                break
        log_start = self.log_files[0][0] if self.log_files else 0
        for base, path in files:
            units = _units(path)
            there = (units["physical"] >= log_start) & (units["size"] != 0)
            real = np.flatnonzero(there & ((units["size"] != NO_RECORD) | (units["physical"] > 0)))
            if len(real):
                return base // _UNIT.itemsize + int(real[0]), end
        return end, end

    def read(self, topic: str, queue_id: int, start: int, end: int) -> Iterator[Records | Missing]:
        """Yield the records of a range in order; missing ones follow their neighbors."""
        pending: list[Ints] = []
        first = start
        for units in self._stretches(topic, queue_id, start, end):
            pending.append(units)
            count = sum(map(len, pending))
            if count >= _UNITS_MAX:
                yield from self._read(np.concatenate(pending), first)
                pending = []
                first += count
        if pending:
            yield from self._read(np.concatenate(pending), first)

    def _stretches(self, topic: str, queue_id: int, start: int, end: int) -> Iterator[Ints]:
        """Yield the units of a range, at most _UNITS_MAX at a time."""
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
                if not good.all():  # nothing may be read past the end of the file
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
        if path.name.isdigit() and len(path.name) == NAME_DIGITS and path.stat().st_size
    )


def _units(path: Path) -> Ints:
    """Read a file of units. It is small, and a copy does not change while it is used."""
    data = path.read_bytes()
    return np.frombuffer(data, _UNIT, len(data) // _UNIT.itemsize)


_maps: OrderedDict[tuple[str, int], mmap.mmap] = OrderedDict()


def mapped(path: Path) -> mmap.mmap:
    """Map a file of the log for reading. Later tasks of this process reuse the map."""
    key = str(path), path.stat().st_ino
    if key not in _maps:
        with path.open("rb") as file:
            _maps[key] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        while len(_maps) > _MAPS_MAX:
            _maps.popitem(last=False)  # closed when the last reader releases it
    _maps.move_to_end(key)
    return _maps[key]
