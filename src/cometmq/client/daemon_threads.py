"""Daemon threads for user functions that may hang: they do not keep the process alive.

The interpreter joins the threads of `concurrent.futures` at exit, so a function that never returns
would prevent the exit.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from cometmq.errors import Closed

T = TypeVar("T")
_Job = tuple["asyncio.Future[Any]", Callable[[], Any]]


class DaemonThreads:
    """Up to `count_max` threads, started on demand; further jobs are queued."""

    def __init__(self, count_max: int, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._line: SimpleQueue[_Job | None] = SimpleQueue()  # None ends a thread
        self._count = 0
        self._out = 0  # jobs queued or running
        self._is_closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on a thread and return its result.

        A job that is cancelled while it is queued is not started. Raises Closed after `close`.
        """
        if self._is_closed:
            raise Closed("the threads are closed")
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._out += 1
        self._line.put((ended, work))
        if self._count < min(self._out, self._count_max):
            self._count += 1
            name = f"{self._name}-{self._count}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return await ended

    def close(self) -> None:
        """End the threads after the queued jobs."""
        self._is_closed = True
        for _ in range(self._count):
            self._line.put(None)

    def _work(self) -> None:
        while (job := self._line.get()) is not None:
            ended, work = job
            result: object = None
            error: BaseException | None = None
            try:
                if not ended.cancelled():
                    result = work()
            except StopIteration as stop:  # a future does not accept it
                error = RuntimeError(f"the function raised {stop!r}")
                error.__cause__ = stop
            except BaseException as raised:  # noqa: BLE001 - raised in the caller
                error = raised
            try:
                ended.get_loop().call_soon_threadsafe(self._end, ended, result, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits for the result

    def _end(
        self, ended: "asyncio.Future[Any]", result: object, error: BaseException | None
    ) -> None:
        self._out -= 1
        if ended.done():  # cancelled
            return
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)
