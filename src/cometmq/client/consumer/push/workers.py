"""Workers run listener calls: threads for plain functions, tasks of the loop for coroutines.

All workers of a kind share one queue of calls, so that a slow call delays no other. Finished calls
return to the loop in groups, because switching threads costs more than a quick call.
"""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.listener import Listener, ListenerCall
from cometmq.protocol.limits import TURN_MS
from cometmq.seams import Clock

log = logging.getLogger(__name__)

_QUICK_CALLS = 64  # in flight, if calls take less than a millisecond
_PATIENCE_MS = 2  # how long calls wait in the queue before another thread is woken

Finished = Callable[[list[ListenerCall]], None]


class Workers(ABC):
    """Runs up to `count` calls at a time. It belongs to the loop.

    With `may_wait`, it accepts one more call per worker, so that no worker is idle between calls,
    and up to `_QUICK_CALLS` if calls are quick, so that they finish in groups.
    """

    def __init__(self, count: int, finished: Finished, *, may_wait: bool) -> None:
        self._count = count
        self._out_max = self._out_max_slow = count * 2 if may_wait else count
        self._out_max_quick = max(count * 2, _QUICK_CALLS) if may_wait else count
        self._finished = finished
        self._out = 0  # calls given and not yet finished
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def has_room(self) -> bool:
        """True if another call may be given."""
        return self._out < self._out_max

    @property
    def is_idle(self) -> bool:
        """True if no call runs or waits for a worker."""
        return not self._out

    def give(self, call: ListenerCall) -> None:
        """Run this call; `finished` receives it afterwards."""
        self._out += 1
        self._idle.clear()
        self._start(call)

    async def wait_until_idle(self) -> None:
        """Return when no call runs or waits for a worker."""
        await self._idle.wait()

    @abstractmethod
    def _start(self, call: ListenerCall) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Start no more calls, and discard those that wait."""

    def _came_back(self, calls: list[ListenerCall]) -> None:
        self._out -= len(calls)
        is_quick = not any(call.took_ms for call in calls)
        self._out_max = self._out_max_quick if is_quick else self._out_max_slow
        try:
            self._finished(calls)
        finally:
            if not self._out:
                self._idle.set()


class ThreadWorkers(Workers):
    """Daemon threads, started on demand: a call that never returns does not keep the process alive.

    Waking a thread costs more than a quick call. One thread works as long as it keeps up; when
    calls have waited for `_PATIENCE_MS`, more threads are woken, twice as many each time.
    """

    def __init__(self, count: int, finished: Finished, listener: Listener, name: str) -> None:
        super().__init__(count, finished, may_wait=not listener.is_orderly)
        self._listener = listener
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._line: deque[ListenerCall] = deque()
        self._done: deque[ListenerCall] = deque()
        self._is_notified = False  # the loop will collect what is done
        self._wake: SimpleQueue[bool] = SimpleQueue()  # True wakes a thread, False ends it
        self._lock = threading.Lock()
        self._awake = 0  # threads that will look at the queue of calls; under the lock
        self._threads = 0
        self._watch: asyncio.TimerHandle | None = None  # checks whether calls wait for long
        self._is_closed = False

    def close(self) -> None:
        """Threads end after the call that they run."""
        self._is_closed = True
        self._line.clear()
        if self._watch is not None:
            self._watch.cancel()
        for _ in range(self._threads):
            self._wake.put(False)

    def _start(self, call: ListenerCall) -> None:
        self._line.append(call)
        with self._lock:
            is_first = not self._awake
            self._awake += is_first
        if is_first:
            self._wake_up(1)
        elif self._watch is None:
            self._watch = self._loop.call_later(_PATIENCE_MS / 1000, self._check_line)

    def _check_line(self) -> None:
        self._watch = None
        with self._lock:
            more = min(max(1, self._awake), self._count - self._awake, len(self._line))
            self._awake += more
        self._wake_up(more)
        if self._line and not self._is_closed:
            self._watch = self._loop.call_later(_PATIENCE_MS / 1000, self._check_line)

    def _wake_up(self, count: int) -> None:
        for _ in range(count):
            self._wake.put(True)
        while self._threads < self._awake:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while self._wake.get():
            while (call := self._next()) is not None:
                self._listener.run(call)
                self._done.append(call)
                # The loop is notified once: it clears the flag before it collects.
                if not self._is_notified:
                    self._is_notified = True
                    try:
                        self._loop.call_soon_threadsafe(self._collect)
                    except RuntimeError:
                        return  # the loop has ended: no one needs the result

    def _next(self) -> ListenerCall | None:
        """The next call; None if no call waits: then this thread counts as asleep."""
        try:
            return self._line.popleft()
        except IndexError:
            pass
        with self._lock:  # a new call is either found here, or finds this thread asleep
            try:
                return self._line.popleft()
            except IndexError:
                self._awake -= 1
                return None

    def _collect(self) -> None:
        self._is_notified = False
        done = self._done
        calls = [done.popleft() for _ in range(len(done))]
        if calls:
            self._came_back(calls)


class LoopWorkers(Workers):
    """Tasks of the loop, started on demand; they end when no call waits."""

    def __init__(self, count: int, finished: Finished, listener: Listener, clock: Clock) -> None:
        super().__init__(count, finished, may_wait=not listener.is_orderly)
        self._listener = listener
        self._clock = clock
        self._line: deque[ListenerCall] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0  # tasks that will look at the queue of calls again
        self._is_adding = False  # another task will be started if calls still wait
        self._loop = asyncio.get_running_loop()
        self._done: list[ListenerCall] = []  # finished in this turn of the loop

    def close(self) -> None:
        """Cancel running calls."""
        self._line.clear()
        for task in self._tasks:
            task.cancel()

    def _start(self, call: ListenerCall) -> None:
        self._line.append(call)
        if not self._is_adding:
            self._is_adding = True
            self._loop.call_soon(self._add_worker)

    def _add_worker(self) -> None:
        # One task per turn: if calls never await, the first task runs all of them.
        self._is_adding = False
        if self._line and self._working < self._count:
            self._working += 1
            task = self._loop.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            self._is_adding = True
            self._loop.call_soon(self._add_worker)

    async def _work(self) -> None:
        try:
            await self._run_all()
        finally:
            self._working -= 1  # the next call starts another task

    async def _run_all(self) -> None:
        turn_ends_ms = self._clock.monotonic_ms() + TURN_MS
        while self._line:
            call = self._line.popleft()
            await self._listener.run_async(call)
            self._done.append(call)
            if len(self._done) == 1:
                self._loop.call_soon(self._collect)
            if self._clock.monotonic_ms() >= turn_ends_ms:  # the call may never have awaited
                await asyncio.sleep(0)
                turn_ends_ms = self._clock.monotonic_ms() + TURN_MS

    def _collect(self) -> None:
        calls, self._done = self._done, []
        self._came_back(calls)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a worker failed", exc_info=error)


class HandlerWorkers:
    """The workers of one consumer: threads for plain functions, tasks for coroutine functions.

    Each kind is created when its first function is called; each runs `consume_threads` calls.
    """

    def __init__(
        self, listener: Listener, config: PushConsumerConfig, clock: Clock, finished: Finished
    ) -> None:
        self._listener = listener
        self._config = config
        self._clock = clock
        self._finished = finished
        self._threads: ThreadWorkers | None = None
        self._tasks: LoopWorkers | None = None

    @property
    def has_room(self) -> bool:
        """True if another call of either kind may be given."""
        threads, tasks = self._threads, self._tasks
        return (threads is None or threads.has_room) and (tasks is None or tasks.has_room)

    def give(self, call: ListenerCall) -> None:
        """Run this call as soon as a worker is free."""
        handler = call.handler
        if handler is None or handler.is_async:
            self._of_coroutines().give(call)
        else:
            self._of_functions().give(call)

    async def wait_until_idle(self) -> None:
        """Return when no call runs or waits for a worker."""
        while True:
            kinds = (self._threads, self._tasks)
            busy = [each for each in kinds if each is not None and not each.is_idle]
            if not busy:
                return
            await busy[0].wait_until_idle()

    def close(self) -> None:
        """Start no more calls."""
        for workers in (self._threads, self._tasks):
            if workers is not None:
                workers.close()

    def _of_functions(self) -> ThreadWorkers:
        if self._threads is None:
            self._threads = ThreadWorkers(
                self._config.consume_threads,
                self._finished,
                self._listener,
                f"consume-{self._config.group}",
            )
        return self._threads

    def _of_coroutines(self) -> LoopWorkers:
        if self._tasks is None:
            self._tasks = LoopWorkers(
                self._config.consume_threads, self._finished, self._listener, self._clock
            )
        return self._tasks
