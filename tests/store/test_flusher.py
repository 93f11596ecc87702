"""Group commit: many wait, one sync serves them, and a failed one fails them all for good."""

import asyncio

import pytest

from cometmq.errors import StoreFailed
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.flusher import Flusher
from store.rig import WatchedDisk


class Rig:
    def __init__(self, folder):
        self.disk = WatchedDisk()
        self.log = CommitLog(folder, 4096, self.disk)
        self.flusher = Flusher(self.log, self.disk)

    def append(self, size=100):
        file = self.log.room_for(size)
        file.written += size
        return file.end


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


async def settled(count=50):
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_is_flushed_already_costs_nothing(rig):
    async def story():
        await rig.flusher.durable(0)
        await rig.flusher.flush()
        end = rig.append()
        await rig.flusher.durable(end)
        assert rig.flusher.flushed == end
        await rig.flusher.durable(end)
        await rig.flusher.durable(end - 50)
        await rig.flusher.flush()

    asyncio.run(story())
    assert len(rig.disk.synced) == 1


def test_many_waiters_are_served_by_one_sync(rig):
    async def story():
        rig.disk.may_sync.clear()
        first = rig.flusher.durable(rig.append())
        await settled()
        others = [rig.flusher.durable(rig.append(10)) for _ in range(64)]
        await settled()
        assert not first.done() and not any(other.done() for other in others)
        rig.disk.may_sync.set()
        await asyncio.gather(first, *others)

    asyncio.run(story())
    assert len(rig.disk.synced) == 2, "one for the first, one for all who came meanwhile"


def test_nobody_is_told_before_the_sync_that_began_after_the_put(rig):
    async def story():
        rig.disk.may_sync.clear()
        first = rig.flusher.durable(rig.append())
        await settled()
        second = rig.flusher.durable(rig.append())
        rig.disk.may_sync.set()
        await first
        if not second.done():
            assert rig.flusher.flushed == 100
        rig.disk.may_sync.clear()
        third = rig.flusher.durable(rig.append())
        await settled()
        assert not third.done()
        rig.disk.may_sync.set()
        await asyncio.gather(second, third)

    asyncio.run(story())


def test_all_files_that_were_written_are_synced(rig):
    async def story():
        for _ in range(9):
            rig.append(1000)
        await rig.flusher.flush()
        assert [path.name for path in rig.disk.synced] == [f"{n:020}" for n in (0, 4096, 8192)]
        rig.disk.synced.clear()
        rig.append(1000)
        await rig.flusher.flush()
        assert [path.name for path in rig.disk.synced] == [f"{8192:020}"]
        rig.disk.synced.clear()
        rig.append(4000)  # seals that file and begins another
        await rig.flusher.flush()
        assert [path.name for path in rig.disk.synced] == [f"{8192:020}", f"{12288:020}"]

    asyncio.run(story())


def test_a_failed_sync_fails_all_and_is_never_tried_again(rig, caplog):
    async def story():
        rig.disk.may_sync.clear()
        waiters = [rig.flusher.durable(rig.append())]
        await settled()
        waiters += [rig.flusher.durable(rig.append()) for _ in range(9)]
        rig.disk.fails_to_sync = True
        rig.disk.may_sync.set()
        results = await asyncio.gather(*waiters, return_exceptions=True)
        assert all(isinstance(result, StoreFailed) for result in results)
        assert rig.flusher.flushed == 0
        rig.disk.fails_to_sync = False
        for wanted in (rig.append(), 1, 0):
            with pytest.raises(StoreFailed, match="Input/output error"):
                await rig.flusher.durable(wanted)

    asyncio.run(story())
    assert len(rig.disk.synced) == 1, "the kernel may say yes the second time, and lie"
    assert "takes no more messages" in caplog.text


def test_what_was_durable_before_the_failure_stays_acknowledged(rig):
    async def story():
        good = rig.flusher.durable(rig.append())
        await good
        rig.disk.fails_to_sync = True
        with pytest.raises(StoreFailed):
            await rig.flusher.durable(rig.append())
        assert good.result() is None
        assert rig.flusher.flushed == 100

    asyncio.run(story())


def test_one_who_stops_waiting_disturbs_no_other(rig):
    """A send that times out cancels its own wait; a timed flush may wait for the same offset."""

    async def story():
        rig.disk.may_sync.clear()
        end = rig.append()
        impatient = asyncio.create_task(_wait_a_little(rig.flusher, end))
        await settled()
        patient = asyncio.ensure_future(rig.flusher.flush())
        await impatient
        late = asyncio.ensure_future(rig.flusher.flush())
        await settled()
        rig.disk.may_sync.set()
        assert await asyncio.gather(patient, late, return_exceptions=True) == [None, None]
        assert rig.flusher.flushed == end

    asyncio.run(story())


async def _wait_a_little(flusher, end):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(flusher.durable(end), 0.01)
