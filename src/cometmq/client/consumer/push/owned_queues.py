"""The queues that this member owns since the last rebalance: acquired, locked, given up.

An orderly queue is acquired when its broker has locked it for us, and unlocked when no listener
call has messages of it. A queue whose lock was lost restarts at the committed offset of the group.

Invariants: a queue is in at most one of `table` and `_leaving`; a queue in `table` is not given up.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cometmq.background import Background
from cometmq.client.consumer.push.consumption import Consumption
from cometmq.client.consumer.push.owned_queue import LockTime, OwnedQueue
from cometmq.client.consumer.push.push_reader import PushReader
from cometmq.client.consumer.push.queue_locks import LOCK_MS_MAX, QueueLocks
from cometmq.client.consumer.shared.flow_limits import FlowLimits
from cometmq.client.consumer.shared.queue_events import QueueEvents
from cometmq.client.consumer.shared.queue_puller import QueuePuller
from cometmq.client.consumer.shared.rebalance_trigger import RebalanceTrigger
from cometmq.client.consumer.shared.start_offset import StartOffsets
from cometmq.protocol.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OwnedQueues:
    """See the top of the file."""

    background: Background
    reader: PushReader
    puller: QueuePuller[OwnedQueue]
    consumption: Consumption
    starts: StartOffsets
    locks: QueueLocks | None  # None: not orderly, or broadcasting
    trigger: RebalanceTrigger
    events: QueueEvents
    table: dict[MessageQueue, OwnedQueue] = field(default_factory=dict, init=False)
    _leaving: dict[MessageQueue, "asyncio.Task[None]"] = field(default_factory=dict, init=False)
    _is_open: bool = field(default=True, init=False)

    def of(self, topic: str) -> list[OwnedQueue]:
        """The owned queues of one topic."""
        return [owned for queue, owned in self.table.items() if queue.topic == topic]

    async def settle(self, topic: str, mine: Sequence[MessageQueue]) -> None:
        """Own exactly these queues of a topic. Queues that fail are retried by a rebalance soon."""
        if not self._is_open:
            return  # closing: all queues are about to be given up
        wanted = set(mine)
        await self.give_up([each for each in self.of(topic) if each.queue not in wanted])
        # A queue that is still leaving is acquired after it has left: `_left` asks for a rebalance.
        busy = self.table.keys() | self._leaving.keys()
        fresh = [queue for queue in mine if queue not in busy]
        if fresh:
            await self._acquire_all(fresh)
        ours = self.of(topic)
        for owned in ours:
            owned.limits = self._limits(len(ours))
            owned.made_room()

    async def give_up(self, queues: Iterable[OwnedQueue]) -> None:
        """Stop consuming these queues. Return when they are released, or, if orderly, sooner."""
        leaving = list(queues)
        for owned in leaving:
            self._remove(owned)
        if self.consumption.is_orderly:
            for owned in leaving:
                self._depart(owned, is_lost=False)
        else:
            await asyncio.gather(*(self._leave(owned, is_lost=False) for owned in leaving))

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets of queues that are ours, and continue there."""
        moved = [(self.table[queue], at) for queue, at in offsets.items() if queue in self.table]
        for owned, _ in moved:
            owned.stop_pulling()
        await asyncio.gather(*(self.reader.move(owned, at) for owned, at in moved))
        for owned, _ in moved:
            self._pull(owned)

    def pull_anew(self, topic: str) -> None:
        """Replace pending pulls: they carry the previous subscription."""
        for owned in self.of(topic):
            self._pull(owned)

    async def renew(self) -> None:
        """Renew the locks."""
        if self.locks is None or not self.table:
            return
        locked = await self.locks.lock(self.table)
        for queue in locked.ours:
            owned = self.table.get(queue)
            if owned is None:
                continue
            if _has_expired(owned.lock, locked.asked):
                await self._restart(owned)  # another member may have owned it in between
            owned.lock = locked.asked
            self.consumption.deliver(owned)
        for queue in locked.not_ours & self.table.keys():
            log.warning("another member has the lock of %s", queue)
            self._lose(self.table[queue])

    async def keep_offsets(self) -> None:
        """Commit the offsets of all queues."""
        await self.starts.offsets.keep(list(self.table))

    def stop_pulling(self) -> None:
        """Acquire no more queues, and pull no more."""
        self._is_open = False
        for owned in self.table.values():
            owned.stop_pulling()

    async def close(self) -> None:
        """Give up all queues, and wait until they are released."""
        self._is_open = False
        await self.give_up(list(self.table.values()))
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()))

    def _limits(self, count: int) -> FlowLimits:
        return self.reader.config.flow_limits(count, orderly=self.consumption.is_orderly)

    async def _acquire_all(self, queues: Sequence[MessageQueue]) -> None:
        lock: LockTime | None = None
        if self.locks is not None:
            locked = await self.locks.lock(queues)
            lock = locked.asked
            if len(locked.ours) < len(queues):
                log.info(
                    "%d queues are still locked by other members", len(queues) - len(locked.ours)
                )
                self.trigger.fire_later()
            queues = [queue for queue in queues if queue in locked.ours]
        await asyncio.gather(*(self._acquire(queue, lock) for queue in queues))
        self.events.assigned(queue for queue in queues if queue in self.table)

    async def _acquire(self, queue: MessageQueue, lock: LockTime | None) -> None:
        offset = await self.starts.try_of(queue)
        if offset is None:
            self.trigger.fire_later()
            return
        if not self._is_open:
            return
        assert queue not in self.table, "rebalances run one after the other"
        assert queue not in self._leaving, "a queue that is leaving is not acquired"
        owned = self.table[queue] = OwnedQueue(queue, offset, self._limits(1))
        owned.lock = lock
        self._pull(owned)

    def _is_owned(self, owned: OwnedQueue) -> bool:
        """False if it was given up during a wait."""
        return self.table.get(owned.queue) is owned

    def _pull(self, owned: OwnedQueue) -> None:
        owned.stop_pulling()  # two callers may have moved it at the same time
        if self._is_open and self._is_owned(owned):
            assert not owned.is_given_up, "queues in the table are ours"
            work = self.puller.run(owned)
            owned.puller = self.background.start(work, f"pulling from {owned.queue}")

    async def _restart(self, owned: OwnedQueue) -> None:
        owned.stop_pulling()
        owned.process.drop()  # results of running calls are ignored
        self.starts.offsets.forget(owned.queue)
        offset = await self.starts.try_of(owned.queue)
        if not self._is_owned(owned):
            return
        if offset is None:
            self._lose(owned)
        else:
            owned.restart(offset)
            self._pull(owned)

    def _lose(self, owned: OwnedQueue) -> None:
        """Another member may have consumed from it: nothing that we know of it may be committed."""
        self._remove(owned)
        owned.process.drop()
        self.starts.offsets.forget(owned.queue)
        self._depart(owned, is_lost=True)

    def _remove(self, owned: OwnedQueue) -> None:
        removed = self.table.pop(owned.queue)
        assert removed is owned, "a queue has one owner object"
        owned.give_up()
        self.puller.source.forget(owned.queue)

    def _depart(self, owned: OwnedQueue, *, is_lost: bool) -> None:
        """Release it in the background: its listener may take long, and others need not wait."""
        assert owned.queue not in self._leaving, "it leaves once"
        task = self.background.start(self._leave(owned, is_lost=is_lost), "giving up a queue")
        self._leaving[owned.queue] = task
        task.add_done_callback(lambda _: self._left(owned.queue))

    async def _leave(self, owned: OwnedQueue, *, is_lost: bool) -> None:
        offsets = self.starts.offsets
        if owned.is_running and not is_lost:
            await offsets.keep([owned.queue])  # its listener may never return
        await self.consumption.wait_until_still(owned)
        owned.release()
        if not is_lost:
            await offsets.leave(owned.queue)
            if self.locks is not None:
                await self.locks.unlock([owned.queue])
        self.events.revoked([owned.queue])

    def _left(self, queue: MessageQueue) -> None:
        del self._leaving[queue]
        if self._is_open:
            self.trigger.fire_later()  # it may be ours again by now


def _has_expired(lock: LockTime | None, now: LockTime) -> bool:
    return lock is None or now.monotonic_ms - lock.monotonic_ms >= LOCK_MS_MAX
