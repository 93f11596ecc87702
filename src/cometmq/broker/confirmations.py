"""Sends that wait for the disk: each is told once it is safe, or has waited too long.

There are thousands at a time under SYNC_FLUSH, so they share what they can: the store is asked once
for all that came in one turn of the loop, and one timer watches the oldest.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from cometmq.protocol.codes import ResponseCode
from cometmq.seams import Clock, Timer
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored

# Told the code for the producer and, if something failed, what it was.
Tell = Callable[[int, str | None], None]

_SUCCESS = ResponseCode.SUCCESS.value
_TOO_LATE = ResponseCode.FLUSH_DISK_TIMEOUT.value
_FAILED = ResponseCode.SERVICE_NOT_AVAILABLE.value


class Confirmations:
    """Those that wait at one store, oldest first."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiting: deque[tuple[int, int, Tell]] = deque()  # end, deadline, who is told
        self._newest: Stored | None = None  # what the store is to be asked for in this turn
        self._timer: Timer | None = None

    def add(self, stored: Stored, tell: Tell) -> None:
        """Tell when the message is on disk."""
        patience_ms = self._store.flush_patience_ms
        self._waiting.append((stored.end, self._clock.monotonic_ms() + patience_ms, tell))
        if self._newest is None:
            asyncio.get_running_loop().call_soon(self._ask)
        if self._newest is None or self._newest.end < stored.end:
            self._newest = stored
        if self._timer is None:
            self._timer = self._clock.call_later(patience_ms, self._give_up_the_late)

    def follow_settings(self) -> None:
        """From now on nobody waits longer than the store's settings have it."""
        if self._timer is not None:
            self._timer.cancel()
        latest_ms = self._clock.monotonic_ms() + self._store.flush_patience_ms
        self._waiting = deque(
            (end, min(deadline_ms, latest_ms), tell) for end, deadline_ms, tell in self._waiting
        )
        self._give_up_the_late()

    def _ask(self) -> None:
        newest, self._newest = self._newest, None
        assert newest is not None
        self._store.durable(newest).add_done_callback(self._flushed)

    def _flushed(self, flush: "asyncio.Future[None]") -> None:
        waiting, end = self._waiting, self._store.flushed_end
        while waiting and waiting[0][0] <= end:
            waiting.popleft()[2](_SUCCESS, None)
        error = flush.exception()
        if error is not None:  # a disk that failed once is not trusted again
            while waiting:
                waiting.popleft()[2](_FAILED, f"service not available now: {error}")

    def _give_up_the_late(self) -> None:
        """The timer is left to come when nobody waits any more: to stop it costs each send 1 us."""
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while self._waiting and self._waiting[0][1] <= now_ms:
            self._waiting.popleft()[2](_TOO_LATE, None)
        if self._waiting:
            delay_ms = self._waiting[0][1] - now_ms
            self._timer = self._clock.call_later(delay_ms, self._give_up_the_late)
