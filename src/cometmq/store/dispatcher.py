"""From the log to the queues and the index: on every put, and again for what a crash took."""

from collections.abc import Callable

from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.message import StoredMessage
from cometmq.store.consume_queue import NO_RECORD
from cometmq.store.index import Index
from cometmq.store.marks import marks_of
from cometmq.store.queue_table import QueueTable

_TRANSACTION = int(MessageFlag.TRANSACTION)
# Messages that no consumer may see yet, or ever: they have no place in a queue.
_UNQUEUED = (int(MessageFlag.PREPARED), int(MessageFlag.ROLLBACK))

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

    def queue_again(
        self, message: StoredMessage, size: int, restarted: set[tuple[str, int]]
    ) -> None:
        """Write the unit of a record of the log, which may be there already.

        At its first record each queue goes back to where that record belongs, so that what a crash
        tore in its files is written anew.
        """
        if message.sys_flag & _TRANSACTION in _UNQUEUED:
            return
        key = message.topic, message.queue_id
        queue = self._queues.get(*key)
        if key not in restarted:
            restarted.add(key)
            if queue.end == queue.first and message.queue_offset > queue.end:
                queue.start_at(message.queue_offset)
            elif message.queue_offset < queue.end:
                queue.cut(message.queue_offset)
        if message.queue_offset < queue.end:
            return  # two records of one place: the first, whose unit is there, counts
        while queue.end < message.queue_offset:
            queue.append(message.physical_offset, NO_RECORD, 0)  # the records there were damaged
        text = message.properties_text
        code = marks_of(text).tag_code
        if self._coder is not None:
            code = self._coder(message.topic, text, code, message.stored_ms)
        queue.append(message.physical_offset, size, code)
