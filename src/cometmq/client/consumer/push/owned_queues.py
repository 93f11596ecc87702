"""The queues that are this member's, as the last rebalance had it: taken, renewed, given up.

An orderly queue is taken once its broker has locked it for us, and unlocked once no listener has
messages of it. One whose lock was lost begins anew from the offset that the group has committed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cometmq.background import Background
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.consumption import Consumption
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.push.puller import Puller
from cometmq.client.consumer.push.queue_locks import LOCK_MS_MAX, QueueLocks
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import Clock

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OwnedQueues:
    """See the top of the file."""

    config: PushConsumerConfig
    clock: Clock
    background: Background
    puller: Puller
    consumption: Consumption
    offsets: Offsets
    start_of: Callable[[MessageQueue], Awaitable[int]]
    is_orderly: bool
    locks: QueueLocks | None  # None: not in order, or nobody to share with
    again: Callable[[], None]  # something could not be done just now: rebalance again soon
    held: dict[MessageQueue, OwnedQueue] = field(default_factory=dict)
    _leaving: dict[MessageQueue, "asyncio.Task[None]"] = field(default_factory=dict)
    _is_open: bool = True

    def of(self, topic: str) -> list[OwnedQueue]:
        """Those of one topic."""
        return [held for queue, held in self.held.items() if queue.topic == topic]

    async def settle(self, topic: str, mine: Sequence[MessageQueue]) -> None:
        """Have these of a topic, and no others; what cannot be had yet is tried again soon."""
        wanted = set(mine)
        await self.give_up([each for each in self.of(topic) if each.queue not in wanted])
        # One that is still leaving is taken once it has left: `_left` has us come again.
        busy = self.held.keys() | self._leaving.keys()
        fresh = [queue for queue in mine if queue not in busy]
        if fresh:
            await self._take_all(fresh)
        ours = self.of(topic)
        for held in ours:
            held.limits = self.config.flow_limits(len(ours), orderly=self.is_orderly)
            held.made_room()

    async def give_up(self, queues: Iterable[OwnedQueue]) -> None:
        """They are another's from now on."""
        leaving = list(queues)
        for held in leaving:
            self.held.pop(held.queue, None)
            held.is_leaving = True
            held.stop_pulling()
            self.puller.pulls.forget(held.queue)
        if self.is_orderly:
            for held in leaving:
                self._depart(held, is_lost=False)
        else:
            await asyncio.gather(*(self._leave(held, is_lost=False) for held in leaving))

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Read on from these offsets, in those queues that are ours; they are kept before."""
        moved = [(self.held[queue], at) for queue, at in offsets.items() if queue in self.held]
        for held, _ in moved:
            held.stop_pulling()
        await asyncio.gather(*(self.puller.move(held, at) for held, at in moved))
        for held, _ in moved:
            self._pull(held)

    def pull_anew(self, topic: str) -> None:
        """Another subscription: what a broker holds for the last one is of no use."""
        for held in self.of(topic):
            self._pull(held)

    async def renew(self) -> None:
        """Have the locks for another while."""
        if self.locks is None or not self.held:
            return
        asked_ms = self.clock.monotonic_ms()
        locked = await self.locks.lock(self.held)
        for queue in locked.ours:
            held = self.held.get(queue)
            if held is None:
                continue
            if held.locked_ms is None or asked_ms - held.locked_ms >= LOCK_MS_MAX:
                await self._begin_anew(held)  # it may have been another's in between
            held.locked_ms, held.locked_wall_ms = asked_ms, self.clock.wall_ms()
            self.consumption.deliver(held)
        for queue in locked.not_ours & self.held.keys():
            log.warning("the lock on %s is another's", queue)
            self._lose(self.held[queue])

    async def keep_offsets(self) -> None:
        """Have all of them kept."""
        await self.offsets.keep(list(self.held))

    def stop_pulling(self) -> None:
        """Take no more queues, and pull no more."""
        self._is_open = False
        for held in self.held.values():
            held.stop_pulling()

    async def close(self) -> None:
        """Give all up."""
        self._is_open = False
        await self.give_up(list(self.held.values()))
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()))

    async def _take_all(self, queues: Sequence[MessageQueue]) -> None:
        locked_ms = None
        if self.locks is not None:
            locked_ms = self.clock.monotonic_ms()
            ours = (await self.locks.lock(queues)).ours
            if len(ours) < len(queues):
                log.info("%d queues are still locked by others", len(queues) - len(ours))
                self.again()
            queues = [queue for queue in queues if queue in ours]
        await asyncio.gather(*(self._take(queue, locked_ms) for queue in queues))

    async def _take(self, queue: MessageQueue, locked_ms: int | None) -> None:
        try:
            offset = await self.start_of(queue)
        except (PeerError, WorldError) as error:
            log.warning("%s is not read yet: %s", queue, error)
            self.again()
            return
        if not self._is_open:
            return
        held = OwnedQueue(queue, offset, self.config.flow_limits(1, orderly=self.is_orderly))
        if locked_ms is not None:
            held.locked_ms, held.locked_wall_ms = locked_ms, self.clock.wall_ms()
        self.held[queue] = held
        self._pull(held)

    def _is_held(self, held: OwnedQueue) -> bool:
        """It is still ours, after a wait."""
        return self.held.get(held.queue) is held

    def _pull(self, held: OwnedQueue) -> None:
        held.stop_pulling()  # two who moved it may have waited at a time
        if self._is_open and self._is_held(held):
            held.puller = self.background.start(self.puller.run(held), f"pulling from {held.queue}")

    async def _begin_anew(self, held: OwnedQueue) -> None:
        held.stop_pulling()
        held.process.drop()  # what a listener has of it counts no more
        self.offsets.forget(held.queue)
        try:
            offset = await self.start_of(held.queue)
        except (PeerError, WorldError) as error:
            log.warning("%s is not read yet: %s", held.queue, error)
            if self._is_held(held):
                self._lose(held)
            return
        if self._is_held(held):
            held.begin_anew(offset)
            self._pull(held)

    def _lose(self, held: OwnedQueue) -> None:
        """Another may have consumed of it: nothing that we know of it may be committed."""
        held.drop()
        self.offsets.forget(held.queue)
        del self.held[held.queue]
        self._depart(held, is_lost=True)

    def _depart(self, held: OwnedQueue, *, is_lost: bool) -> None:
        """A listener may take its time, and others need not wait for it."""
        task = self.background.start(self._leave(held, is_lost=is_lost), "giving up a queue")
        self._leaving[held.queue] = task
        task.add_done_callback(lambda _: self._left(held.queue))

    async def _leave(self, held: OwnedQueue, *, is_lost: bool) -> None:
        if held.is_running and not is_lost:
            await self.offsets.keep([held.queue])  # its listener may never return
        await self.consumption.wait_until_still(held)
        held.drop()
        if not is_lost:
            await self.offsets.leave(held.queue)
            if self.locks is not None:
                await self.locks.unlock([held.queue])

    def _left(self, queue: MessageQueue) -> None:
        del self._leaving[queue]
        if self._is_open:
            self.again()  # it may be ours again by now
