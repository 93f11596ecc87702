"""When to rebalance: on request, soon after a failure, and otherwise at a fixed interval."""

import asyncio

from cometmq.seams import Clock, Timer

_FIRST_MS = 250


class RebalanceTrigger:
    """An event that the rebalance loop waits for.

    After failures it fires with a delay that doubles each time, up to the interval.
    """

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._delay_ms = _FIRST_MS
        self._timer: Timer | None = None
        self._event = asyncio.Event()

    def fire(self) -> None:
        """Rebalance now."""
        self._event.set()

    def fire_later(self) -> None:
        """The last rebalance was incomplete: repeat it after a delay."""
        if self._timer is None:
            self._timer = self._clock.call_later(self._delay_ms, self._due)
            self._delay_ms = min(self._delay_ms * 2, self._interval_ms)

    def reset_delay(self) -> None:
        """The last rebalance was complete: the next failure gets the first delay."""
        if self._timer is None:
            self._delay_ms = _FIRST_MS

    async def wait(self) -> None:
        """Return when a rebalance is due, after the interval at the latest."""
        timer = self._clock.call_later(self._interval_ms, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
        self._event.clear()

    def close(self) -> None:
        """Cancel the delayed rebalance, if there is one."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._event.set()
