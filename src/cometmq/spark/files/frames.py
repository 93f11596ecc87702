"""Finds the start of each record in the body of a pull and in a file of the commit log.

The body of a pull must consist of whole records. A log file may end in a blank record, in zeros or
in a torn record. After damage in the middle, reading resumes at the next record whose physical
offset equals its position.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

import numpy as np
import pyarrow as pa

from cometmq.errors import Malformed
from cometmq.protocol.records.message import BLANK_MAGIC, FIELD_OFFSETS, MAGIC, RECORD_SIZE_MIN
from cometmq.spark.read.decode import Records
from cometmq.spark.read.property_table import Ints

_size_at = struct.Struct(">i").unpack_from
_start_at = struct.Struct(">ii").unpack_from
_physical_at = struct.Struct(">q").unpack_from
_MAGIC_BYTES = struct.pack(">i", MAGIC)
_PHYSICAL_AT = FIELD_OFFSETS["physical_offset"]
_RUN_MIN, _RUN_MAX = 16, 16_384  # records of equal size that are searched together
_STEPS = 128
_STRETCH = 16_384  # records of a file that are checked together


def records_of_pull(body: bytes) -> Records:
    """Return the records of a pull; Malformed unless the bytes are records from end to end."""
    data = pa.py_buffer(body)
    if len(body) < RECORD_SIZE_MIN:
        if len(body):
            raise Malformed(f"{len(body)} bytes are too few for a record")
        return Records(data, np.empty(0, np.int64))
    sizes = np.ndarray((len(body) - 3,), ">i4", data, strides=(1,))
    found: list[Ints] = []
    at, end = 0, len(body)
    while at < end:
        starts, at = _run(sizes, at, end)
        if not len(starts):
            starts, at = _steps(body, at, end)
        found.append(starts)
    if at != end:
        raise Malformed(f"the last record ends {at - end} bytes after the end of the pull's body")
    return Records(data, np.concatenate(found)).check_whole()


def _run(sizes: Ints, at: int, end: int) -> tuple[Ints, int]:
    """Find consecutive records of equal size in one step; return their starts and their end."""
    size = int(sizes[at]) if end - at >= RECORD_SIZE_MIN else 0
    if size < RECORD_SIZE_MIN:
        return np.empty(0, np.int64), at
    count = 0
    for count_max in (_RUN_MIN, _RUN_MAX):
        places = np.arange(at, min(end - 3, at + size * count_max), size)
        is_same = sizes[places] == size
        count = len(places) if is_same.all() else int(is_same.argmin())
        if count < _RUN_MIN:
            return places[:0], at
    return places[:count], at + count * size


def _steps(body: bytes, at: int, end: int) -> tuple[Ints, int]:
    """Find the next records one by one; return their starts and their end."""
    starts: list[int] = []
    append = starts.append
    while at < end and len(starts) < _STEPS:
        append(at)
        size = _size_at(body, at)[0] if end - at >= 4 else 0
        if size < RECORD_SIZE_MIN:
            raise Malformed(f"a record of {size} bytes at {at} of a pull's body")
        at += size
    return np.array(starts, np.int64), at


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log file without a valid record, followed by a valid one."""

    offset: int
    size: int


class LogFrames:
    """One file of the commit log. `base` is the log offset of its first byte."""

    def __init__(self, source: bytes | mmap, base: int) -> None:
        self._source = source
        self._data = pa.py_buffer(source)
        self._memory = memoryview(self._data)
        self._base = base

    def walk(self) -> Iterator[Records | Damage]:
        """Yield valid records, some thousands at a time, and the damage between them."""
        at = 0
        while True:
            starts, stop = self._frames(at)
            good = self._good(starts)
            if len(good) == _STRETCH:
                yield good.part(0, _STRETCH - 1)  # the last record may be torn: check it again
                at = int(starts[-1])
                continue
            at = int(starts[len(good)]) if len(good) < len(starts) else stop
            following = None if self._is_blank(at) else self._next(at + 1)
            if following is None and not self._is_blank(at):
                good = good.part(0, len(good) - self._is_torn(good))
            if len(good):
                yield good
            if following is None:
                return
            yield Damage(self._base + at, following - at)
            at = following

    def _is_torn(self, records: Records) -> bool:
        """Return whether the last record is incomplete: zeros replace its end."""
        if not len(records):
            return False
        last = records.part(len(records) - 1, len(records))
        return bool(last.ends_in_zeros[0]) or not last.has_right_crc[0]

    def _frames(self, at: int) -> tuple[Ints, int]:
        """Follow the sizes of records; return their starts and the end of the last one."""
        memory, last = self._memory, len(self._memory) - RECORD_SIZE_MIN
        starts: list[int] = []
        append = starts.append
        while at <= last and len(starts) < _STRETCH:
            size, magic = _start_at(memory, at)
            if magic != MAGIC or size < RECORD_SIZE_MIN:
                break
            append(at)
            at += size
        return np.array(starts, np.int64), at

    def _good(self, starts: Ints) -> Records:
        """Return the records before the first invalid one."""
        found = Records(self._data, starts)
        if not len(starts):
            return found
        good = found.is_whole & (found.physical_offsets == self._base + starts)
        bad = np.flatnonzero(~good)
        return found.part(0, int(bad[0])) if len(bad) else found

    def _is_blank(self, at: int) -> bool:
        if len(self._memory) - at < 8:
            return True
        size, magic = _start_at(self._memory, at)
        return bool(magic == BLANK_MAGIC and size == len(self._memory) - at)

    def _next(self, at: int) -> int | None:
        """Return the position of the next valid record."""
        while (magic_at := self._source.find(_MAGIC_BYTES, at + 4)) >= 0:
            at = magic_at - 4
            if at + RECORD_SIZE_MIN <= len(self._memory):
                (physical,) = _physical_at(self._memory, at + _PHYSICAL_AT)
                if physical == self._base + at and len(self._good(np.array([at], np.int64))):
                    return at
            at += 1
        return None
