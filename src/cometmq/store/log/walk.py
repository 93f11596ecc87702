"""A walk along the log, record by record, that continues after damaged records.

A record is good if its magic, its sizes, its own physical offset and its body's crc are right.
After a bad one the walk looks for the next place where a record says that it stands exactly there:
magic and physical offset together do not occur by chance.

A good record is returned as an outline, a plain tuple with the fields that queues and index need.
Parsing the whole message takes 4 us more, and a log has millions of records.
"""

import struct
from collections.abc import Generator, Iterator
from zlib import crc32

import msgspec

from cometmq.errors import BadName, Malformed
from cometmq.protocol.names import check_topic
from cometmq.protocol.records.message import (
    BLANK_MAGIC,
    HEADS,
    MAGIC,
    RECORD_SIZE_MIN,
    V6_SHIFT,
    unpack_record,
)
from cometmq.protocol.records.properties import UNREADABLE_BYTES, properties_bytes
from cometmq.store.log.commit_log import BLANK, CommitLog, LogFile

# Physical offset, size, topic, queue id, queue offset, sys flag, stored ms, properties text, and
# whether it is torn: its properties, which no crc covers, may not be all there.
Outline = tuple[int, int, str, int, int, int, int, str, bool]

_MAGIC_BYTES = struct.pack(">i", MAGIC)
_PHYSICAL_OFFSET = struct.Struct(">q")
_PHYSICAL_OFFSET_AT = 28
_SECTOR_SIZE = 512
_NO_RECORD = bytes(BLANK.size)
_PROPERTIES_SIZE = struct.Struct(">H")
_V6_BITS = 3 << V6_SHIFT


def _head(born_size: int, store_size: int) -> struct.Struct:
    """What an outline needs of a record's head: see protocol/records/message.py, which draws it."""
    return struct.Struct(f">iiii4xqqi8x{born_size}xq{store_size}x12xi")


_OUTLINES = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))
assert [head.size for head in _OUTLINES] == [head.size for head in HEADS]


class BadBytes(msgspec.Struct, frozen=True):
    """A stretch of the log, between good records, that holds none."""

    offset: int
    size: int
    reason: str
    is_torn: bool = False  # a sector of it may be one that a power cut kept from the disk


def walk(log: CommitLog, start: int, unsynced: int | None = None) -> Iterator[Outline | BadBytes]:
    """Everything from `start`, a record's offset or a file's, to the last good record.

    From `unsynced` on, zeros in the place of a record are the end, whatever follows them.
    """
    tails: list[BadBytes] = []  # ends of files, bad only if a good record comes after them
    for file in log.files:
        if file.base + file.size > start:
            at = max(start - file.base, 0)
            ended = yield from _walk_file(file, at, unsynced, tails)
            if ended:
                return


def record_at(file: LogFile, at: int) -> Outline | None:
    """The good record that begins at `at`; None if there is no good record."""
    return next(_good_records(file, at), None)


def _walk_file(
    file: LogFile, at: int, unsynced: int | None, tails: list[BadBytes]
) -> Generator[Outline | BadBytes, None, bool]:
    """Walk one file; True if the log ends in it."""
    memory, size = file.memory, file.size
    while size - at >= BLANK.size:
        if tails and next(_good_records(file, at), None) is not None:
            yield from tails
            tails.clear()
        at = yield from _good_records(file, at)
        if size - at < BLANK.size:
            break
        length, magic = BLANK.unpack_from(memory, at)
        if magic == BLANK_MAGIC and length == size - at:
            break
        is_unsynced = unsynced is not None and file.base + at >= unsynced
        if is_unsynced and memory[at : at + BLANK.size].tobytes() == _NO_RECORD:
            return True
        reason = _fault(file, at)
        following = _next_record(file, at + 1)
        if following is None:
            tails.append(_bad(file, at, size, reason))  # the end, torn or clean
            break
        yield _bad(file, at, following, reason)
        at = following
    return False


def _good_records(file: LogFile, at: int) -> Generator[Outline, None, int]:
    """One after the other, up to a place, which is returned, where none stands.

    Flat, over local names: 2 us a record and its crc, of 6 for all of a rebuild ("rebuild" in
    bench/store.py).
    """
    memory, base, size = file.memory, file.base, file.size
    unpack, unpack_size = _OUTLINES[0].unpack_from, _PROPERTIES_SIZE.unpack_from
    topics: dict[bytes, str] = {}
    while at <= size - RECORD_SIZE_MIN:
        (length, magic, crc, queue_id, queue_offset, place, sys_flag, stored_ms, body_size) = (
            unpack(memory, at)
        )
        body_at = at + 88
        if magic != MAGIC or place != base + at:
            break
        if sys_flag & _V6_BITS:
            head = _OUTLINES[sys_flag >> V6_SHIFT & 3]
            body_at = at + head.size
            if body_at > size:
                break
            *_, stored_ms, body_size = head.unpack_from(memory, at)
        body_end = body_at + body_size
        end = at + length
        if body_size < 0 or not body_end + 3 <= end <= size:
            break
        properties_at = body_end + 3 + memory[body_end]
        if properties_at > end or unpack_size(memory, properties_at - 2)[0] != end - properties_at:
            break
        if crc32(memory[body_at:body_end]) & 0x7FFFFFFF != crc:
            break
        packed = memory[body_end + 1 : properties_at - 2].tobytes()
        try:
            topic = topics.get(packed) or topics.setdefault(packed, check_topic(packed.decode()))
            text = str(memory[properties_at:end], "utf-8", UNREADABLE_BYTES)
        except (UnicodeDecodeError, BadName):  # a topic becomes a folder
            break
        is_torn = "\0" in text and _lacks_a_sector(text, at, end)
        yield place, length, topic, queue_id, queue_offset, sys_flag, stored_ms, text, is_torn
        at = end
    return at


def _fault(file: LogFile, at: int) -> str:
    """The reason why there is no good record at `at`."""
    try:
        record = unpack_record(file.memory, at)
        check_topic(record.topic)
    except (Malformed, BadName) as error:
        return str(error)
    return f"it says it stands at {record.physical_offset}"


def _lacks_a_sector(properties_text: str, start: int, end: int) -> bool:
    """Properties may hold zeros, but hardly as the last byte of a sector or of all of them."""
    properties = properties_bytes(properties_text)
    first = max(end - len(properties), start) // _SECTOR_SIZE + 1
    ends = [*range(first * _SECTOR_SIZE, end, _SECTOR_SIZE), end]
    return any(not properties[at - 1 - end] for at in ends)


def _bad(file: LogFile, start: int, end: int, reason: str) -> BadBytes:
    """A sector that is not on disk ends in zeros: no file of the log ever held anything else.

    It may reach into the next record's size, whose first bytes are zeros too.
    """
    first = (start // _SECTOR_SIZE + 1) * _SECTOR_SIZE
    ends = range(first, end + 4, _SECTOR_SIZE)
    is_torn = any(not file.memory[min(at, end) - 1] for at in ends)
    return BadBytes(file.base + start, end - start, reason, is_torn)


def _next_record(file: LogFile, at: int) -> int | None:
    """The next position in this file, from `at` on, of a good record."""
    while (magic_at := file.region.find(_MAGIC_BYTES, at + 4)) >= 0:
        at = magic_at - 4
        if at + _PHYSICAL_OFFSET_AT + 8 <= file.size:
            (physical,) = _PHYSICAL_OFFSET.unpack_from(file.memory, at + _PHYSICAL_OFFSET_AT)
            if physical == file.base + at and next(_good_records(file, at), None) is not None:
                return at
        at += 1
    return None
