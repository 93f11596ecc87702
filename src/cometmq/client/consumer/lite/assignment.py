"""The queues that a polling consumer has: each is read ahead by a task of its own.

Whoever takes messages takes them queue by queue, one pull's worth at a time. A queue that is full,
or all of them together, waits until something is taken.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from cometmq.client.consumer.lite.fetcher import Fetcher, Puller
from cometmq.client.consumer.lite.read_ahead import ReadAhead
from cometmq.client.consumer.push.flow_limits import FlowLimits
from cometmq.client.consumer.shared.pulls import Pull
from cometmq.client.message import ReceivedMessage
from cometmq.errors import UserError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import Clock

# Runs work in the background; the text names it where it fails.
Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class Assignment:
    """See the top of the file. All verbs but `wait` and `stop` are done when they return."""

    def __init__(
        self,
        clock: Clock,
        start: Start,
        pulls: Puller,
        ask_of: Callable[[MessageQueue, int], Pull],
        start_of: Callable[[MessageQueue], Awaitable[int]],
        limits: FlowLimits,
        all_max: int,
        retry_ms_max: int,
    ) -> None:
        self._clock = clock
        self._start = start
        self._pulls = pulls
        self._limits = limits
        self._all_max = all_max
        self._fetcher = Fetcher(
            pulls, clock, ask_of, start_of, self._room, self._arrived, retry_ms_max
        )
        self._queues: dict[MessageQueue, ReadAhead] = {}
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._ready: dict[MessageQueue, ReadAhead] = {}  # in the order of their turns
        self._held: dict[MessageQueue, asyncio.Future[None]] = {}  # who waits for room
        self._waiters: set[asyncio.Future[None]] = set()  # who waits for a message
        self._in_hand: ReadAhead | None = None
        self._count = 0  # messages that wait, of all queues
        self._uncounted = 0  # of them, those that were taken since one by one

    def __contains__(self, queue: object) -> bool:
        return queue in self._queues

    @property
    def queues(self) -> dict[MessageQueue, ReadAhead]:
        """All of them."""
        return dict(self._queues)

    def of(self, queue: MessageQueue) -> ReadAhead | None:
        """One of them."""
        return self._queues.get(queue)

    # Which queues

    def add(self, queue: MessageQueue) -> None:
        """Read it from now on; one that is read already goes on."""
        if queue not in self._queues:
            self._queues[queue] = ReadAhead(queue)
            self._fetch(queue)

    def drop(self, queue: MessageQueue) -> int | None:
        """Read it no more: what may be committed of it."""
        ahead = self._queues.pop(queue)
        self._tasks.pop(queue).cancel()
        self._held.pop(queue, None)
        self._ready.pop(queue, None)
        self._pulls.forget(queue)
        self._discount(ahead.count)
        if self._in_hand is ahead:
            self._in_hand = None
        return ahead.done

    # How far

    def done(self) -> dict[MessageQueue, int]:
        """What may be committed without being asked, of each queue where that is known."""
        found = {queue: ahead.done for queue, ahead in self._queues.items()}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    def put_down(self) -> None:
        """What was taken last is done."""
        if self._in_hand is not None:
            self._in_hand.put_down()
            self._in_hand = None

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from here. A pull that is under way is given up: it might wait for long."""
        ahead = self._queues[queue]
        count = ahead.count
        ahead.seek(offset)
        self._ready.pop(queue, None)
        self._tasks[queue].cancel()
        self._held.pop(queue, None)
        self._discount(count)
        self._fetch(queue)

    def pause(self, queue: MessageQueue) -> None:
        """Take nothing of it; what is here stays."""
        self._queues[queue].is_paused = True
        self._ready.pop(queue, None)

    def resume(self, queue: MessageQueue) -> None:
        """Undo a pause."""
        ahead = self._queues[queue]
        ahead.is_paused = False
        self._wake_if_room(queue)
        if ahead.is_ready:
            self._show(ahead)

    # Messages

    def take(self, limit: int) -> list[ReceivedMessage]:
        """The next ones of one queue, at most so many; what was taken before is done."""
        if self._waiters:
            raise UserError(
                "this consumer is read by another task, which waits: one reader at a time, or each"
                " would call the other's messages done"
            )
        self.put_down()
        for queue, ahead in self._ready.items():
            messages = ahead.take(limit)
            self._in_hand = ahead
            if not ahead.count:
                del self._ready[queue]
            elif ahead.is_between_batches:  # another queue's turn
                del self._ready[queue]
                self._ready[queue] = ahead
            self._discount(len(messages))
            if self._held:
                self._wake_if_room(queue)
            return messages
        return []

    def take_one(self) -> ReceivedMessage | None:
        """The next one; what was taken before is done."""
        if self._in_hand is not None:
            message = self._in_hand.take_next()
            if message is not None:
                self._uncounted += 1
                return message
        messages = self.take(1)
        return messages[0] if messages else None

    async def wait(self, timeout_ms: int) -> None:
        """Return when there may be something to take, or after this time."""
        if self._ready:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        timer = self._clock.call_later(timeout_ms, lambda: _wake(waiter))
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def wake_all(self) -> None:
        """Whoever waits has a look at once."""
        for waiter in self._waiters:
            _wake(waiter)

    async def stop(self) -> None:
        """End the tasks; what is here stays."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # What fetchers ask and tell

    async def _room(self, ahead: ReadAhead) -> None:
        while not self._has_room(ahead):
            held = asyncio.get_running_loop().create_future()
            self._held[ahead.queue] = held
            try:
                await held
            finally:
                if self._held.get(ahead.queue) is held:
                    del self._held[ahead.queue]

    def _arrived(self, ahead: ReadAhead, count: int) -> None:
        self._count += count
        if not ahead.is_paused:
            self._show(ahead)

    def _show(self, ahead: ReadAhead) -> None:
        self._ready.setdefault(ahead.queue, ahead)
        if self._waiters:
            self.wake_all()

    def _fetch(self, queue: MessageQueue) -> None:
        self._tasks[queue] = self._start(self._fetcher.run(self._queues[queue]), f"reading {queue}")

    def _has_room(self, ahead: ReadAhead) -> bool:
        return (
            not ahead.is_paused
            and self._count <= self._all_max
            and ahead.hold(self._limits) is None
        )

    def _discount(self, count: int) -> None:
        """So many wait no more: if all together were too many, they may not be now."""
        was_full = self._count > self._all_max
        self._count -= count + self._uncounted
        self._uncounted = 0
        if was_full and self._count <= self._all_max:
            for queue in list(self._held):
                self._wake_if_room(queue)

    def _wake_if_room(self, queue: MessageQueue) -> None:
        held = self._held.get(queue)
        if held is not None and self._has_room(self._queues[queue]):
            _wake(held)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
