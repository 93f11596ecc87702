"""Queues that are read ahead: flow control, and random days that agree with a plain model."""

import asyncio
import random
from collections import defaultdict

import pytest

from client.received import received
from cometmq.background import Background
from cometmq.client.consumer.lite.assignment import Assignment
from cometmq.client.consumer.shared.flow_limits import FlowLimits
from cometmq.client.consumer.shared.pulls import Pull
from cometmq.client.message import PullResult, PullStatus
from cometmq.errors import Unreachable
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.testing.clock import ManualClock

QUEUES = [MessageQueue("orders", "broker-a", each) for each in range(3)]
COUNT = 4  # of a pull


class Queues:
    """Stands for `Pulls`: each queue is a list that says which messages a filter lets pass."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.wanted: dict[MessageQueue, list[bool]] = defaultdict(list)
        self.committed: dict[MessageQueue, int] = {}
        self.failure_rate = 0.0
        self.patience = 0  # turns of the loop that an answer may take
        self.pulled = 0
        self._arrived = asyncio.Event()

    def put(self, queue, *wanted):
        self.wanted[queue] += wanted
        self._arrived.set()
        self._arrived = asyncio.Event()

    def forget(self, queue):
        """Nothing is remembered."""

    async def start_of(self, queue):
        await self._turns()
        return self.committed.get(queue, 0)

    def pull_of(self, queue, offset, generation):
        return Pull(
            queue=queue, offset=offset, count=COUNT, subscription=Subscription(), timeout_ms=1,
            generation=generation,
        )  # fmt: skip

    async def pull(self, ask):
        self.pulled += 1
        await self._turns()
        stored = self.wanted[ask.queue]
        while ask.offset == len(stored):
            await self._arrived.wait()
            await self._turns()
        page = stored[ask.offset : ask.offset + ask.count]
        found = tuple(
            received(offset, queue_id=ask.queue.queue_id)
            for offset, is_wanted in enumerate(page, ask.offset)
            if is_wanted
        )
        await self._turns()
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED
        return PullResult(status, ask.offset + len(page), 0, len(stored), found)

    async def _turns(self):
        for _ in range(self.chance.randint(0, self.patience)):
            await asyncio.sleep(0)
        if self.chance.random() < self.failure_rate:
            raise Unreachable("the test wants it so")


def assigned(queues, clock, limits=None, all_max=10_000):
    return Assignment(
        clock, Background(clock).start, queues, queues, limits or FlowLimits(), all_max, 1000
    )


def run(scene, **settings):
    async def main():
        clock, queues = ManualClock(), Queues(random.Random(1))
        assignment = assigned(queues, clock, **settings)
        try:
            await scene(clock, queues, assignment)
        finally:
            await assignment.stop()

    asyncio.run(main())


def offsets_of(messages):
    return [message.queue_offset for message in messages]


def test_queues_take_turns_a_pull_at_a_time():
    async def scene(clock, queues, assignment):
        for queue in QUEUES[:2]:
            queues.put(queue, *[True] * 6)
            assignment.add(queue)
        await clock.advance(0)
        taken = [assignment.take(3) for _ in range(6)]
        assert [(each[0].queue_id, offsets_of(each)) for each in taken] == [
            (0, [0, 1, 2]), (0, [3]), (1, [0, 1, 2]), (1, [3]), (0, [4, 5]), (1, [4, 5]),
        ]  # fmt: skip
        assert assignment.take(3) == []

    run(scene)


def test_a_full_queue_is_read_again_when_something_is_taken():
    async def scene(clock, queues, assignment):
        queues.put(QUEUES[0], *[True] * 100)
        assignment.add(QUEUES[0])
        await clock.advance(0)
        assert (assignment.of(QUEUES[0]).count, queues.pulled) == (12, 3)
        assignment.take(3)
        await clock.advance(0)
        assert queues.pulled == 3
        assignment.take(1)
        await clock.advance(0)
        assert queues.pulled == 4

    run(scene, limits=FlowLimits(messages=8))


def test_all_queues_together_are_bounded_and_each_goes_on():
    async def scene(clock, queues, assignment):
        for queue in QUEUES:
            queues.put(queue, *[True] * 100)
            assignment.add(queue)
        await clock.advance(0)
        held = sum(ahead.count for ahead in assignment.queues.values())
        assert 10 < held <= 10 + 3 * COUNT
        seen = defaultdict(list)
        while messages := assignment.take(2):
            seen[messages[0].queue_id] += offsets_of(messages)
            await clock.advance(0)
        assert seen == {each: list(range(100)) for each in range(3)}

    run(scene, all_max=10)


def test_who_takes_one_by_one_makes_room_too():
    async def scene(clock, queues, assignment):
        for queue in QUEUES:
            queues.put(queue, *[True] * 50)
            assignment.add(queue)
        seen = defaultdict(list)
        for _ in range(150):
            await clock.advance(0)
            message = assignment.take_one()
            seen[message.queue_id].append(message.queue_offset)
        assert seen == {each: list(range(50)) for each in range(3)}
        assert assignment.take_one() is None

    run(scene, limits=FlowLimits(messages=5), all_max=10)


def test_a_seek_or_a_drop_makes_room_for_the_others():
    async def scene(clock, queues, assignment):
        queues.put(QUEUES[0], *[True] * 100)
        assignment.add(QUEUES[0])
        await clock.advance(0)
        queues.put(QUEUES[1], *[True] * 4)
        assignment.add(QUEUES[1])
        await clock.advance(0)
        assert assignment.of(QUEUES[1]).count == 0
        assignment.seek(QUEUES[0], 100)
        await clock.advance(0)
        assert assignment.of(QUEUES[1]).count == 4

    run(scene, all_max=10)


def test_a_paused_queue_keeps_what_it_has_and_is_read_no_further():
    async def scene(clock, queues, assignment):
        queues.put(QUEUES[0], True, True)
        assignment.add(QUEUES[0])
        await clock.advance(0)
        assignment.pause(QUEUES[0])
        assert assignment.take(9) == []
        queues.put(QUEUES[0], True, True)  # the pull that was under way brings these
        await clock.advance(0)
        queues.put(QUEUES[0], True)
        await clock.advance(0)
        assert assignment.of(QUEUES[0]).count == 4
        assignment.resume(QUEUES[0])
        assert offsets_of(assignment.take(9)) == [0, 1]
        assert offsets_of(assignment.take(9)) == [2, 3]
        await clock.advance(0)
        assert offsets_of(assignment.take(9)) == [4]

    run(scene)


def test_a_seek_does_not_wait_for_the_pull_that_is_under_way():
    async def scene(clock, queues, assignment):
        queues.put(QUEUES[0], True, True)
        assignment.add(QUEUES[0])
        await clock.advance(0)
        assert offsets_of(assignment.take(9)) == [0, 1]
        await clock.advance(0)  # it waits at the end of the queue
        assignment.seek(QUEUES[0], 0)
        await clock.advance(0)
        assert offsets_of(assignment.take(9)) == [0, 1]

    run(scene)


def test_who_waits_is_woken_by_a_message_or_by_time():
    async def scene(clock, queues, assignment):
        assignment.add(QUEUES[0])
        waiting = asyncio.create_task(assignment.wait(5_000))
        await clock.advance(4_999)
        assert not waiting.done()
        queues.put(QUEUES[0], True)
        await waiting
        assert len(assignment.take(1)) == 1
        waiting = asyncio.create_task(assignment.wait(5_000))
        await clock.advance(5_000)
        await waiting
        waiting = asyncio.create_task(assignment.wait(5_000))
        await clock.advance(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(scene)


def test_failures_are_tried_again_ever_more_slowly():
    async def scene(clock, queues, assignment):
        queues.failure_rate = 1.0
        queues.committed[QUEUES[0]] = 0
        assignment.add(QUEUES[0])
        await clock.advance(60_000)
        assert assignment.of(QUEUES[0]).position is None
        queues.failure_rate = 0.0
        queues.put(QUEUES[0], True)
        await clock.advance(1_000)
        assert offsets_of(assignment.take(1)) == [0]

    run(scene)


def test_a_broker_that_does_not_hold_pulls_is_not_asked_without_end():
    async def scene(clock, queues, assignment):
        async def at_once(ask):
            queues.pulled += 1
            return PullResult(PullStatus.NO_NEW, ask.offset, 0, ask.offset)

        queues.pull = at_once
        assignment.add(QUEUES[0])
        await clock.advance(10_000)
        assert 90 <= queues.pulled <= 101

    run(scene)


class Day:
    """A random day of a consumer, beside a model that is a number a queue."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        self.queues = Queues(self.chance)
        self.queues.patience = self.chance.choice([0, 1, 5])
        self.queues.failure_rate = self.chance.choice([0.0, 0.1])
        self.assignment = assigned(
            self.queues, self.clock, FlowLimits(messages=6, span=9), all_max=12
        )
        self.position: dict[MessageQueue, int] = {}  # of what is returned next
        self.in_hand: tuple[MessageQueue, int] | None = None
        self.paused: set[MessageQueue] = set()

    async def run(self, steps: int) -> None:
        verbs = [
            self.put, self.put, self.take, self.take, self.take, self.seek, self.pause,
            self.resume, self.add, self.add, self.drop,
        ]  # fmt: skip
        for _ in range(steps):
            self.chance.choice(verbs)(self.chance.choice(QUEUES))
            self.check()
            for _ in range(self.chance.choice([0, 0, 1, 3, 10])):
                await asyncio.sleep(0)
            if self.chance.random() < 0.1:
                await self.clock.advance(1_000)
            self.check()
        await self.read_all()
        await self.assignment.stop()

    def put(self, queue) -> None:
        self.queues.put(
            queue, *(self.chance.random() < 0.7 for _ in range(self.chance.randint(1, 8)))
        )

    def take(self, _) -> None:
        messages = self.taken()
        self.in_hand = None
        if messages:
            queue = QUEUES[messages[0].queue_id]
            assert queue not in self.paused
            rest = self.wanted_from(queue)
            assert offsets_of(messages) == rest[: len(messages)], "nothing skipped, all in order"
            self.position[queue] = messages[-1].queue_offset + 1
            self.in_hand = queue, messages[0].queue_offset

    def taken(self):
        limit = self.chance.choice([0, 0, 1, 2, 9])
        if limit:
            return self.assignment.take(limit)
        message = self.assignment.take_one()
        return [] if message is None else [message]

    def seek(self, queue) -> None:
        if queue in self.position:
            offset = self.chance.randint(0, len(self.queues.wanted[queue]))
            self.assignment.seek(queue, offset)
            self.position[queue] = offset
            self.forget_hand(queue)

    def pause(self, queue) -> None:
        if queue in self.position:
            self.assignment.pause(queue)
            self.paused.add(queue)

    def resume(self, queue) -> None:
        if queue in self.position:
            self.assignment.resume(queue)
            self.paused.discard(queue)

    def add(self, queue) -> None:
        self.assignment.add(queue)
        self.position.setdefault(queue, self.queues.committed.get(queue, 0))

    def drop(self, queue) -> None:
        if queue in self.position:
            done = self.assignment.drop(queue)
            if done is not None:
                self.queues.committed[queue] = done
            del self.position[queue]
            self.paused.discard(queue)
            self.forget_hand(queue)

    def forget_hand(self, queue) -> None:
        if self.in_hand is not None and self.in_hand[0] == queue:
            self.in_hand = None

    def wanted_from(self, queue) -> list[int]:
        wanted = self.queues.wanted[queue]
        return [each for each in range(self.position[queue], len(wanted)) if wanted[each]]

    def check(self) -> None:
        """What may be committed is what was returned and is not in hand: no more, no less."""
        for queue, done in self.assignment.done().items():
            in_hand = self.in_hand is not None and self.in_hand[0] == queue
            returned = self.in_hand[1] if in_hand else self.position[queue]
            skipped = range(returned, done)
            assert done >= returned
            assert not any(self.queues.wanted[queue][each] for each in skipped)
        waiting = sum(ahead.count for ahead in self.assignment.queues.values())
        assert waiting <= 12 + len(QUEUES) * COUNT

    async def read_all(self) -> None:
        self.queues.failure_rate = 0.0
        for queue in QUEUES:
            self.add(queue)
            self.resume(queue)
        for _ in range(1000):
            self.take(None)
            if not any(map(self.wanted_from, QUEUES)):
                return
            await self.clock.advance(100)
        raise AssertionError(f"stuck at {self.position}")


@pytest.mark.parametrize("seed", range(150))
def test_any_day_agrees_with_the_model(seed):
    async def main():
        await Day(seed).run(120)

    asyncio.run(main())
