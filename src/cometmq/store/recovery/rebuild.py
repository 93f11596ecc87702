"""Rebuilds units of queues and keys of the index from a walk along the log."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.message import RECORD_SIZE_MIN
from cometmq.store.disk_full import is_full
from cometmq.store.index.index import Index
from cometmq.store.index.key_buffer import KeyBuffer
from cometmq.store.queue.consume_queue import NO_RECORD, ConsumeQueue
from cometmq.store.queue.queue_table import Key, QueueTable
from cometmq.store.recovery.disputes import Dispute

log = logging.getLogger(__name__)

TRANSACTION = int(MessageFlag.TRANSACTION)
# Messages that no consumer may see yet, or ever: they have no place in a queue.
UNQUEUED = (int(MessageFlag.PREPARED), int(MessageFlag.ROLLBACK))

# The code of a unit, from topic, properties text, tag code and stored time, where it is not the tag
# code itself: the schedule topic has the time of delivery there.
Coder = Callable[[str, str, int, int], int]

_UNITS_HELD_MAX = 1 << 20  # rebuilt and not written yet: 20 MB
_LOG_HELD_MAX = 16 << 20  # bytes of it whose keys are not put yet


class _Unit(NamedTuple):
    queue: ConsumeQueue
    queue_offset: int
    physical_offset: int
    size: int
    code: int


class QueueRebuilder:
    """Makes the units of the records from `start` on again, in one walk along the log.

    Each queue first goes back to its last unit before `start`: what follows may be torn, or point
    to what is damaged. A record that leaves a gap waits for the next of its queue. If that comes
    after it, the records of the gap were damaged, and get units that say so; if not, its own place
    was damaged, and it is refused, as is one whose place is taken. If that place was the last, the
    other one may be the wrong one, and there is a dispute.
    """

    def __init__(self, queues: QueueTable, start: int) -> None:
        self._queues = queues
        self._start = start
        self._begun: dict[Key, ConsumeQueue] = {}
        self._waiting: dict[ConsumeQueue, _Unit] = {}
        self._started: list[tuple[ConsumeQueue, int]] = []  # where it ended before
        self._held = 0
        self.count = 0
        self.refused: list[tuple[int, int]] = []  # physical offset and size
        self.disputes: list[Dispute] = []
        self.odd: set[Key] = set()  # queues whose units before `start` do not fit what follows
        self.passed: dict[Key, int] = {}  # last queue offset of records whose units must be there

    def put(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        size: int,
        code: int,
    ) -> None:
        """The next record of the walk."""
        queue = self._begun.get((topic, queue_id)) or self._begin(topic, queue_id)
        if queue_offset == queue.end and not self._waiting:  # as nearly all are
            queue.append(physical_offset, size, code)
            self.count += 1
        else:
            self._put_odd(_Unit(queue, queue_offset, physical_offset, size, code))
        self._held += 1
        if self._held >= _UNITS_HELD_MAX:
            self._write()
            self._held = 0

    def _write(self) -> None:
        """On a full disk the units stay in memory, because readers need them."""
        try:
            self._queues.write()
        except OSError as error:
            if not is_full(error):
                raise

    def _begin(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self._begun[topic, queue_id] = self._queues.get(topic, queue_id)
        queue.sync_names()
        queue.cut_from(self._start)
        if queue.is_suspect:
            self.odd.add(queue.key)
        return queue

    def _put_odd(self, unit: _Unit) -> None:
        queue = unit.queue
        if unit.queue_offset != queue.end:
            self.odd.add(queue.key)
        waiting = self._waiting.pop(queue, None)
        if waiting is not None:
            self._append(waiting, is_sure=unit.queue_offset > waiting.queue_offset)
        if unit.queue_offset > queue.end:
            self._waiting[queue] = unit
            return
        last = queue.unit(queue.end - 1) if unit.queue_offset == queue.end - 1 else None
        if last is not None and last[1] != NO_RECORD:
            self.disputes.append(Dispute(last[0], unit.physical_offset))
        self._append(unit, is_sure=unit.queue_offset == queue.end)

    def finish(self, damaged: int) -> None:
        """After the last record; at most so many were damaged, and one may be in another queue."""
        for unit in self._waiting.values():
            gap = unit.queue_offset - unit.queue.end
            lost = damaged + len(self.refused) + 1
            self._append(unit, is_sure=unit.queue.is_empty or gap <= lost)

    def stale_files(self) -> list[Path]:
        """Files with units of records that left the log, of queues that begin later now."""
        return [path for queue, _ in self._started for path in queue.files_before_first()]

    def undo(self) -> None:
        """Prepare another walk: restore the queues to their state before this one."""
        for queue, end in self._started:
            queue.end_at(end)

    def _append(self, unit: _Unit, is_sure: bool) -> None:
        queue = unit.queue
        # No queue has more records than fit before the last of them.
        if not is_sure or unit.queue_offset > unit.physical_offset // RECORD_SIZE_MIN:
            self.refused.append((unit.physical_offset, unit.size))
            return
        if queue.is_empty and unit.queue_offset > queue.end:
            self._started.append((queue, queue.end))
            queue.start_at(unit.queue_offset)
        while queue.end < unit.queue_offset:
            queue.append(unit.physical_offset, NO_RECORD, 0)
        queue.append(unit.physical_offset, unit.size, unit.code)
        self.count += 1


class Reindexing:
    """Adds the keys of records to the index, many at a time."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._held = KeyBuffer()
        self._until = 0  # of the log: what is held stays small

    def put(self, topic: str, keys: list[str], physical_offset: int, stored_ms: int) -> None:
        """The next record of the walk; the index knows what it has already."""
        if physical_offset >= self._until:
            self.finish()
            self._until = physical_offset + _LOG_HELD_MAX
        self._held.add((topic,), (keys,), (physical_offset,), stored_ms)

    def finish(self) -> None:
        """Put what is held. Where there is no room for a file, it is found when there is.

        That is, when the store is next opened: no checkpoint vouches for an index that lacks keys.
        """
        held = self._held.entries()
        if self._index.lacks_keys:
            return
        try:
            self._index.put(*held)
        except OSError as error:
            if not is_full(error):
                raise
            self._index.lacks_keys = True
            log.error("the disk is full: some keys are not found until a start with room for them")
