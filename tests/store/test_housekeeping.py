"""Flushes that are given up half way, timers that fail, and what the next one makes of it."""

import asyncio
import threading

import pytest

from cometmq.testing.clock import ManualClock
from store.rig import NOON_MS, UNHURRIED, WatchedDisk, message, open_store


class Counting(WatchedDisk):
    """How many works are under way, and whether one has come to the index."""

    at_work = most = 0

    def __init__(self):
        super().__init__()
        self.is_at_index = threading.Event()

    def before_sync(self, path):
        if path.parent.name == "index":
            self.is_at_index.set()
        super().before_sync(path)

    def begin(self, work):
        def counted():
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            try:
                return work()
            finally:
                self.at_work -= 1

        return super().begin(counted)


def index_syncs(disk):
    return [path for path in disk.synced if path.parent.name == "index"]


def test_a_flush_that_is_given_up_ends_its_work_and_the_next_one_syncs_the_index(tmp_path):
    """Else a checkpoint would vouch for keys that are in memory alone."""

    async def story():
        disk = Counting()
        async with open_store(tmp_path, disk=disk) as store:
            await store.durable(store.put(message(b"x", KEYS="k"), NOON_MS))
            disk.synced.clear()
            disk.is_at_index.clear()
            disk.most = 0
            disk.may_sync.clear()  # the log is synced already: only the index is left
            flush = asyncio.ensure_future(store.flush())
            assert await asyncio.to_thread(disk.is_at_index.wait, 10)
            flush.cancel()
            after = asyncio.ensure_future(store.flush())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not flush.done(), "its work is not done"
            disk.may_sync.set()
            with pytest.raises(asyncio.CancelledError):
                await flush
            await after
            assert disk.most == 1, "and no other began meanwhile"
            assert len(index_syncs(disk)) == 2, "one that nobody heard of, and one again"
            disk.synced.clear()
            await store.flush()
            assert index_syncs(disk) == []

    asyncio.run(story())


ROUND_MS = 1000


@pytest.mark.parametrize(
    ("timer", "part", "verb", "what"),
    [
        ("flush_interval_commit_log", "_log", "begin_next", "flush of the log"),
        ("flush_interval_consume_queue", "_queues", "with_unwritten", "timed flush"),
        ("clean_resource_interval", "_retention", "clean", "cleaning"),
    ],
)
def test_a_timer_outlives_what_nobody_expected(
    tmp_path, caplog, monkeypatch, timer, part, verb, what
):
    """It is logged with its trace, and the next round comes."""

    async def story():
        clock = ManualClock(NOON_MS)
        async with open_store(tmp_path, clock=clock, **(UNHURRIED | {timer: ROUND_MS})) as store:
            await clock.advance(0)
            rounds = []

            def fail():
                rounds.append(clock.monotonic_ms())
                raise RuntimeError("nobody expected")

            monkeypatch.setattr(getattr(store, part), verb, fail)
            await clock.advance(3 * ROUND_MS)
            assert [at - NOON_MS for at in rounds] == [ROUND_MS, 2 * ROUND_MS, 3 * ROUND_MS]
            assert caplog.text.count(f"{what} failed") == 3
            assert "RuntimeError: nobody expected" in caplog.text
            monkeypatch.undo()

    asyncio.run(story())
