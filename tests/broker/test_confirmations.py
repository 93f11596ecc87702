"""Sends that wait for the disk: told once, in time, and with few questions to the store."""

import asyncio

from cometmq.broker.confirmations import Confirmations
from cometmq.errors import StoreFailed
from cometmq.protocol.codes import ResponseCode
from cometmq.store.queue.results import Stored
from cometmq.testing.clock import ManualClock

SUCCESS, TOO_LATE = ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT
PATIENCE_MS = 5_000


class SlowStore:
    """Flushes when it is told to, up to where it is told."""

    flush_patience_ms = PATIENCE_MS

    def __init__(self):
        self.flushed_end = 0
        self.asked = []

    def durable(self, stored):
        future = asyncio.get_running_loop().create_future()
        self.asked.append((stored.end, future))
        return future

    def flush(self, end):
        self.flushed_end = end
        for wanted, future in self.asked:
            if wanted <= end and not future.done():
                future.set_result(None)


class Scene:
    def __init__(self):
        self.store, self.clock = SlowStore(), ManualClock()
        self.confirmations = Confirmations(self.store, self.clock)
        self.told = []

    def add(self, end):
        stored = Stored(end - 1, 0, 1, end)
        self.confirmations.add(stored, lambda code, remark: self.told.append((end, code, remark)))

    @property
    def successes(self):
        return [end for end, code, _ in self.told if code == SUCCESS]


def scene(test):
    """Run an async test with a scene of its own."""

    def run():
        async def begin():
            await test(Scene())

        asyncio.run(begin())

    return run


@scene
async def test_the_store_is_asked_once_for_all_of_one_turn(it):
    for end in range(1, 101):
        it.add(end)
    await asyncio.sleep(0)
    assert [end for end, _ in it.store.asked] == [100]
    it.store.flush(100)
    await asyncio.sleep(0)
    assert it.successes == list(range(1, 101))
    assert len(it.told) == 100


@scene
async def test_a_flush_tells_no_more_than_it_covers(it):
    it.add(10)
    await asyncio.sleep(0)
    it.add(20)
    await asyncio.sleep(0)
    assert it.told == []
    it.store.flush(10)
    await asyncio.sleep(0)
    assert it.successes == [10]
    it.store.flush(20)
    await asyncio.sleep(0)
    assert it.successes == [10, 20]


@scene
async def test_one_that_comes_late_of_what_is_older_is_told_too(it):
    it.add(50)
    it.add(30)  # waited for its topic before
    await asyncio.sleep(0)
    assert [end for end, _ in it.store.asked] == [50]
    it.store.flush(50)
    await asyncio.sleep(0)
    assert sorted(it.successes) == [30, 50]


@scene
async def test_each_has_its_own_patience(it):
    it.add(1)
    await it.clock.advance(PATIENCE_MS // 2)
    it.add(2)
    await it.clock.advance(PATIENCE_MS // 2)
    assert it.told == [(1, TOO_LATE, None)]
    it.store.flush(2)
    await asyncio.sleep(0)
    assert it.told[1:] == [(2, SUCCESS, None)]
    await it.clock.advance(10 * PATIENCE_MS)
    assert len(it.told) == 2
    it.add(3)  # the timer is there again
    await it.clock.advance(PATIENCE_MS)
    assert it.told[2:] == [(3, TOO_LATE, None)]


@scene
async def test_a_disk_that_fails_fails_all_of_them(it):
    it.add(1)
    await asyncio.sleep(0)
    it.add(2)
    await asyncio.sleep(0)
    for _, future in it.store.asked:
        future.set_exception(StoreFailed("the log could not be written to disk"))
    await asyncio.sleep(0)
    assert [(end, code) for end, code, _ in it.told] == [
        (1, ResponseCode.SERVICE_NOT_AVAILABLE),
        (2, ResponseCode.SERVICE_NOT_AVAILABLE),
    ]
    assert "could not be written" in it.told[0][2]


@scene
async def test_nobody_waits_longer_than_the_settings_have_it_now(it):
    it.add(10)
    await it.clock.advance(1_000)
    it.store.flush_patience_ms = 300
    it.confirmations.follow_settings()
    it.add(20)
    await it.clock.advance(299)
    assert it.told == []
    await it.clock.advance(1)
    assert it.told == [(10, TOO_LATE, None), (20, TOO_LATE, None)]
    it.store.flush_patience_ms = 9_000
    it.confirmations.follow_settings()
    it.add(30)
    await it.clock.advance(8_999)
    assert len(it.told) == 2
    await it.clock.advance(1)
    assert len(it.told) == 3
