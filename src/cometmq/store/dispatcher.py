"""From the log to the queues and the index: on every put, and again for what a crash took."""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.message import RECORD_SIZE_MIN, StoredMessage
from cometmq.store.consume_queue import NO_RECORD, ConsumeQueue
from cometmq.store.index import Index
from cometmq.store.marks import marks_of
from cometmq.store.queue_table import QueueTable

TRANSACTION = int(MessageFlag.TRANSACTION)
# Messages that no consumer may see yet, or ever: they have no place in a queue.
UNQUEUED = (int(MessageFlag.PREPARED), int(MessageFlag.ROLLBACK))

# The code of a unit, from topic, properties text, tag code and stored time, where it is not the tag
# code itself: the schedule topic has the time of delivery there.
Coder = Callable[[str, str, int, int], int]


class Dispatcher:
    """Fills queues and index."""

    def __init__(self, queues: QueueTable, index: Index | None, coder: Coder | None) -> None:
        self._queues = queues
        self._index = index
        self._coder = coder

    def index_again(self, message: StoredMessage) -> None:
        """Index a record of the log; the index knows what it has already."""
        keys = marks_of(message.properties_text).keys
        if keys and self._index is not None:
            self._index.put(message.topic, keys, message.physical_offset, message.stored_ms)

    def cut_index(self, log_end: int) -> int | None:
        """Forget keys of what the log lost; from where on to index again, if any were."""
        if self._index is None or self._index.end_offset < log_end:
            return None
        self._index.cut(log_end)
        return self._index.end_offset

    def unit_of(self, message: StoredMessage) -> tuple[ConsumeQueue, int] | None:
        """Where a record's unit belongs and its code; None if it has no place in a queue."""
        if message.sys_flag & TRANSACTION in UNQUEUED:
            return None
        text = message.properties_text
        code = marks_of(text).tag_code
        if self._coder is not None:
            code = self._coder(message.topic, text, code, message.stored_ms)
        return self._queues.get(message.topic, message.queue_id), code


class _Unit(NamedTuple):
    queue: ConsumeQueue
    queue_offset: int
    physical_offset: int
    size: int
    code: int


class Requeueing:
    """Makes the units of the records from `start` on again, in one walk along the log.

    Each queue first goes back to its last unit before `start`: what follows may be torn, or point
    to what is damaged. A record that leaves a gap waits for the next of its queue. If that comes
    after it, the records of the gap were damaged, and get units that say so; if not, its own place
    was damaged, and it is refused, as is one whose place is taken.
    """

    def __init__(self, dispatcher: Dispatcher, start: int) -> None:
        self._dispatcher = dispatcher
        self.start = start
        self._begun: set[ConsumeQueue] = set()
        self._waiting: dict[ConsumeQueue, _Unit] = {}
        self.count = 0
        self.refused: list[tuple[int, int]] = []  # physical offset and size

    def put(self, message: StoredMessage, size: int) -> None:
        """The next record of the walk."""
        place = self._dispatcher.unit_of(message)
        if place is None:
            return
        queue, code = place
        unit = _Unit(queue, message.queue_offset, message.physical_offset, size, code)
        if queue not in self._begun:
            self._begun.add(queue)
            queue.sync_names()
            queue.cut_from(self.start)
        waiting = self._waiting.pop(queue, None)
        if waiting is not None:
            self._append(waiting, is_sure=unit.queue_offset > waiting.queue_offset)
        if unit.queue_offset > queue.end:
            self._waiting[queue] = unit
        else:
            self._append(unit, is_sure=unit.queue_offset == queue.end)

    def finish(self, damaged: int) -> None:
        """After the last record; at most so many were damaged, and one may be in another queue."""
        for unit in self._waiting.values():
            gap = unit.queue_offset - unit.queue.end
            lost = damaged + len(self.refused) + 1
            self._append(unit, is_sure=unit.queue.is_empty or gap <= lost)

    def _append(self, unit: _Unit, is_sure: bool) -> None:
        queue = unit.queue
        # No queue has more records than fit before the last of them.
        if not is_sure or unit.queue_offset > unit.physical_offset // RECORD_SIZE_MIN:
            self.refused.append((unit.physical_offset, unit.size))
            return
        if queue.is_empty and unit.queue_offset > queue.end:
            queue.start_at(unit.queue_offset)
        while queue.end < unit.queue_offset:
            queue.append(unit.physical_offset, NO_RECORD, 0)
        queue.append(unit.physical_offset, unit.size, unit.code)
        self.count += 1
