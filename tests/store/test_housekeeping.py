"""Flushes that are given up half way, and what the next one makes of it."""

import asyncio
import threading

import pytest

from store.rig import NOON_MS, WatchedDisk, message, open_store


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
