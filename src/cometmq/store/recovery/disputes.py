"""Two records that claim one place of a queue: the one that came from elsewhere is sent back.

No crc covers a record's topic, queue id and queue offset. A flipped bit there makes it claim
another place, and leaves its own one free: that is one bit apart. Of the two that claim a place,
the stranger is the one that stands in the log between the neighbours of the free place; what it
says is put right in the log itself, so that all who read it agree for ever. If both stand there
nothing can tell which it was: one has its place here and the other there.
"""

import logging
import struct
from collections.abc import Iterator
from typing import NamedTuple

from cometmq.protocol.records.message import HEADS, V6_SHIFT, StoredMessage, unpack_record
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.walk import BadBytes
from cometmq.store.queue.consume_queue import NO_RECORD, ConsumeQueue
from cometmq.store.queue.queue_table import Key, QueueTable

log = logging.getLogger(__name__)

_NUMBER, _LONG = struct.Struct(">i"), struct.Struct(">q")
_QUEUE_ID_AT, _QUEUE_OFFSET_AT = 12, 20
_NOWHERE = 2**62  # as a place of the log: no record stands so far


class Dispute(NamedTuple):
    """Where in the log two records stand that claim one place, with no later one between them."""

    earlier: int
    later: int


class _Place(NamedTuple):
    """Of a queue."""

    key: Key
    queue_offset: int


class _Free(NamedTuple):
    """How little is known of a place that it lacks its record, and where that must have stood."""

    doubt: int
    after: int
    before: int


class _Home(NamedTuple):
    """A free place, and which of the two records may be its; the least is the best.

    In another queue, whichever of the two it is keeps its queue offset.
    """

    doubt: int
    is_same_queue: bool
    place: _Place
    offset: int


def settle(
    commit_log: CommitLog, queues: QueueTable, disputes: list[Dispute]
) -> tuple[BadBytes, ...]:
    """Put right, durably, the names of the records that are not where they should be."""
    known = frozenset(queues.known()) if disputes else frozenset()
    filled: set[_Place] = set()
    moved = []
    for dispute in disputes:
        record = _record(commit_log, dispute.later)
        homes = _homes(queues, known, dispute, record)
        home = min((home for home in homes if home.place not in filled), default=None)
        if home is not None:
            filled.add(home.place)
            moved.append(_send(commit_log, home.offset, home.place))
    return tuple(moved)


def _record(commit_log: CommitLog, offset: int) -> StoredMessage:
    file = commit_log.file_at(offset)
    assert file is not None, "the walk was there"
    return unpack_record(file.memory, offset - file.base)


def _homes(
    queues: QueueTable, known: frozenset[Key], dispute: Dispute, record: StoredMessage
) -> Iterator[_Home]:
    own = record.topic, record.queue_id
    for place in _one_bit_apart(own, record.queue_offset):
        topic = place.key[0]
        if place.key in known and topic not in queues.leaving:
            free = _free(queues.get(*place.key), place.queue_offset)
        elif topic == record.topic and place.queue_offset == 0:
            free = _Free(3, -1, _NOWHERE)  # a queue whose only record it was
        else:
            continue
        after = max(free.after, queues.deleted.get(topic, 0) - 1)
        for offset in dispute:
            if after < offset < free.before:
                yield _Home(free.doubt, place.key == own, place, offset)


def _one_bit_apart(key: Key, queue_offset: int) -> Iterator[_Place]:
    topic, queue_id = key
    for bit in range(63):
        yield _Place(key, queue_offset ^ 1 << bit)
    for bit in range(31):
        yield _Place((topic, queue_id ^ 1 << bit), queue_offset)
    packed = topic.encode()
    for bit in range(len(packed) * 8):
        other = int.from_bytes(packed) ^ 1 << bit
        name = other.to_bytes(len(packed)).decode(errors="replace")
        yield _Place((name, queue_id), queue_offset)


def _free(queue: ConsumeQueue, queue_offset: int) -> _Free:
    """Least doubtful is a place that has its record, then one between two others, then an end."""
    if queue_offset == queue.end:
        return _Free(2, _offset(queue, queue_offset - 1, -1), _NOWHERE)
    unit = queue.unit(queue_offset)
    if unit is not None and unit[1] != NO_RECORD:  # it has one, which may be one of the two
        return _Free(0, unit[0] - 1, unit[0] + 1)
    if unit is not None or queue_offset == queue.first - 1:
        following = _offset(queue, queue_offset + 1, _NOWHERE)
        return _Free(1, _offset(queue, queue_offset - 1, -1), following)
    return _Free(3, _NOWHERE, _NOWHERE)


def _offset(queue: ConsumeQueue, queue_offset: int, otherwise: int) -> int:
    unit = queue.unit(queue_offset)
    return otherwise if unit is None else unit[0]


def _send(commit_log: CommitLog, offset: int, place: _Place) -> BadBytes:
    record, file = _record(commit_log, offset), commit_log.file_at(offset)
    assert file is not None
    (topic, queue_id), queue_offset = place
    at, packed = offset - file.base, topic.encode()
    topic_at = at + HEADS[record.sys_flag >> V6_SHIFT & 3].size + len(record.body) + 1
    file.memory[topic_at : topic_at + len(packed)] = packed
    _NUMBER.pack_into(file.memory, at + _QUEUE_ID_AT, queue_id)
    _LONG.pack_into(file.memory, at + _QUEUE_OFFSET_AT, queue_offset)
    file.region.sync()
    (size,) = _NUMBER.unpack_from(file.memory, at)
    reason = (
        f"it claimed place {record.queue_offset} of queue {record.queue_id} of {record.topic},"
        f" which is another's: it is now at place {queue_offset} of queue {queue_id} of {topic}"
    )
    log.error("%d bytes of the log at %d were bad: %s", size, offset, reason)
    return BadBytes(offset, size, reason)
