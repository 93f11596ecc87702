"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

_SETTLE_TURNS = 20  # of the loop, after each timer: enough for what it woke to reach its next wait


class ManualTimer:
    """A call that comes when the clock gets there."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """It does not come."""
        self.call = None


class ManualClock:
    """Both times start at `start_ms` and move only by `advance` (and wall time by `jump`)."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = start_ms
        self._wall_shift_ms = 0
        self._order = count()
        self._timers: list[tuple[int, int, ManualTimer]] = []

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the test has it."""
        return self._monotonic_ms + self._wall_shift_ms

    def monotonic_ms(self) -> int:
        """Milliseconds that have passed, and the start."""
        return self._monotonic_ms

    def call_later(self, delay_ms: int, call: Callable[[], None]) -> ManualTimer:
        """Call when `advance` has passed the delay."""
        timer = ManualTimer(call)
        due_ms = self._monotonic_ms + max(0, delay_ms)
        heapq.heappush(self._timers, (due_ms, next(self._order), timer))
        return timer

    async def sleep_ms(self, delay_ms: int) -> None:
        """Return when `advance` has passed the delay."""
        awake = asyncio.Event()
        timer = self.call_later(delay_ms, awake.set)
        try:
            await awake.wait()
        finally:
            timer.cancel()

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        self._wall_shift_ms += by_ms

    def skip(self, by_ms: int) -> None:
        """Let time pass in which nothing can run: what is due comes late, at the next `advance`."""
        self._monotonic_ms += by_ms

    async def advance(self, by_ms: int) -> None:
        """Let time pass; every timer on the way fires in its turn, and what it wakes runs."""
        end_ms = self._monotonic_ms + by_ms
        await _settle()
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self._monotonic_ms = max(self._monotonic_ms, due_ms)
            if timer.call is not None:
                timer.call()
                await _settle()
        self._monotonic_ms = end_ms
        await _settle()


async def _settle() -> None:
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)
