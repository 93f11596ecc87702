"""The close of a client: it runs once, and cancelling a caller does not interrupt it.

Session, Producer, PushConsumer and LitePullConsumer each own one `Closing`:

    async def close(self) -> None:
        await self._closing.run(self._end)

The work runs in a task of its own, because a caller may be cancelled at any `await`; a client that
is closed by half would leave its queues locked and its offsets uncommitted.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Closing:
    """States: open, closing, closed. The only transitions are in this order."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """True from the first call of `begin` or `run`."""
        return self._task is not None

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start `work` in a task, unless an earlier call has started it."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(work())

    async def wait(self, *, ignore_cancellation: bool = False) -> None:
        """Return when the work has finished, and raise what it raised; return if it never began.

        A cancelled caller stops waiting while the work continues. With `ignore_cancellation` it
        waits for the end of the work and then raises CancelledError: use it for short work only.
        """
        task = self._task
        if task is None:
            return
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if ignore_cancellation:
                await asyncio.wait([task])
            raise

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`begin`, then `wait`."""
        self.begin(work)
        await self.wait()
