"""A walk along the log, record by record, that a damaged one does not end.

A record is good if its magic, its sizes, its own physical offset and its body's crc are right.
After a bad one the walk looks for the next place where a record says that it stands exactly there:
magic and physical offset together do not occur by chance.
"""

import struct
from collections.abc import Iterator

import msgspec

from cometmq.errors import BadName, Malformed, PeerError
from cometmq.protocol.message import BLANK_MAGIC, MAGIC, StoredMessage, unpack_record
from cometmq.protocol.names import check_topic
from cometmq.store.commit_log import BLANK, CommitLog, LogFile

_MAGIC_BYTES = struct.pack(">i", MAGIC)
_PHYSICAL_OFFSET = struct.Struct(">q")
_PHYSICAL_OFFSET_AT = 28
_SECTOR_SIZE = 512


class GoodRecord(msgspec.Struct, frozen=True):
    """A record, and how long it is."""

    message: StoredMessage
    size: int
    is_torn: bool = False  # its properties, which no crc covers, may not be all there


class BadBytes(msgspec.Struct, frozen=True):
    """A stretch of the log, between good records, that holds none."""

    offset: int
    size: int
    reason: str
    is_torn: bool = False  # a sector of it may be one that a power cut kept from the disk


def walk(log: CommitLog, start: int) -> Iterator[GoodRecord | BadBytes]:
    """Everything from `start`, a record's offset or a file's, to the last good record."""
    tails: list[BadBytes] = []  # ends of files, bad only if a good record comes after them
    for file in log.files:
        if file.base + file.size > start:
            for item in _walk_file(file, max(start - file.base, 0)):
                if isinstance(item, BadBytes) and item.offset + item.size == file.base + file.size:
                    tails.append(item)
                    continue
                yield from tails
                tails.clear()
                yield item


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
            check_topic(record.topic)  # it becomes a folder
        except (Malformed, BadName) as error:
            following = _next_record(file, at + 1)
            if following is None:
                yield _bad(file, at, size, error)  # the end, torn or clean
                return
            yield _bad(file, at, following, error)
            at = following
            continue
        yield GoodRecord(record, length, _lacks_a_sector(record, at, at + length))
        at += length


def _lacks_a_sector(record: StoredMessage, start: int, end: int) -> bool:
    """Properties may hold zeros, but hardly as the last byte of a sector or of all of them."""
    if "\0" not in record.properties_text:
        return False
    properties = record.properties_text.encode()
    first = max(end - len(properties), start) // _SECTOR_SIZE + 1
    ends = [*range(first * _SECTOR_SIZE, end, _SECTOR_SIZE), end]
    return any(not properties[at - 1 - end] for at in ends)


def _bad(file: LogFile, start: int, end: int, error: PeerError) -> BadBytes:
    """A sector that is not on disk ends in zeros: no file of the log ever held anything else.

    It may reach into the next record's size, whose first bytes are zeros too.
    """
    first = (start // _SECTOR_SIZE + 1) * _SECTOR_SIZE
    ends = range(first, end + 4, _SECTOR_SIZE)
    is_torn = any(not file.memory[min(at, end) - 1] for at in ends)
    return BadBytes(file.base + start, end - start, str(error), is_torn)


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
