"""Who waits for a queue is woken by what it wants, by its own deadline, or by the end."""

import asyncio

import pytest

from cometmq.broker.arrivals import Arrivals
from cometmq.testing.clock import ManualClock

PATIENCE_MS = 15_000
RED, BLUE = 11, 22


class Hall:
    """Arrivals, and tasks that wait in it."""

    def __init__(self):
        self.clock = ManualClock()
        self.arrivals = Arrivals(self.clock)

    async def wait(self, queue_id=0, offset=0, wants=None, topic="T"):
        waiting = self.arrivals.wait_past(topic, queue_id, offset, wants, PATIENCE_MS)
        task = asyncio.create_task(waiting)
        await asyncio.sleep(0)
        return task

    async def announce(self, queue_id=0, end=1, tag_code=0, topic="T"):
        self.arrivals.announce(topic, queue_id, end, tag_code)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def in_hall(story):
    async def told():
        hall = Hall()
        await story(hall)
        await hall.clock.advance(PATIENCE_MS)
        assert hall.arrivals.count == 0, "somebody waits for ever"

    asyncio.run(told())


def test_only_who_waits_for_this_queue_and_place_is_woken():
    async def story(hall):
        woken = [await hall.wait(offset=4), await hall.wait(offset=3)]
        others = [await hall.wait(offset=5), await hall.wait(1), await hall.wait(0, topic="Other")]
        assert hall.arrivals.count == 5
        await hall.announce(end=5)
        assert all(task.done() for task in woken)
        assert not any(task.done() for task in others)
        assert hall.arrivals.count == 3

    in_hall(story)


def test_a_message_of_another_tag_wakes_nobody():
    async def story(hall):
        red, blue = (
            await hall.wait(wants={RED}.__contains__),
            await hall.wait(wants={BLUE}.__contains__),
        )
        everything = await hall.wait()
        await hall.announce(tag_code=RED)
        assert (red.done(), blue.done(), everything.done()) == (True, False, True)

    in_hall(story)


def test_patience_ends_at_the_deadline_and_not_before():
    async def story(hall):
        task = await hall.wait()
        await hall.clock.advance(PATIENCE_MS - 1)
        assert not task.done()
        await hall.clock.advance(1)
        assert task.done()

    in_hall(story)


def test_a_read_that_parks_and_never_waits_leaves_at_its_deadline():
    async def story(hall):
        deadline_ms = hall.arrivals.deadline_ms(PATIENCE_MS)
        hall.arrivals.park("T", 0, 0, None, deadline_ms)
        await hall.clock.advance(PATIENCE_MS - 1)
        assert hall.arrivals.count == 1
        assert hall.arrivals.may_park(deadline_ms)
        await hall.clock.advance(1)
        assert hall.arrivals.count == 0
        assert not hall.arrivals.may_park(deadline_ms)

    in_hall(story)


def test_a_message_between_parking_and_waiting_wakes():
    async def story(hall):
        read = hall.arrivals.park("T", 0, 0, None, hall.arrivals.deadline_ms(PATIENCE_MS))
        hall.arrivals.announce("T", 0, 1, RED)
        assert hall.arrivals.count == 0
        await asyncio.wait_for(read.wait(), 60)

    in_hall(story)


def test_many_wait_for_one_queue_and_all_are_woken_by_one_message():
    async def story(hall):
        tasks = [await hall.wait() for _ in range(500)]
        await hall.announce()
        assert all(task.done() for task in tasks)

    in_hall(story)


def test_two_messages_of_one_moment_wake_once():
    async def story(hall):
        task = await hall.wait()
        hall.arrivals.announce("T", 0, 1, RED)
        hall.arrivals.announce("T", 0, 2, RED)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert task.done()
        assert task.exception() is None

    in_hall(story)


def test_who_is_gone_is_forgotten():
    async def story(hall):
        task, other = await hall.wait(), await hall.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert hall.arrivals.count == 1
        await hall.announce()
        assert other.done()

    in_hall(story)


def test_at_the_end_nobody_waits_any_longer():
    async def story(hall):
        tasks = [await hall.wait(queue_id) for queue_id in range(3)]
        hall.arrivals.end()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        assert hall.arrivals.is_over

    in_hall(story)
