"""Who runs listeners: threads for plain functions, tasks of the loop for coroutines.

Calls stand in one line for all workers, so that a slow one holds up no other. They come back to the
loop in groups: what many quick calls cost is mostly their way to a thread and back.
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

_QUICK_CALLS = 64  # given out at once, of those that take less than a millisecond
_PATIENCE_MS = 2  # that calls may stand in line before another thread is woken

Finished = Callable[[list[ListenerCall]], None]


class Workers(ABC):
    """So many calls at a time. All of it belongs to the loop.

    Of calls that may wait for a worker, one more for each is taken, so that none is ever idle; of
    quick ones more, so that they come and go in groups.
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
        """Another call may be given."""
        return self._out < self._out_max

    def give(self, call: ListenerCall) -> None:
        """Have it run; `finished` is told when it is."""
        self._out += 1
        self._idle.clear()
        self._start(call)

    async def wait_until_idle(self) -> None:
        """Return when nothing runs."""
        await self._idle.wait()

    @abstractmethod
    def _start(self, call: ListenerCall) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Run nothing more; what waits is forgotten."""

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
    """Threads, started as they are needed. One that never returns does not keep the process.

    To wake a thread costs more than a quick call. So one thread works while it keeps up with the
    line; when calls have stood there for a moment, more are woken, twice as many each time.
    """

    def __init__(self, count: int, finished: Finished, listener: Listener, name: str) -> None:
        super().__init__(count, finished, may_wait=not listener.is_orderly)
        self._listener = listener
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._line: deque[ListenerCall] = deque()
        self._done: deque[ListenerCall] = deque()
        self._is_told = False  # the loop will look at what is done
        self._wake: SimpleQueue[bool] = SimpleQueue()  # one for a thread to work, False to end
        self._lock = threading.Lock()
        self._awake = 0  # threads that are woken and will look at the line; under the lock
        self._threads = 0
        self._watch: asyncio.TimerHandle | None = None  # looks if the line moves
        self._is_closed = False

    def close(self) -> None:
        """Threads end after the call they are in."""
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
            self._watch = self._loop.call_later(_PATIENCE_MS / 1000, self._look_at_line)

    def _look_at_line(self) -> None:
        self._watch = None
        with self._lock:
            more = min(max(1, self._awake), self._count - self._awake, len(self._line))
            self._awake += more
        self._wake_up(more)
        if self._line and not self._is_closed:
            self._watch = self._loop.call_later(_PATIENCE_MS / 1000, self._look_at_line)

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
                # Told once for all that is done until it looks: it clears the mark, then looks.
                if not self._is_told:
                    self._is_told = True
                    try:
                        self._loop.call_soon_threadsafe(self._look)
                    except RuntimeError:
                        return  # the loop has ended before us, and nobody asks any more

    def _next(self) -> ListenerCall | None:
        """The next call of the line; None, and we count as asleep, if there is none."""
        try:
            return self._line.popleft()
        except IndexError:
            pass
        with self._lock:  # a call that comes now either is seen, or sees that we sleep
            try:
                return self._line.popleft()
            except IndexError:
                self._awake -= 1
                return None

    def _look(self) -> None:
        self._is_told = False
        done = self._done
        calls = [done.popleft() for _ in range(len(done))]
        if calls:
            self._came_back(calls)


class LoopWorkers(Workers):
    """Tasks of the loop, started as they are needed, which end when there is nothing to do."""

    def __init__(self, count: int, finished: Finished, listener: Listener, clock: Clock) -> None:
        super().__init__(count, finished, may_wait=not listener.is_orderly)
        self._listener = listener
        self._clock = clock
        self._line: deque[ListenerCall] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0  # tasks that will look at the line again
        self._is_adding = False  # another will be started, if there is still a line
        self._loop = asyncio.get_running_loop()
        self._done: list[ListenerCall] = []  # in this turn of the loop

    def close(self) -> None:
        """Cancel what runs."""
        self._line.clear()
        for task in self._tasks:
            task.cancel()

    def _start(self, call: ListenerCall) -> None:
        self._line.append(call)
        if not self._is_adding:
            self._is_adding = True
            self._loop.call_soon(self._add_worker)

    def _add_worker(self) -> None:
        # One a turn: if calls never wait, the first has emptied the line before the next comes.
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
            await self._empty_the_line()
        finally:
            self._working -= 1  # in the turn that found it empty: the next call starts another

    async def _empty_the_line(self) -> None:
        turn_ends_ms = self._clock.monotonic_ms() + TURN_MS
        while self._line:
            call = self._line.popleft()
            await self._listener.run_async(call)
            self._done.append(call)
            if len(self._done) == 1:
                self._loop.call_soon(self._look)
            if self._clock.monotonic_ms() >= turn_ends_ms:  # it may never have waited
                await asyncio.sleep(0)
                turn_ends_ms = self._clock.monotonic_ms() + TURN_MS

    def _look(self) -> None:
        calls, self._done = self._done, []
        self._came_back(calls)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a worker failed", exc_info=error)


def workers_for(
    listener: Listener, config: PushConsumerConfig, clock: Clock, finished: Finished
) -> Workers:
    """Workers that fit the listener; `finished` receives calls that have ended."""
    if listener.is_async:
        return LoopWorkers(config.consume_threads, finished, listener, clock)
    return ThreadWorkers(config.consume_threads, finished, listener, f"consume-{config.group}")
