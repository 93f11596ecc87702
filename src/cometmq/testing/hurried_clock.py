"""A clock that goes as the machine's, and that a test may put forward."""

import asyncio
from collections.abc import Callable

from cometmq.seams import RealClock


class HurriedTimer:
    """A call that comes when the clock gets there."""

    __slots__ = ("_call", "_clock", "_handle", "due_ms")

    def __init__(self, clock: "HurriedClock", due_ms: int, call: Callable[[], None]) -> None:
        self._clock = clock
        self.due_ms = due_ms
        self._call = call
        self._handle: asyncio.Handle
        self.schedule()

    def schedule(self) -> None:
        """By the loop, for when the clock gets there as it goes now."""
        loop = asyncio.get_running_loop()
        delay_ms = self.due_ms - self._clock.monotonic_ms()
        self._handle = loop.call_later(max(0, delay_ms) / 1000, self._ring)

    def reschedule(self) -> None:
        """The clock was put forward."""
        self._handle.cancel()
        self.schedule()

    def cancel(self) -> None:
        """It does not come."""
        self._handle.cancel()
        self._clock.forget(self)

    def _ring(self) -> None:
        self._clock.forget(self)
        self._call()


class ConnectionClock(RealClock):
    """Tells the hurried time of day, but waits and expires as the machine's clock does.

    A connection that was quiet for the two hours that a test skipped is not an idle one.
    """

    def __init__(self, hurried: "HurriedClock") -> None:
        self._hurried = hurried

    def wall_ms(self) -> int:
        """Return the wall time of the clock that was advanced."""
        return self._hurried.wall_ms()


class HurriedClock(RealClock):
    """Both times go at the usual pace, and jump by `advance`. It belongs to one loop."""

    def __init__(self) -> None:
        self.of_connections = ConnectionClock(self)
        self._ahead_ms = 0
        self._timers: dict[HurriedTimer, None] = {}  # in the order of their making

    def wall_ms(self) -> int:
        """Milliseconds since 1970, and what it was put forward."""
        return super().wall_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        """The machine's, and what it was put forward."""
        return super().monotonic_ms() + self._ahead_ms

    def call_later(self, delay_ms: int, call: Callable[[], None]) -> HurriedTimer:
        """After the delay, or when `advance` has passed it."""
        timer = HurriedTimer(self, self.monotonic_ms() + delay_ms, call)
        self._timers[timer] = None
        return timer

    async def sleep_ms(self, delay_ms: int) -> None:
        """Return after the delay, or when `advance` has passed it."""
        woken = asyncio.Event()
        timer = self.call_later(delay_ms, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def advance(self, milliseconds: int) -> None:
        """Put it forward: what was due meanwhile comes in the next turns of the loop, in order."""
        if milliseconds < 0:
            raise ValueError("a clock is put forward, not back")
        self._ahead_ms += milliseconds
        for timer in sorted(self._timers, key=lambda timer: timer.due_ms):
            timer.reschedule()

    def forget(self, timer: HurriedTimer) -> None:
        """It has come, or never will."""
        self._timers.pop(timer, None)
