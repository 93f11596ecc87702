"""Who waits for which queue to grow."""

import asyncio
from collections.abc import Callable

from cometmq.seams import Clock

TagFilter = Callable[[int], bool]


class _Waiter:
    __slots__ = ("offset", "wants", "woken")

    def __init__(self, woken: "asyncio.Future[None]", offset: int, wants: TagFilter | None) -> None:
        self.woken = woken
        self.offset = offset
        self.wants = wants


class Arrivals:
    """Pulls that found nothing, by queue. `announce` is the store's way to tell of a message."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[tuple[str, int], dict[_Waiter, None]] = {}
        self.count = 0  # of those that wait
        self.is_over = False  # the broker stops: nobody is to wait any longer

    def announce(self, topic: str, queue_id: int, end: int, tag_code: int) -> None:
        """A queue ends here now, with a message of this tag: wake who wants it."""
        waiting = self._waiting.get((topic, queue_id))
        if waiting is None:
            return
        for waiter in waiting:
            if end > waiter.offset and (waiter.wants is None or waiter.wants(tag_code)):
                _wake(waiter.woken)

    async def wait_past(
        self, topic: str, queue_id: int, offset: int, wants: TagFilter | None, patience_ms: int
    ) -> None:
        """Return when there is more than this in the queue that is wanted, or no more patience."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), offset, wants)
        timer = self._clock.call_later(patience_ms, lambda: _wake(waiter.woken))
        queue = topic, queue_id
        self._waiting.setdefault(queue, {})[waiter] = None
        self.count += 1
        try:
            await waiter.woken
        finally:
            timer.cancel()
            self.count -= 1
            waiting = self._waiting[queue]
            del waiting[waiter]
            if not waiting:
                del self._waiting[queue]

    def end(self) -> None:
        """Nobody waits any longer: the broker stops."""
        self.is_over = True
        for waiting in self._waiting.values():
            for waiter in waiting:
                _wake(waiter.woken)


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
