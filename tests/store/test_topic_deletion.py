"""A topic that is deleted while messages are sent to it: what was taken is kept, also by a kill.

What is to hold is in docs/disk.md, section 7.
"""

import asyncio
import errno
import os
import threading

import pytest

from cometmq.errors import BeingDeleted
from cometmq.store.recovery.checkpoint import read_checkpoint
from cometmq.testing.clock import ManualClock
from store.rig import NOON_MS, WatchedDisk, message, open_store, read_all


def put_old(store, count=5):
    for i in range(count):
        store.put(message(b"old %d" % i), NOON_MS)


def tried(store, body):
    """Was it taken?"""
    try:
        store.put(message(body), NOON_MS)
    except BeingDeleted:
        return False
    return True


async def sent_beside(store, deletion):
    """What was taken of the messages that were sent at every turn of the loop."""
    taken, number = [], 0
    while not deletion.done():
        await asyncio.sleep(0)
        body = b"new %d" % number
        number += 1
        if tried(store, body):
            taken.append(body)
    await deletion
    assert number > len(taken), "some were sent too soon, or the test is empty"
    return taken


def bodies(store):
    return [one.body for one in read_all(store)]


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("flushed", [False, True], ids=["unflushed", "flushed"])
def test_what_a_topic_took_while_it_was_deleted_is_kept(tmp_path, flushed, killed):
    async def story():
        store = await open_store(tmp_path, mapped_file_size_commit_log=1 << 20).__aenter__()
        put_old(store)
        if flushed:
            await store.flush()
        store.put(message(b"other", topic="U"), NOON_MS)
        deletion = asyncio.ensure_future(store.delete_topic("T"))
        taken = await sent_beside(store, deletion)
        stored = store.put(message(b"after"), NOON_MS)
        assert stored.queue_offset == len(taken)
        assert store.bounds("T", 0) == (0, len(taken) + 1)
        assert bodies(store) == [*taken, b"after"]
        if killed:
            await store.abandon()
        else:
            await store.__aexit__(None, None, None)
        async with open_store(tmp_path, mapped_file_size_commit_log=1 << 20) as store:
            assert store.recovered.bad == ()
            assert bodies(store) == [*taken, b"after"]

    asyncio.run(story())


def test_batches_and_messages_side_by_side_are_refused_too(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            put_old(store)
            deletion = asyncio.ensure_future(store.delete_topic("T"))
            await asyncio.sleep(0)
            end, some = store.log_bounds[1], [message(b"a"), message(b"b", topic="U")]
            with pytest.raises(BeingDeleted):
                store.put_all(some[:1] * 2, NOON_MS)
            with pytest.raises(BeingDeleted):
                store.put_all(some, NOON_MS, in_this_file=True)
            assert store.log_bounds[1] == end, "nothing happened"
            assert store.put(some[1], NOON_MS).queue_offset == 0, "another topic's"
            assert (store.bounds("T", 0), bodies(store)) == ((0, 0), [])
            await deletion
            assert store.put_all(some[:1] * 2, NOON_MS)[1].queue_offset == 1

    asyncio.run(story())


def test_whoever_asked_and_left_is_not_missed(tmp_path):
    """At once the topic is empty, and the next flush deletes what it had."""

    async def story():
        never = 1 << 40
        async with open_store(
            tmp_path, clock=ManualClock(NOON_MS), flush_interval_consume_queue=never
        ) as store:
            put_old(store)
            await store.flush()
            deletion = asyncio.ensure_future(store.delete_topic("T"))
            await asyncio.sleep(0)
            deletion.cancel()
            await asyncio.gather(deletion, return_exceptions=True)
            assert bodies(store) == []
            await store.flush()
            assert list((tmp_path / "consumequeue" / "T" / "0").iterdir()) == []
            assert store.put(message(b"new"), NOON_MS).queue_offset == 0

    asyncio.run(story())


class Stubborn(WatchedDisk):
    """Keeps the files of a topic for a while."""

    keeps = True

    def delete(self, path):
        if self.keeps and "T" in path.parts:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        super().delete(path)


def test_files_that_cannot_be_deleted_close_their_topic_alone(tmp_path, caplog):
    async def story():
        disk = Stubborn()
        async with open_store(tmp_path, disk=disk, clock=ManualClock(NOON_MS)) as store:
            put_old(store)
            await store.flush()
            with pytest.raises(BeingDeleted, match="cannot be deleted"):
                await store.delete_topic("T")
            assert "Permission denied" in caplog.text
            store.put(message(b"other", topic="U"), NOON_MS)
            await store.flush()
            assert any((tmp_path / "consumequeue" / "U" / "0").iterdir()), "others are written"
            assert not tried(store, b"too soon")
            disk.keeps = False
            await store.flush()
            assert store.put(message(b"new"), NOON_MS).queue_offset == 0

    asyncio.run(story())


def test_a_kill_before_the_files_are_deleted_brings_nothing_back(tmp_path):
    """The list of files says that they are to go: whoever opens the store next deletes them."""

    async def story():
        disk = Stubborn()
        store = await open_store(tmp_path, disk=disk, clock=ManualClock(NOON_MS)).__aenter__()
        put_old(store, 25)
        await store.flush()
        with pytest.raises(BeingDeleted):
            await store.delete_topic("T")
        await store.abandon()
        assert len(list((tmp_path / "consumequeue" / "T" / "0").iterdir())) == 3
        async with open_store(tmp_path) as store:
            assert store.bounds("T", 0) == (0, 0)
            assert store.put(message(b"new"), NOON_MS).queue_offset == 0
        async with open_store(tmp_path) as store:
            assert bodies(store) == [b"new"]

    asyncio.run(story())


def test_the_deletion_of_a_topic_that_never_was_changes_nothing(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            put_old(store)
            await store.flush()
            before = (tmp_path / "manifest").read_bytes()
            assert store.bounds("never", 0) == (0, 0)
            await store.delete_topic("never")
            assert (tmp_path / "manifest").read_bytes() == before
            assert len(bodies(store)) == 5

    asyncio.run(story())


def test_what_is_no_queue_file_is_left_alone(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            put_old(store)
            await store.flush()
            (tmp_path / "consumequeue" / "T" / "0" / "copies").mkdir()
            await store.delete_topic("T")
            assert store.put(message(b"new"), NOON_MS).queue_offset == 0
        async with open_store(tmp_path) as store:
            assert bodies(store) == [b"new"]

    asyncio.run(story())


def test_files_that_stay_over_a_restart_close_their_topic_alone(tmp_path, caplog):
    async def story():
        disk = Stubborn()
        store = await open_store(tmp_path, disk=disk, clock=ManualClock(NOON_MS)).__aenter__()
        put_old(store)
        await store.flush()
        with pytest.raises(BeingDeleted):
            await store.delete_topic("T")
        await store.abandon()
        async with open_store(tmp_path, disk=disk) as store:
            assert not tried(store, b"too soon")
            assert store.put(message(b"other", topic="U"), NOON_MS).queue_offset == 0
            disk.keeps = False
            await store.flush()
            assert store.put(message(b"new"), NOON_MS).queue_offset == 0

    asyncio.run(story())


def test_whoever_leaves_keeps_no_old_file_of_the_log(tmp_path):
    async def story(turns):
        folder, never = tmp_path / str(turns), 1 << 40
        async with open_store(
            folder, clock=ManualClock(NOON_MS), flush_interval_consume_queue=never,
            clean_resource_interval=never, mapped_file_size_commit_log=4096,
        ) as store:  # fmt: skip
            for _ in range(100):
                store.put(message(b"x" * 100), NOON_MS)
            await store.flush()
            for path in (folder / "commitlog").iterdir():
                os.utime(path, (1, 1))
            assert store.clean() > 0
            deletion = asyncio.ensure_future(store.delete_topic("never"))
            for _ in range(turns):
                await asyncio.sleep(0)
            deletion.cancel()
            await asyncio.gather(deletion, return_exceptions=True)
            await store.flush()
            oldest = min(path.name for path in (folder / "commitlog").iterdir())
            assert int(oldest) == store.log_bounds[0]

    for turns in range(6):
        asyncio.run(story(turns))


class Dying(WatchedDisk):
    """Takes long to sync the index, and fails."""

    def __init__(self):
        super().__init__()
        self.is_well = True
        self.began, self.may_fail = threading.Event(), threading.Event()

    def before_sync(self, path):
        super().before_sync(path)
        if not self.is_well and path.parent.name == "index":
            self.began.set()
            assert self.may_fail.wait(10)
            raise OSError(errno.EIO, "Input/output error")


def test_whoever_leaves_hides_no_failed_sync(tmp_path):
    async def story():
        disk = Dying()
        store = await open_store(
            tmp_path, disk=disk, clock=ManualClock(NOON_MS), flush_interval_consume_queue=1 << 40
        ).__aenter__()
        store.put(message(b"a", KEYS="k"), NOON_MS)
        disk.is_well = False
        deletion = asyncio.ensure_future(store.delete_topic("other"))
        assert await asyncio.to_thread(disk.began.wait, 10)
        deletion.cancel()
        await asyncio.sleep(0)
        disk.may_fail.set()
        await asyncio.gather(deletion, return_exceptions=True)
        disk.is_well = True
        await store.flush()
        assert read_checkpoint(disk, tmp_path / "checkpoint").index_end == -1
        await store.abandon()

    asyncio.run(story())
