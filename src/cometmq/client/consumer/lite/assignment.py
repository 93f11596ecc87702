"""The queues that a lite pull consumer reads: each is read ahead by a task of its own.

Messages are taken queue by queue, one pull's worth at a time. A queue that has reached its flow
limits, or all queues together, are not pulled from until messages are taken.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from cometmq.client.consumer.lite.read_ahead import ReadAhead
from cometmq.client.consumer.shared.back_off import ExponentialBackOff
from cometmq.client.consumer.shared.flow_limits import FlowLimits
from cometmq.client.consumer.shared.pulls import Pull
from cometmq.client.consumer.shared.queue_puller import PullSource, QueuePuller
from cometmq.client.message import PullResult, PullStatus, ReceivedMessage
from cometmq.errors import UserError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import Clock

log = logging.getLogger(__name__)

_HELD_MS_MIN = 20  # a broker that returns nothing sooner does not hold pulls: pull less often
_UNHELD_PAUSE_MS = 100

# Runs work in the background; the text names it in the log if it fails.
Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class PullPlan(Protocol):
    """Where to start, and what to ask; implemented by `LiteMember`."""

    async def start_of(self, queue: MessageQueue) -> int:
        """The first offset to pull."""

    def pull_of(self, queue: MessageQueue, offset: int, generation: int) -> Pull:
        """The pull request for a queue."""


class Assignment:
    """See the top of the file. It is the `QueueReader` of its queues, and belongs to the loop."""

    def __init__(
        self,
        clock: Clock,
        start: Start,
        source: PullSource,
        plan: PullPlan,
        limits: FlowLimits,
        all_max: int,
        retry_ms_max: int,
    ) -> None:
        self._clock = clock
        self._start = start
        self._source = source
        self._plan = plan
        self._limits = limits
        self._all_max = all_max
        self._puller: QueuePuller[ReadAhead] = QueuePuller(
            source, self, ExponentialBackOff(retry_ms_max), clock
        )
        self._queues: dict[MessageQueue, ReadAhead] = {}
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._ready: dict[MessageQueue, ReadAhead] = {}  # in the order of their turns
        self._blocked: dict[MessageQueue, asyncio.Future[None]] = {}  # pull loops without room
        self._waiters: set[asyncio.Future[None]] = set()  # readers without a message
        self._in_hand: ReadAhead | None = None
        self._count = 0  # buffered messages of all queues
        self._uncounted = 0  # of these, taken one by one since the count was corrected

    def __contains__(self, queue: object) -> bool:
        return queue in self._queues

    @property
    def queues(self) -> dict[MessageQueue, ReadAhead]:
        """All assigned queues."""
        return dict(self._queues)

    def of(self, queue: MessageQueue) -> ReadAhead | None:
        """The state of one queue."""
        return self._queues.get(queue)

    # Queues

    def add(self, queue: MessageQueue) -> None:
        """Read this queue; does nothing if it is read already."""
        if queue not in self._queues:
            self._queues[queue] = ReadAhead(queue)
            self._begin(queue)

    def drop(self, queue: MessageQueue) -> int | None:
        """Stop reading this queue, and return the offset to commit."""
        ahead = self._queues.pop(queue)
        self._tasks.pop(queue).cancel()
        self._blocked.pop(queue, None)
        self._ready.pop(queue, None)
        self._source.forget(queue)
        self._discount(ahead.count)
        if self._in_hand is ahead:
            self._in_hand = None
        return ahead.done

    # Offsets

    def done(self) -> dict[MessageQueue, int]:
        """The offset to commit of each queue where it is known."""
        found = {queue: ahead.done for queue, ahead in self._queues.items()}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    def put_down(self) -> None:
        """The messages that were taken last are done."""
        if self._in_hand is not None:
            self._in_hand.put_down()
            self._in_hand = None

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at `offset`. A pull in flight is cancelled, because it might wait for long."""
        ahead = self._queues[queue]
        count = ahead.count
        ahead.seek(offset)
        self._ready.pop(queue, None)
        self._tasks[queue].cancel()
        self._blocked.pop(queue, None)
        self._discount(count)
        self._begin(queue)

    def pause(self, queue: MessageQueue) -> None:
        """Return no messages of this queue; buffered ones stay."""
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
        """The next messages of one queue, at most `limit`; those taken before are done."""
        if self._waiters:
            raise UserError(
                "another task is waiting for messages of this consumer: use one reader at a time,"
                " because each poll marks the messages of the previous one as done"
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
            if self._blocked:
                self._wake_if_room(queue)
            return messages
        return []

    def take_one(self) -> ReceivedMessage | None:
        """The next message; those taken before are done."""
        if self._in_hand is not None:
            message = self._in_hand.take_next()
            if message is not None:
                self._uncounted += 1
                return message
        messages = self.take(1)
        return messages[0] if messages else None

    async def wait(self, timeout_ms: int) -> None:
        """Return when there may be a message to take, or after the timeout."""
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
        """Make all calls of `wait` return."""
        for waiter in self._waiters:
            _wake(waiter)

    async def stop(self) -> None:
        """End the pull loops; buffered messages stay."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # QueueReader

    async def next_pull(self, owned: ReadAhead) -> Pull:
        """Find the start offset if it is unknown, wait for room, and say what to pull."""
        if owned.next_offset is None:
            generation = owned.generation
            owned.begin(generation, await self._plan.start_of(owned.queue))
        await self._wait_for_room(owned)
        offset = owned.next_offset
        assert offset is not None, "set by begin, or by the seek that was faster"
        return self._plan.pull_of(owned.queue, offset, owned.generation)

    async def accept(self, owned: ReadAhead, pull: Pull, result: PullResult, took_ms: int) -> None:
        """Buffer the messages."""
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "%s has no offset %d: continuing at %d",
                owned.queue,
                pull.offset,
                result.next_offset,
            )
        if owned.add(pull.generation, result) and result.messages:
            self._count += len(result.messages)
            if not owned.is_paused:
                self._show(owned)
        elif result.next_offset == pull.offset and took_ms < _HELD_MS_MIN:
            await self._clock.sleep_ms(_UNHELD_PAUSE_MS)

    async def recover(self, owned: ReadAhead, error: Exception) -> None:
        """Nothing to do: each pull carries its subscription."""

    # Flow control

    async def _wait_for_room(self, ahead: ReadAhead) -> None:
        while not self._has_room(ahead):
            blocked = asyncio.get_running_loop().create_future()
            self._blocked[ahead.queue] = blocked
            try:
                await blocked
            finally:
                if self._blocked.get(ahead.queue) is blocked:
                    del self._blocked[ahead.queue]

    def _show(self, ahead: ReadAhead) -> None:
        self._ready.setdefault(ahead.queue, ahead)
        if self._waiters:
            self.wake_all()

    def _begin(self, queue: MessageQueue) -> None:
        self._tasks[queue] = self._start(self._puller.run(self._queues[queue]), f"reading {queue}")

    def _has_room(self, ahead: ReadAhead) -> bool:
        return (
            not ahead.is_paused
            and self._count <= self._all_max
            and ahead.hold(self._limits) is None
        )

    def _discount(self, count: int) -> None:
        """Count `count` buffered messages less; wake pull loops that the total had blocked."""
        was_full = self._count > self._all_max
        self._count -= count + self._uncounted
        self._uncounted = 0
        if was_full and self._count <= self._all_max:
            for queue in list(self._blocked):
                self._wake_if_room(queue)

    def _wake_if_room(self, queue: MessageQueue) -> None:
        blocked = self._blocked.get(queue)
        if blocked is not None and self._has_room(self._queues[queue]):
            _wake(blocked)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
