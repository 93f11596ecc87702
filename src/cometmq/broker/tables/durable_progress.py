"""Progress of work on the log, persisted only after the messages that it stored are on disk.

Otherwise a power cut could lose a delivered copy while the table that counts it survives.
"""

import logging
from typing import Generic, Protocol, TypeVar

from cometmq.background import Background
from cometmq.errors import StoreFailed
from cometmq.seams import Clock, Timer
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

P = TypeVar("P")


class ProgressTable(Protocol[P]):
    """A table of progress that `DurableProgress` persists."""

    def snapshot(self) -> P:
        """A copy of the current progress."""

    async def persist(self, progress: P) -> None:
        """Write a snapshot. The messages that it counts are on disk."""


class DurableProgress(Generic[P]):
    """Persists a table some time after it changed, once the last stored message is on disk."""

    def __init__(
        self, store: MessageStore, clock: Clock, background: Background, table: ProgressTable[P]
    ) -> None:
        self._store = store
        self._clock = clock
        self._background = background
        self._table = table
        self._last: Stored | None = None
        self._timer: Timer | None = None

    def changed(self, stored: Stored | None, within_ms: int) -> None:
        """The table changed, after `stored` was put; persist it within this time."""
        assert within_ms >= 0, "a delay"
        if stored is not None:
            self._last = stored
        if self._timer is None:
            self._timer = self._clock.call_later(within_ms, self._save_now)

    async def save(self) -> None:
        """Persist now. If the disk fails, the old progress stays, and a restart repeats work."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        progress = self._table.snapshot()
        try:
            if self._last is not None:
                await self._store.durable(self._last)
        except StoreFailed as error:
            log.error("progress is not persisted: %s", error)
            return
        await self._table.persist(progress)

    def _save_now(self) -> None:
        self._background.start(self.save(), "persisting progress")
