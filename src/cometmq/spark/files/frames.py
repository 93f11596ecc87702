"""Where records start: in the body of a pull, and in a file of the log.

A pull's body is whole or refused. A file may end in a blank record, in zeros or in a torn record;
after damage in its middle the next place is looked for where a record says that it stands there.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

import numpy as np
import pyarrow as pa

from cometmq.errors import Malformed
from cometmq.protocol.records.message import BLANK_MAGIC, MAGIC, RECORD_SIZE_MIN
from cometmq.spark.read.decode import Records
from cometmq.spark.read.property_table import Ints

_size_at = struct.Struct(">i").unpack_from
_start_at = struct.Struct(">ii").unpack_from
_physical_at = struct.Struct(">q").unpack_from
_MAGIC_BYTES = struct.pack(">i", MAGIC)
_PHYSICAL_AT = 28
_RUN_MIN, _RUN_MAX = 16, 16_384  # records of one size that are worth a look, and of one look
_STEPS = 128
_STRETCH = 16_384  # records of a file that are looked at together


def records_of_pull(body: bytes) -> Records:
    """All of them; Malformed if the bytes are not records from end to end."""
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
        raise Malformed(f"the last record of a pull's body ends {at - end} bytes after it")
    return Records(data, np.concatenate(found)).check_whole()


def _run(sizes: Ints, at: int, end: int) -> tuple[Ints, int]:
    """Neighbours of one size, found at once, as messages of one kind often are; and their end."""
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
    """The next ones, by their sizes, one by one; and their end."""
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
    """A stretch of a file, before a good record, that holds none."""

    offset: int
    size: int


class LogFrames:
    """One file of the log, by its first byte's place in the log."""

    def __init__(self, source: bytes | mmap, base: int) -> None:
        self._source = source
        self._data = pa.py_buffer(source)
        self._memory = memoryview(self._data)
        self._base = base

    def walk(self) -> Iterator[Records | Damage]:
        """Good records, some thousands at a time, and the damage between them."""
        at = 0
        while True:
            starts, stop = self._frames(at)
            good = self._good(starts)
            if len(good) == _STRETCH:
                yield good.part(0, _STRETCH - 1)  # the last one may be the last of all
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
        """If the last one was not written to its end: zeros came in the place of some of it."""
        if not len(records):
            return False
        last = records.part(len(records) - 1, len(records))
        return bool(last.ends_in_zeros[0]) or not last.has_right_crc[0]

    def _frames(self, at: int) -> tuple[Ints, int]:
        """Places that follow one from the other by their sizes, and where the last one ends."""
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
        """As many as there are good ones before the first bad one."""
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
        """The next place with a good record."""
        while (magic_at := self._source.find(_MAGIC_BYTES, at + 4)) >= 0:
            at = magic_at - 4
            if at + RECORD_SIZE_MIN <= len(self._memory):
                (physical,) = _physical_at(self._memory, at + _PHYSICAL_AT)
                if physical == self._base + at and len(self._good(np.array([at], np.int64))):
                    return at
            at += 1
        return None
