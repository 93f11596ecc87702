"""The thread that runs the clients of code that does not await: one a process.

It starts when it is first needed, and ends with the process. What callers want done is queued and
the loop woken once for all of it: to wake it takes a write to a socket and a turn of the loop. A
forked child has no such thread: it starts its own, and what the parent made says that it is closed.
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
_LOOK_S = 1  # for signals


class LoopCall(Generic[T]):
    """One caller that waits."""

    __slots__ = ("_error", "_is_over", "_result", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, T] | None = None) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._is_over = threading.Lock()  # held until it is; a condition would take three locks
        self._is_over.acquire()

    def __call__(self) -> None:
        """On the loop: begin."""
        assert self._work is not None, "or this is overridden"
        self.run(self._work)

    def run(self, work: Coroutine[Any, Any, T]) -> None:
        """On the loop: what this comes to is the outcome."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._end)

    def end(self, result: T | None = None, error: BaseException | None = None) -> None:
        """On the loop: it is over."""
        self._result, self._error = result, error
        self._is_over.release()

    def _end(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.end(error=Closed("it was closed before it was done"))
        elif (error := task.exception()) is not None:
            self.end(error=error)
        else:
            self.end(task.result())

    def cancel(self) -> None:
        """On the loop: nobody waits any more."""
        if self._task is not None:
            self._task.cancel()
        elif self._work is not None:
            self._work.close()  # its caller was interrupted before it could hand it over

    def wait(self) -> None:
        """In the caller's thread: return when it is over. A signal's handler may raise here."""
        # A signal that comes just before the wait does not end it: its handler runs after it.
        while not self._is_over.acquire(timeout=_LOOK_S):
            pass

    def outcome(self) -> T:
        """What it came to."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # or the traceback and we would keep each other
        return cast(T, self._result)


class LoopThread:
    """A loop on a daemon thread."""

    def __init__(self) -> None:
        self._loop = quick_loop()
        self._wanted: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self._is_left_behind = False
        self._thread = threading.Thread(target=self._run, name="cometmq", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop, and return or raise what it does."""
        return self.wait_for(LoopCall(work))

    def wait_for(self, call: LoopCall[T]) -> T:
        """Have it called on the loop, and return or raise what it comes to."""
        try:
            self._check()
            if threading.get_ident() == self._thread.ident:
                raise UserError("a callback cannot wait for its own loop: use another thread")
        except BaseException:
            call.cancel()
            raise
        try:
            self._hand_over(call)
            call.wait()
        except BaseException:  # of a signal, and it may have come at any point
            self._wanted.append(call.cancel)
            self._loop.call_soon_threadsafe(self._take)
            raise
        return call.outcome()

    def post(self, work: Callable[[], object]) -> None:
        """Call it on the loop, soon; TooManyRequests if very many wait for that already."""
        self._check()
        if len(self._wanted) >= CLIENT_ASYNC_MAX:
            raise TooManyRequests("more is asked for than can be begun: wait for some to end")
        try:
            self._hand_over(work)
        except BaseException:  # of a signal: the mark may be set, and the loop not woken
            self._loop.call_soon_threadsafe(self._take)
            raise

    def leave_behind(self) -> None:
        """We are the copy in a forked child, and nobody runs the loop."""
        self._is_left_behind = True

    def _check(self) -> None:
        if self._is_left_behind:
            raise Closed("it was made before a fork: make another in the child process")

    def _hand_over(self, work: Callable[[], object]) -> None:
        # The loop takes the mark away before it takes the work: who finds the mark set can be sure
        # that its work is seen. Two who both find it unset wake the loop twice, and no more.
        self._wanted.append(work)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_woken = False
        wanted = self._wanted
        for _ in range(len(wanted)):  # what comes meanwhile has its turn after others had theirs
            work = wanted.popleft()
            try:
                work()
            except BaseException:
                log.exception("%r failed; what others want done goes on", work)
        if wanted and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._take)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


_lock = threading.Lock()
_threads: list[LoopThread] = []  # the last is this process's own, those before their parents'


def loop_thread() -> LoopThread:
    """The one of this process."""
    with _lock:
        if not _threads or _threads[-1]._is_left_behind:  # noqa: SLF001 - of this file
            _threads.append(LoopThread())
        return _threads[-1]


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # whoever held it is not here
    for thread in _threads:
        thread.leave_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
