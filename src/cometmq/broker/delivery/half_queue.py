"""The queue of half messages, the queue of ops that close them, and the progress on both.

An op is a message that names a half message which is decided. The offsets up to which both queues
are done are consumer offsets of the group CID_RMQ_SYS_TRANS, as in Apache RocketMQ 4.9.7: each
broker continues where the other stopped.
"""

import logging
from collections.abc import Iterator

from cometmq.background import Background
from cometmq.broker.delivery.half_ledger import HalfLedger
from cometmq.broker.delivery.half_message import HalfMessage
from cometmq.broker.tables.durable_progress import DurableProgress
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from cometmq.protocol.records.message import StoredMessage
from cometmq.seams import Clock
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

GROUP = "CID_RMQ_SYS_TRANS"
_PERSIST_MS = 1_000
_EVER_MS = 2**62


class HalfQueue:
    """Reads half messages, and persists which of them are closed."""

    def __init__(
        self, store: MessageStore, offsets: ConsumerOffsets, clock: Clock, background: Background
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._progress: DurableProgress[tuple[int, int]]
        self._progress = DurableProgress(store, clock, background, self)
        self.ledger = HalfLedger(0, 0)

    def read(self, offset: int) -> HalfMessage | None:
        """The half message at this offset; None if it is gone or damaged."""
        message = self._store.message(HALF_TOPIC, 0, offset)
        return None if message is None else HalfMessage(message)

    @property
    def end(self) -> int:
        """The offset after the last half message."""
        return self._store.bounds(HALF_TOPIC, 0)[1]

    def changed(self, stored: Stored | None = None) -> None:
        """The ledger changed, after `stored` was put: persist the progress soon."""
        self._progress.changed(stored, _PERSIST_MS)

    async def save(self) -> None:
        """Commit the progress to the consumer offsets, once the ops are on disk."""
        await self._progress.save()

    def snapshot(self) -> tuple[int, int]:
        """The offsets up to which half messages and ops are done."""
        return self.ledger.progress, self.ledger.op_progress

    async def persist(self, progress: tuple[int, int]) -> None:
        for topic, offset in zip((HALF_TOPIC, OP_HALF_TOPIC), progress, strict=True):
            if offset != (self._offsets.get(GROUP, topic, 0) or 0):
                self._offsets.commit(GROUP, topic, 0, offset)

    # Loading

    def load(self) -> None:
        """Find the open half messages, starting from the persisted offsets."""
        self.ledger = ledger = HalfLedger(self._start(HALF_TOPIC), self._start(OP_HALF_TOPIC))
        # A half message with a wrong unit would look like a damaged one, and be closed.
        self._store.check_units(OP_HALF_TOPIC, 0, ledger.op_progress)
        self._store.check_units(HALF_TOPIC, 0, ledger.progress)
        decided = set()
        for op in self._messages(OP_HALF_TOPIC, ledger.op_progress):
            named = _half_offset_in(op)
            decided.add(named)
            ledger.op(named)
        halves = self._messages(HALF_TOPIC, ledger.progress)
        for offset, message in enumerate(halves, ledger.progress):
            first = None if message is None else HalfMessage(message).first_offset
            if first is not None:
                ledger.adopt(first, offset)  # closes the message that this one is a copy of
            if message is None or offset in decided or first in decided:
                ledger.close(offset)
        for offset in filter(ledger.is_open, range(ledger.progress, self.end)):
            if self._is_committed(offset):
                log.info("half message %d was committed before the stop", offset)
                ledger.close(offset)

    def _start(self, topic: str) -> int:
        first, end = self._store.bounds(topic, 0)
        persisted = self._offsets.get(GROUP, topic, 0)
        return min(max(first, persisted or 0), end)

    def _messages(self, topic: str, start: int) -> Iterator[StoredMessage | None]:
        for offset in range(start, self._store.bounds(topic, 0)[1]):
            yield self._store.message(topic, 0, offset)

    def _is_committed(self, offset: int) -> bool:
        """The committed message is stored, but the process ended before it put the op.

        The committed message names the half message. It is found by its unique key; without a key
        the half message is open again, and may be committed twice.
        """
        half = self.read(offset)
        if half is None or not half.unique_key or not self._store.has_index:
            return False
        destination = half.destination
        if destination is None:
            return False
        # At any time: the clock may have been set back between the half message and its copy.
        found = self._store.query(destination[0], half.unique_key, 0, _EVER_MS)
        halves = [self._store.record(copy.prepared_offset) for copy in found]
        return any(
            each.topic == HALF_TOPIC and self.ledger.place(each.queue_offset) == offset
            for each in halves
            if each is not None
        )


def _half_offset_in(op: StoredMessage | None) -> int:
    """The offset of the half message that an op closes; -1 if it is invalid."""
    if op is not None and op.body.isdigit():
        return int(op.body)
    log.error("op %s names no half message", op)
    return -1
