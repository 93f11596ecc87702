"""A clock that follows the machine's clock and that a test can advance."""

import asyncio
from collections.abc import Callable

from cometmq.seams import RealClock


class HurriedTimer:
    """A callback that runs when the clock reaches `due_ms`."""

    __slots__ = ("_call", "_clock", "_handle", "due_ms")

    def __init__(self, clock: "HurriedClock", due_ms: int, call: Callable[[], None]) -> None:
        self._clock = clock
        self.due_ms = due_ms
        self._call = call
        self._handle: asyncio.Handle
        self.schedule()

    def schedule(self) -> None:
        """Schedule the callback on the event loop, after the time that remains until `due_ms`."""
        loop = asyncio.get_running_loop()
        delay_ms = self.due_ms - self._clock.monotonic_ms()
        self._handle = loop.call_later(max(0, delay_ms) / 1000, self._ring)

    def reschedule(self) -> None:
        """Schedule the callback again after the clock was advanced."""
        self._handle.cancel()
        self.schedule()

    def cancel(self) -> None:
        """Cancel the callback."""
        self._handle.cancel()
        self._clock.forget(self)

    def _ring(self) -> None:
        self._clock.forget(self)
        self._call()


class ConnectionClock(RealClock):
    """Returns the advanced wall time, but measures delays and timeouts with the machine's clock.

    A connection must not count as idle because a test skipped two hours.
    """

    def __init__(self, hurried: "HurriedClock") -> None:
        self._hurried = hurried

    def wall_ms(self) -> int:
        """Return the wall time of the clock that was advanced."""
        return self._hurried.wall_ms()


class HurriedClock(RealClock):
    """Wall and monotonic time run at normal speed; `advance` moves both. Use in one loop."""

    def __init__(self) -> None:
        self.of_connections = ConnectionClock(self)
        self._ahead_ms = 0
        self._timers: dict[HurriedTimer, None] = {}  # in order of creation

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, plus the time that the clock was advanced by."""
        return super().wall_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        """Return the machine's monotonic time, plus the time that the clock was advanced by."""
        return super().monotonic_ms() + self._ahead_ms

    def call_later(self, delay_ms: int, call: Callable[[], None]) -> HurriedTimer:
        """Run the callback after the delay, or when `advance` moves the clock past it."""
        timer = HurriedTimer(self, self.monotonic_ms() + delay_ms, call)
        self._timers[timer] = None
        return timer

    async def sleep_ms(self, delay_ms: int) -> None:
        """Return after the delay, or when `advance` moves the clock past it."""
        woken = asyncio.Event()
        timer = self.call_later(delay_ms, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def advance(self, milliseconds: int) -> None:
        """Advance the clock. Timers that are now due run in the next iterations, in order."""
        if milliseconds < 0:
            raise ValueError("a clock is put forward, not back")
        self._ahead_ms += milliseconds
        for timer in sorted(self._timers, key=lambda timer: timer.due_ms):
            timer.reschedule()

    def forget(self, timer: HurriedTimer) -> None:
        """Remove a timer that has fired or was canceled."""
        self._timers.pop(timer, None)
