"""Checks of queue units that this process did not write, against the log they point into.

There are two steps. `plausible_count` compares the units with each other: offsets grow along a
queue, sizes are valid record sizes, nothing points past the end of the log. It touches no page of
the log, so it runs for every unit that is read. `judge_unit` reads the record, which names its
topic, queue id, queue offset and place. It runs once for each unit that is served (vetting.py).
"""

import struct

from cometmq.protocol.records.message import MAGIC, RECORD_SIZE_MIN
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.walk import record_at
from cometmq.store.queue.consume_queue import NO_RECORD, UNIT, ConsumeQueue
from cometmq.store.queue.results import UnitVerdict

Key = tuple[str, int]  # topic and queue id

# Size, magic, crc, queue id, flag, queue offset, physical offset: see protocol/records/message.py.
_HEAD = struct.Struct(">iiiiiqq")


def judge_unit(
    log: CommitLog, key: Key, queue_offset: int, physical_offset: int, size: int
) -> UnitVerdict:
    """Compare a unit with the record it points to."""
    if size == NO_RECORD:
        return UnitVerdict.DAMAGED
    if size < RECORD_SIZE_MIN or physical_offset < 0:
        return UnitVerdict.STRAY
    if physical_offset < log.start:
        return UnitVerdict.GONE
    file = log.file_at(physical_offset)
    if file is None or physical_offset + size > file.end:
        return UnitVerdict.STRAY
    at = physical_offset - file.base
    record = record_at(file, at)
    if record is not None:
        is_its = record[1:5] == (size, *key, queue_offset)
        return UnitVerdict.GOOD if is_its else UnitVerdict.WRONG
    _, magic, _, queue_id, _, offset, place = _HEAD.unpack_from(file.memory, at)
    is_head = magic == MAGIC and place == physical_offset
    if is_head and (queue_id, offset) == (key[1], queue_offset):
        return UnitVerdict.DAMAGED
    return UnitVerdict.WRONG


def plausible_count(log: CommitLog, queue: ConsumeQueue, queue_offset: int, units: bytes) -> int:
    """The number of leading units that are consistent with each other."""
    if not units:
        return 0
    if UNIT.unpack_from(units)[0] < log.start:
        queue.forget_before(log.start)
        if queue_offset >= queue.first:  # the units around it show that its record is in the log
            return 0
    count = end = 0
    log_end = log.end
    for physical_offset, size, _ in UNIT.iter_unpack(units):
        if physical_offset < end:
            break
        if size == NO_RECORD:
            end = physical_offset
        else:
            end = physical_offset + size
            if size < RECORD_SIZE_MIN or end > log_end:
                break
        count += 1
    if count and UNIT.unpack_from(units)[:2] == (0, NO_RECORD):
        return count if _may_be_blank(queue, queue_offset) else 0
    return count


def _may_be_blank(queue: ConsumeQueue, queue_offset: int) -> bool:
    """Only the units before the first message of a queue are blank."""
    if queue_offset <= queue.first:
        return True
    before = queue.unit(queue_offset - 1)
    return before is not None and before[:2] == (0, NO_RECORD)
