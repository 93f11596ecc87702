"""Threads for plain functions of the user's that may hang: they do not keep the process.

Those of `concurrent.futures` are joined when the interpreter ends, so that one that never returns
keeps it for ever.
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
    """So many at a time, started as they are needed; what is past them stands in line."""

    def __init__(self, count_max: int, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._line: SimpleQueue[_Job | None] = SimpleQueue()  # None ends a thread
        self._count = 0
        self._out = 0  # jobs given and not yet over
        self._is_closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """What it returns or raises. One that is cancelled while it stands in line is not begun.

        Closed after `close`: there may be no thread any more.
        """
        if self._is_closed:
            raise Closed("it is closed: nothing more is run")
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._out += 1
        self._line.put((ended, work))
        if self._count < min(self._out, self._count_max):
            self._count += 1
            name = f"{self._name}-{self._count}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return await ended

    def close(self) -> None:
        """Threads end after what was given to them."""
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
            except StopIteration as stop:  # which no future takes
                error = RuntimeError(f"it raised {stop!r}")
                error.__cause__ = stop
            except BaseException as raised:  # noqa: BLE001 - it is raised to who waits
                error = raised
            try:
                ended.get_loop().call_soon_threadsafe(self._end, ended, result, error)
            except RuntimeError:
                return  # the loop has ended before us, and nobody asks any more

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
