"""When to do something again: when it is asked for, soon after it failed, or after a while."""

import asyncio

from cometmq.seams import Clock, Timer

_FIRST_MS = 250


class Soon:
    """A mark that somebody waits for. After failures it is set later each time, up to a limit."""

    def __init__(self, clock: Clock, delay_ms_max: int) -> None:
        self._clock = clock
        self._delay_ms_max = delay_ms_max
        self._delay_ms = _FIRST_MS
        self._timer: Timer | None = None
        self._mark = asyncio.Event()

    def ask(self) -> None:
        """Do it as soon as may be."""
        self._mark.set()

    def try_again(self) -> None:
        """It could not be done in full: do it again, later than the last time."""
        if self._timer is None:
            self._timer = self._clock.call_later(self._delay_ms, self._due)
            self._delay_ms = min(self._delay_ms * 2, self._delay_ms_max)

    def went_well(self) -> None:
        """The next failure is a first one."""
        if self._timer is None:
            self._delay_ms = _FIRST_MS

    async def wait(self) -> None:
        """Return when it is to be done, after the limit at the latest; the mark is cleared."""
        timer = self._clock.call_later(self._delay_ms_max, self._mark.set)
        try:
            await self._mark.wait()
        finally:
            timer.cancel()
        self._mark.clear()

    def close(self) -> None:
        """Never again."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._mark.set()
