"""Background tasks of a server or a client: failures are logged, `close` cancels them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cometmq.log_event import LogEvent
from cometmq.seams import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; it runs to its end also if the caller is canceled."""
    return await asyncio.shield(asyncio.ensure_future(work))


class Background:
    """The background tasks of one server or client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Run `work` in a task; `what` names it in the log if it fails."""
        task = asyncio.get_running_loop().create_task(self._guarded(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # if it was canceled before it began
        return task

    def every(
        self,
        interval_ms: Callable[[], int],
        work: Callable[[], Coroutine[Any, Any, None]],
        what: str,
    ) -> asyncio.Task[None]:
        """Repeat `work`, with a pause of `interval_ms()` before each run. Failures are logged."""
        return self.start(self._repeated(interval_ms, work, what), what)

    async def close(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeated(
        self,
        interval_ms: Callable[[], int],
        work: Callable[[], Coroutine[Any, Any, None]],
        what: str,
    ) -> None:
        while True:
            await self._clock.sleep_ms(interval_ms())
            await self._guarded(work(), what)

    async def _guarded(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except Exception:
            log.exception(LogEvent(f"{what} failed"))
