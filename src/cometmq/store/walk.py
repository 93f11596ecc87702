"""A walk along the log, record by record, that a damaged one does not end.

A record is good if its magic, its sizes, its own physical offset and its body's crc are right.
After a bad one the walk looks for the next place where a record says that it stands exactly there:
magic and physical offset together do not occur by chance.
"""

import struct
from collections.abc import Iterator

import msgspec

from cometmq.errors import Malformed
from cometmq.protocol.message import BLANK_MAGIC, MAGIC, StoredMessage, unpack_record
from cometmq.store.commit_log import BLANK, CommitLog, LogFile

_MAGIC_BYTES = struct.pack(">i", MAGIC)
_PHYSICAL_OFFSET = struct.Struct(">q")
_PHYSICAL_OFFSET_AT = 28


class GoodRecord(msgspec.Struct, frozen=True):
    """A record, and how long it is."""

    message: StoredMessage
    size: int


class BadBytes(msgspec.Struct, frozen=True):
    """A stretch of the log, between good records, that holds none."""

    offset: int
    size: int
    reason: str


def walk(log: CommitLog, start: int) -> Iterator[GoodRecord | BadBytes]:
    """Everything from `start`, a record's offset or a file's, to the last good record."""
    for file in log.files:
        if file.base + file.size > start:
            yield from _walk_file(file, max(start - file.base, 0))


def _walk_file(file: LogFile, at: int) -> Iterator[GoodRecord | BadBytes]:
    memory, size = file.memory, file.size
    while size - at >= BLANK.size:
        length, magic = BLANK.unpack_from(memory, at)
        if magic == BLANK_MAGIC and length == size - at:
            return
        try:
            record = unpack_record(memory, at)
            if record.physical_offset != file.base + at:
                raise Malformed(f"it says it stands at {record.physical_offset}")
        except Malformed as error:
            following = _next_record(file, at + 1)
            if following is None:
                return  # the end, torn or clean
            yield BadBytes(file.base + at, following - at, str(error))
            at = following
            continue
        yield GoodRecord(record, length)
        at += length


def _next_record(file: LogFile, at: int) -> int | None:
    """The next place of this file, from `at` on, with a good record."""
    while (magic_at := file.region.find(_MAGIC_BYTES, at + 4)) >= 0:
        at = magic_at - 4
        if at + _PHYSICAL_OFFSET_AT + 8 <= file.size:
            (physical,) = _PHYSICAL_OFFSET.unpack_from(file.memory, at + _PHYSICAL_OFFSET_AT)
            if physical == file.base + at and _is_good(file, at):
                return at
        at += 1
    return None


def _is_good(file: LogFile, at: int) -> bool:
    try:
        unpack_record(file.memory, at)
    except Malformed:
        return False
    return True
