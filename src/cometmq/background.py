"""Work that nobody awaits: kept until it is done, its failures logged, ended with its owner."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cometmq.seams import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What it gives; whoever stops waiting does not stop it half way."""
    return await asyncio.shield(asyncio.ensure_future(work))


class Background:
    """The tasks of one process or client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Run it; `what` names it where it fails."""
        task = asyncio.get_running_loop().create_task(self._guarded(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # it may have been ended before it began
        return task

    def every(
        self,
        interval_ms: Callable[[], int],
        work: Callable[[], Coroutine[Any, Any, None]],
        what: str,
    ) -> asyncio.Task[None]:
        """Run it again and again, each time so long after the last; a failure ends one run only."""
        return self.start(self._repeated(interval_ms, work, what), what)

    async def close(self) -> None:
        """End what runs."""
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
            log.exception("%s failed", what)
