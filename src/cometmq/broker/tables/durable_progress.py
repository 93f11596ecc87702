"""How far work on the log has come, kept only once what it stored is on disk.

A delivered copy that a power cut takes, while the table that says so survives, would be lost.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from cometmq.background import Background
from cometmq.errors import StoreFailed
from cometmq.seams import Clock, Timer
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

P = TypeVar("P")


class DurableProgress(Generic[P]):
    """Some time after a move, `now` is asked, and `keep` told as soon as it is safe."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        background: Background,
        interval_ms: Callable[[], int],
        now: Callable[[], P],
        keep: Callable[[P], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._background = background
        self._interval_ms = interval_ms
        self._now = now
        self._keep = keep
        self._last: Stored | None = None
        self._timer: Timer | None = None

    def moved(self, stored: Stored | None = None) -> None:
        """Something is done, by what was stored last."""
        if stored is not None:
            self._last = stored
        if self._timer is None:
            self._timer = self._clock.call_later(self._interval_ms(), self._save_now)

    async def save(self) -> None:
        """Return once it is kept; if the disk fails, it stays as it was, and work is repeated."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        progress = self._now()
        try:
            if self._last is not None:
                await self._store.durable(self._last)
        except StoreFailed as error:
            log.error("progress is not kept: %s", error)
            return
        await self._keep(progress)

    def _save_now(self) -> None:
        self._background.start(self.save(), "keeping progress")
