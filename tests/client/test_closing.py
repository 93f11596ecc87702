"""Closing runs once and survives the cancellation of its callers."""

import asyncio

import pytest

from cometmq.client.closing import Closing


class Work:
    """Counts its runs, and ends when the test allows it."""

    def __init__(self, error=None):
        self.runs = 0
        self.is_done = False
        self.may_end = asyncio.Event()
        self.error = error

    async def __call__(self):
        self.runs += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        self.is_done = True


def test_all_callers_wait_for_one_run():
    async def story():
        closing, work = Closing(), Work()
        callers = [asyncio.create_task(closing.run(work)) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(caller.done() for caller in callers)
        work.may_end.set()
        await asyncio.gather(*callers)
        await closing.run(work)
        assert (work.runs, work.is_done, closing.has_begun) == (1, True, True)

    asyncio.run(story())


def test_a_cancelled_caller_leaves_and_the_work_continues():
    async def story():
        closing, work = Closing(), Work()
        caller = asyncio.create_task(closing.run(work))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not work.is_done
        work.may_end.set()
        await closing.wait()
        assert (work.runs, work.is_done) == (1, True)

    asyncio.run(story())


def test_a_caller_that_ignores_cancellation_waits_for_the_end():
    async def story():
        closing, work = Closing(), Work()
        closing.begin(work)
        caller = asyncio.create_task(closing.wait(ignore_cancellation=True))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
        work.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert work.is_done

    asyncio.run(story())


def test_every_caller_sees_the_failure():
    async def story():
        closing, work = Closing(), Work(OSError("no disk"))
        work.may_end.set()
        for _ in range(2):
            with pytest.raises(OSError, match="no disk"):
                await closing.run(work)
        assert work.runs == 1

    asyncio.run(story())


def test_waiting_before_the_begin_returns():
    async def story():
        closing = Closing()
        await closing.wait()
        assert not closing.has_begun

    asyncio.run(story())
