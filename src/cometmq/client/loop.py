"""The thread that runs the event loop of blocking clients: one per process.

It starts on first use and ends with the process. Work is queued, and the loop is woken once for
several jobs, because a wake-up costs a write to a socket and a turn of the loop. A forked child
starts its own thread; clients that the parent created raise Closed there.
"""

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, cast

from cometmq.errors import Closed, TooManyRequests, UserError
from cometmq.protocol.limits import CLIENT_ASYNC_MAX
from cometmq.remoting.loops import quick_loop

log = logging.getLogger(__name__)

T = TypeVar("T")
_LOOK_S = 1  # interval at which a waiting caller handles signals


class LoopCall(Generic[T]):
    """A call from another thread, which waits for the result."""

    __slots__ = ("_error", "_is_over", "_result", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, T] | None = None) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._is_over = threading.Lock()  # held until then; a condition would take three locks
        self._is_over.acquire()

    def __call__(self) -> None:
        """Start the work; on the loop's thread."""
        assert self._work is not None, "a subclass without work overrides __call__"
        self.run(self._work)

    def run(self, work: Coroutine[Any, Any, T]) -> None:
        """Run a coroutine, whose outcome is that of the call; on the loop's thread."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._end)

    def end(self, result: T | None = None, error: BaseException | None = None) -> None:
        """Set the outcome and wake the caller; on the loop's thread."""
        self._result, self._error = result, error
        self._is_over.release()

    def _end(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.end(error=Closed("the client was closed before the call was done"))
        elif (error := task.exception()) is not None:
            self.end(error=error)
        else:
            self.end(task.result())

    def cancel(self) -> None:
        """Cancel the work, because the caller gave up; on the loop's thread."""
        if self._task is not None:
            self._task.cancel()
        elif self._work is not None:
            self._work.close()  # the caller was interrupted before the work was queued

    def wait(self) -> None:
        """Wait for the outcome, on the caller's thread. A signal handler may raise here."""
        # A signal just before the wait does not interrupt it; hence the timeout.
        while not self._is_over.acquire(timeout=_LOOK_S):
            pass

    def outcome(self) -> T:
        """Return the result, or raise the error."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # breaks the reference cycle with the traceback
        return cast(T, self._result)


class LoopThread:
    """An event loop on a daemon thread."""

    def __init__(self) -> None:
        self._loop = quick_loop()
        self._wanted: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self._is_left_behind = False
        self._thread = threading.Thread(target=self._run, name="cometmq", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""
        return self.wait_for(LoopCall(work))

    def wait_for(self, call: LoopCall[T]) -> T:
        """Start a call on the loop and return its result."""
        try:
            self._check()
            if threading.get_ident() == self._thread.ident:
                raise UserError(
                    "a callback runs on the event loop and cannot wait for it: use another thread"
                )
        except BaseException:
            call.cancel()
            raise
        try:
            self._hand_over(call)
            call.wait()
        except BaseException:  # raised by a signal handler, at any point
            self._wanted.append(call.cancel)
            self._loop.call_soon_threadsafe(self._take)
            raise
        return call.outcome()

    def post(self, work: Callable[[], object]) -> None:
        """Queue a function for the loop. Raises TooManyRequests if the queue is full."""
        self._check()
        if len(self._wanted) >= CLIENT_ASYNC_MAX:
            raise TooManyRequests("too many calls are queued: wait until some have finished")
        try:
            self._hand_over(work)
        except (
            BaseException
        ):  # raised by a signal handler: the flag may be set and the loop not woken
            self._loop.call_soon_threadsafe(self._take)
            raise

    def leave_behind(self) -> None:
        """Mark this copy in a forked child as unusable: no thread runs its loop."""
        self._is_left_behind = True

    def _check(self) -> None:
        if self._is_left_behind:
            raise Closed(
                "the client was created before a fork: create another one in the child process"
            )

    def _hand_over(self, work: Callable[[], object]) -> None:
        # The loop clears the flag before it takes work, so work that is added while the flag is set
        # is seen. Two threads that both find it unset wake the loop twice, which is harmless.
        self._wanted.append(work)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_woken = False
        wanted = self._wanted
        for _ in range(len(wanted)):  # work that arrives meanwhile waits for the next turn
            work = wanted.popleft()
            try:
                work()
            except BaseException:
                log.exception("%r failed", work)
        if wanted and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._take)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


_lock = threading.Lock()
_threads: list[LoopThread] = []  # the last belongs to this process, the others to its parents


def loop_thread() -> LoopThread:
    """Return the thread of this process, started on first use."""
    with _lock:
        if not _threads or _threads[-1]._is_left_behind:  # noqa: SLF001 - of this file
            _threads.append(LoopThread())
        return _threads[-1]


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # its holder does not exist in the child
    for thread in _threads:
        thread.leave_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
