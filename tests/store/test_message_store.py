"""The store as its users see it: put, get, query, close, crash, full and failing disks."""

import asyncio
import time

import pytest

from cometmq.errors import BadState, DiskFull, Malformed, StoreFailed, TooLarge
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import pack_record
from cometmq.store.config import FlushDiskType
from cometmq.store.index.index_file import ENTRIES_A_TURN
from cometmq.store.queue.results import GetStatus
from cometmq.store.recovery.checkpoint import read_checkpoint
from cometmq.testing.clock import ManualClock
from remoting.rig import until
from store.rig import (
    EVER_MS,
    NOON_MS,
    RoomyDisk,
    WatchedDisk,
    bodies,
    message,
    open_store,
    read_all,
)


def keys_of(store, key, topic="T", times=EVER_MS, **limit):
    return [one.body for one in store.query(topic, key, *times, **limit)]


# Put and get


def test_messages_are_found_by_queue_place_and_key(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            stored = [
                store.put(message(b"%d" % i, queue_id=i % 3, KEYS=f"k{i} all", UNIQ_KEY=f"U{i}"), i)
                for i in range(60)
            ]
            for i, place in enumerate(stored):
                one = store.record(place.physical_offset)
                assert (one.body, one.queue_offset, one.stored_ms) == (b"%d" % i, i // 3, i)
                assert place.queue_offset == i // 3
                assert len(pack_record(one)) == place.size
                assert keys_of(store, f"k{i}") == keys_of(store, f"U{i}") == [b"%d" % i]
            for queue_id in range(3):
                expected = [b"%d" % i for i in range(queue_id, 60, 3)]
                assert [one.body for one in read_all(store, "T", queue_id)] == expected
                assert store.bounds("T", queue_id) == (0, 20)
            assert store.log_bounds == (0, stored[-1].end)
            assert len(list((tmp_path / "commitlog").iterdir())) > 1
            assert len(list((tmp_path / "index").iterdir())) > 1

    asyncio.run(story())


def test_a_query_is_newest_first_and_bounded_by_time_and_count(tmp_path):
    async def story():
        async with open_store(tmp_path, max_msgs_num_batch=5) as store:
            for i in range(10):
                store.put(message(b"%d" % i, KEYS="k"), NOON_MS + 400 * i)
                store.put(message(b"other", topic="U", KEYS="k"), NOON_MS + 400 * i)
            assert keys_of(store, "k") == [b"9", b"8", b"7", b"6", b"5"]
            assert keys_of(store, "k", count_max=2) == [b"9", b"8"]
            times = (NOON_MS + 800, NOON_MS + 1600)
            assert keys_of(store, "k", times=times) == [b"4", b"3", b"2"], "by the millisecond"
            assert keys_of(store, "k", topic="V") == keys_of(store, "K") == []

    asyncio.run(story())


HOUR_MS = 3_600_000


def test_the_oldest_of_a_key_that_all_have_are_found_and_others_have_their_turns(tmp_path):
    """However many came after them, and though more come while it searches."""
    count = 150_000
    times = (NOON_MS, NOON_MS + 2)
    sizes = {"mapped_file_size_commit_log": 64 << 20, "mapped_file_size_consume_queue": 6_000_000,
             "max_index_num": count * 2}  # fmt: skip

    async def story():
        async with open_store(tmp_path, **sizes) as store:
            for i in range(3):
                store.put(message(b"%d" % i, KEYS="k"), NOON_MS + i)
            for start in range(0, count, 1000):
                later = [message(KEYS="k") for _ in range(1000)]
                store.put_all(later, NOON_MS + HOUR_MS + start)
            assert keys_of(store, "k", times=times) == [b"2", b"1", b"0"]
            search = asyncio.ensure_future(store.search("T", "k", *times))
            turns = 0
            while not search.done():
                await asyncio.sleep(0)
                store.put(message(b"meanwhile", KEYS="k"), NOON_MS + 1)
                turns += 1
            assert [one.body for one in search.result()] == [b"2", b"1", b"0"]
            assert turns >= count // ENTRIES_A_TURN
            assert len(await store.search("T", "k", *EVER_MS, 7)) == 7
            assert len(await store.search("T", "k", *EVER_MS)) == 64

    asyncio.run(story())


def test_a_search_goes_on_though_the_store_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("cometmq.store.index.index_file.ENTRIES_A_TURN", 1)

    async def story():
        async with open_store(tmp_path) as store:
            for i in range(10):
                store.put(message(b"%d" % i, KEYS="k"), NOON_MS)
            search = asyncio.ensure_future(store.search("T", "k", *EVER_MS))
            await asyncio.sleep(0)
        assert len(await search) <= 10

    asyncio.run(story())


def test_without_an_index_a_query_is_refused_by_name(tmp_path):
    async def story():
        async with open_store(tmp_path, message_index_enable=False) as store:
            store.put(message(KEYS="k"), 1)
            with pytest.raises(BadState, match="messageIndexEnable"):
                store.query("T", "k", *EVER_MS)
        assert not (tmp_path / "index").exists()

    asyncio.run(story())


def test_who_waits_is_told_of_each_message(tmp_path):
    """Of a batch once for each tag, with where the queue ends after it."""
    told = []

    async def story():
        async with open_store(tmp_path, announce=lambda *news: told.append(news)) as store:
            store.put(message(queue_id=2, TAGS="a"), 1)
            store.put_all([message(TAGS="b"), message(), message(TAGS="b")], 1)
            store.put(message(sys_flag=int(MessageFlag.PREPARED)), 1)
            with pytest.raises(TooLarge):
                store.put(message(b"x" * 5000), 1)

    asyncio.run(story())
    assert told == [("T", 2, 1, hash_code("a")), ("T", 0, 3, hash_code("b")), ("T", 0, 3, 0)]


@pytest.mark.parametrize("flag", [MessageFlag.PREPARED, MessageFlag.ROLLBACK])
@pytest.mark.parametrize("crash", [False, True])
def test_unfinished_transactions_are_in_the_log_and_in_no_queue(tmp_path, flag, crash):
    async def story():
        store = await open_store(tmp_path).__aenter__()
        store.put(message(b"a"), 1)
        half = store.put(message(b"half", sys_flag=int(flag)), 1)
        store.put(message(b"b"), 1)
        assert half.queue_offset == 0
        if crash:
            await store.abandon()
        else:
            await store.__aexit__(None, None, None)
        async with open_store(tmp_path) as store:
            assert store.record(half.physical_offset).body == b"half"
            assert [one.body for one in read_all(store)] == [b"a", b"b"]

    asyncio.run(story())


def test_a_batch_is_all_or_nothing_and_in_one_file(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            store.put(message(b"x" * 2500), 1)
            before = store.log_bounds, store.bounds("T", 0)
            for bad in (message(b"y", topic="T" * 128), message(b"y" * 5000)):
                with pytest.raises(TooLarge):
                    store.put_all([message(b"1"), bad, message(b"2")], 1)
                assert (store.log_bounds, store.bounds("T", 0)) == before
                assert store.bounds("T" * 128, 0) == (0, 0)
            stored = store.put_all([message(b"%d" % i + b"y" * 500) for i in range(5)], 1)
            assert [one.queue_offset for one in stored] == [1, 2, 3, 4, 5]
            assert {one.physical_offset // 4096 for one in stored} == {1}, "not torn apart"
            assert len(store.get("T", 0, 1, 5).views) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("big", "said"),
    [
        ({"body": b"x" * 2001}, "body of 2001 bytes.*maxMessageSize.*2000"),
        ({"topic": "t" * 128}, "topic of 128 bytes.*127"),
        ({"colour": "c" * 32768}, "properties of .* bytes.*32767"),
        ({"body": b"x" * 2000, "colour": "c" * 2000}, "does not fit a file of 4096"),
    ],
)
def test_what_is_too_large_is_refused_by_name_and_changes_nothing(tmp_path, big, said):
    async def story():
        async with open_store(tmp_path, max_message_size=2000) as store:
            store.put(message(b"a", KEYS="k"), 1)
            before = store.log_bounds, store.bounds("T", 0), keys_of(store, "k")
            with pytest.raises(TooLarge, match=said):
                store.put(message(**({"KEYS": "k"} | big)), 2)
            assert (store.log_bounds, store.bounds("T", 0), keys_of(store, "k")) == before
            store.put(message(b"b"), 3)
            assert bodies(store.get("T", 0, 0, 9)) == [b"a", b"b"]

    asyncio.run(story())


# Closing, crashing, opening


@pytest.mark.parametrize("crash", [False, True])
def test_everything_is_there_again(tmp_path, crash):
    async def story():
        for round_number in range(4):
            store = await open_store(tmp_path).__aenter__()
            count = round_number * 25
            assert store.bounds("T", 0) == (0, count)
            assert [one.body for one in read_all(store)] == [b"%d" % i for i in range(count)]
            for i in range(count):
                assert keys_of(store, f"k{i}") == [b"%d" % i]
            for i in range(count, count + 25):
                stored = store.put(message(b"%d" % i, KEYS=f"k{i}", TAGS="a"), NOON_MS + i)
                assert stored.queue_offset == i
            if crash:
                await store.abandon()
                assert (tmp_path / "abort").exists()
            else:
                await store.__aexit__(None, None, None)
                assert not (tmp_path / "abort").exists()

    asyncio.run(story())


def test_a_store_is_used_by_one_process_alone(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            with pytest.raises(BadState, match="another process uses this store"):
                await open_store(tmp_path).__aenter__()
            store.put(message(), 1)
        async with open_store(tmp_path) as store:
            assert store.bounds("T", 0) == (0, 1)

    asyncio.run(story())


def test_the_checkpoint_vouches_for_what_is_on_disk(tmp_path):
    disk, clock = WatchedDisk(), ManualClock(NOON_MS)

    async def story():
        async with open_store(tmp_path, disk, clock) as store:
            store.put(message(KEYS="k"), NOON_MS + 5)
            assert read_checkpoint(disk, tmp_path / "checkpoint").log_ms == 0
            await store.flush()
            found = read_checkpoint(disk, tmp_path / "checkpoint")
            assert min(found.log_ms, found.queues_ms) == NOON_MS + 5
            assert found.log_end == found.queues_end == store.log_bounds[1]
            store.put(message(KEYS="k"), NOON_MS + 60_000)
            await store.flush()
            found = read_checkpoint(disk, tmp_path / "checkpoint")
            assert found.log_ms == found.index_ms == NOON_MS + 60_000
            assert found.queues_ms == NOON_MS + 5, "the original makes all keys of the file again"
            assert (tmp_path / "consumequeue" / "T" / "0" / f"{0:020}").exists()

    asyncio.run(story())


def test_what_a_killed_process_wrote_is_synced_before_anything_vouches_for_it(tmp_path):
    """It may be in memory only: a power cut after the restart must not take it from the middle."""

    async def story():
        store = await open_store(tmp_path).__aenter__()
        for i in range(30):
            store.put(message(b"%d" % i + b"x" * 600), NOON_MS + i)
        names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
        assert len(names) > 4
        await store.abandon()
        disk = WatchedDisk()
        async with open_store(tmp_path, disk) as store:
            await store.durable(store.put(message(b"x" * 3000), NOON_MS + 99))
            synced = {path.name for path in disk.synced if path.parent.name == "commitlog"}
            assert synced >= set(names)

    asyncio.run(story())


# Flushes


def test_many_senders_wait_and_one_sync_serves_them(tmp_path):
    disk = WatchedDisk()

    async def story():
        async with open_store(tmp_path, disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as store:
            assert store.promises_disk
            store.put(message(), 1)
            await store.flush()
            disk.synced.clear()
            disk.may_sync.clear()
            begun = disk.syncs_begun
            waiting = [store.durable(store.put(message(), 1)) for _ in range(10)]
            await until(lambda: disk.syncs_begun > begun, "a sync of the first ten")
            waiting += [store.durable(store.put(message(), 1)) for _ in range(10)]
            await asyncio.sleep(0.05)
            assert not any(one.done() for one in waiting)
            disk.may_sync.set()
            await asyncio.gather(*waiting)
            logs = [path for path in disk.synced if path.parent.name == "commitlog"]
            assert len(logs) == 2, "ten each"

    asyncio.run(story())


def test_timed_flushes(tmp_path):
    """Enough pages at the interval, a single byte at the thorough one."""
    disk, clock = WatchedDisk(), ManualClock(NOON_MS)

    def log_syncs():
        found = len([path for path in disk.synced if path.parent.name == "commitlog"])
        disk.synced.clear()
        return found

    async def pass_time(ms):
        await clock.advance(ms)
        for _ in range(10):  # threads need real time, and one piece of work may follow another
            await until(lambda: not disk.is_busy, "an end of the disk's work")
            await asyncio.sleep(0.002)
        await clock.advance(0)

    async def story():
        async with open_store(
            tmp_path, disk, clock, mapped_file_size_commit_log=1 << 20,
            flush_interval_consume_queue=3_600_000,
        ) as store:  # fmt: skip
            log_syncs()
            store.put(message(b"x"), 1)
            await pass_time(600)
            assert log_syncs() == 0, "fewer than four pages"
            store.put(message(b"x" * 4 * 4096), 1)
            await pass_time(500)
            assert log_syncs() == 1
            store.put(message(b"x"), 1)
            for _ in range(18):
                await pass_time(500)
            assert log_syncs() == 0
            for _ in range(4):
                await pass_time(500)
            assert log_syncs() == 1

    asyncio.run(story())


def test_a_close_waits_for_a_flush_that_is_under_way(tmp_path):
    """Two at a time would write the same files, and their temp files, in any order."""

    class SlowDisk(RoomyDisk):
        active = most = 0

        def write_all(self, writes):
            self.active += 1
            self.most = max(self.most, self.active)
            time.sleep(0.1)
            super().write_all(writes)
            self.active -= 1

    disk = SlowDisk()

    async def story():
        async with open_store(tmp_path, disk, flush_interval_consume_queue=1) as store:
            store.put(message(), 1)
            while not disk.active:
                await asyncio.sleep(0.001)

    asyncio.run(story())
    assert disk.most == 1
    assert not (tmp_path / "abort").exists()


def test_a_close_during_a_timed_flush_of_the_log(tmp_path):
    disk = WatchedDisk()

    async def story():
        store = await open_store(
            tmp_path, disk, flush_interval_commit_log=1, flush_commit_log_least_pages=0
        ).__aenter__()
        disk.may_sync.clear()
        store.put(message(), 1)
        await asyncio.sleep(0.05)  # the timer waits for its sync
        closing = asyncio.create_task(store.__aexit__(None, None, None))
        await asyncio.sleep(0.05)
        disk.may_sync.set()
        assert await asyncio.gather(closing, return_exceptions=True) == [None]
        assert not (tmp_path / "abort").exists()

    asyncio.run(story())


# A disk that fails


def test_after_a_failed_sync_the_store_is_read_only(tmp_path):
    disk = WatchedDisk()

    async def story():
        store = await open_store(tmp_path, disk).__aenter__()
        good = store.put(message(b"good", KEYS="k"), 1)
        await store.durable(good)
        disk.fails_to_sync = True
        waiting = [store.durable(store.put(message(b"lost?"), 1)) for _ in range(5)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, StoreFailed) for result in results)
        disk.fails_to_sync = False
        end = store.log_bounds
        for put in (store.put, lambda one, now: store.put_all([one], now)):
            with pytest.raises(StoreFailed, match="until restarted"):
                put(message(), 1)
        with pytest.raises(StoreFailed):
            await store.durable(good)
        assert store.log_bounds == end
        assert bodies(store.get("T", 0, 0, 1)) == [b"good"], "reads go on"
        assert keys_of(store, "k") == [b"good"]
        await store.__aexit__(None, None, None)
        assert (tmp_path / "abort").exists(), "that was no clean stop"
        async with open_store(tmp_path) as again:
            assert bodies(again.get("T", 0, 0, 1)) == [b"good"]
            await again.durable(again.put(message(b"more"), 1))

    asyncio.run(story())


def test_a_sender_that_gives_up_does_not_stop_the_timers(tmp_path):
    disk = WatchedDisk()

    async def story():
        async with open_store(tmp_path, disk, flush_interval_commit_log=1,
                              flush_commit_log_least_pages=0) as store:  # fmt: skip
            disk.may_sync.clear()
            stored = store.put(message(), 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.durable(stored), 0.1)
            disk.may_sync.set()
            await until(lambda: store._flusher.flushed >= stored.end, "a timed flush")
            stored = store.put(message(), 2)
            await until(lambda: store._flusher.flushed >= stored.end, "another one")
            await store.durable(stored)
            again = store.put(message(), 1)
            await until(lambda: store._flusher.flushed >= again.end, "another one")

    asyncio.run(story())


@pytest.mark.parametrize("keys", [{}, {"KEYS": "k"}])
def test_a_full_disk_is_told_and_left_when_there_is_room(tmp_path, keys):
    disk = WatchedDisk()

    async def story():
        async with open_store(tmp_path, disk) as store:
            for i in range(3):
                store.put(message(b"%d" % i, **keys), i)
            disk.room = 0
            count, full = 3, None
            for i in range(3, 99):
                try:
                    store.put(message(b"%d" % i + b" " * 300, **keys), i)
                except DiskFull as error:
                    full = error
                    break
                count += 1
            assert "No space left" in str(full)
            for _ in range(3):
                with pytest.raises(DiskFull):
                    store.put(message(b" " * 3000, **keys), 1)
            assert store.bounds("T", 0) == (0, count)
            assert len(read_all(store)) == count
            disk.room = None
            store.put(message(b"after" + b" " * 3000, **keys), 1)
            assert [one.body.split(b" ")[0] for one in read_all(store)] == [
                b"%d" % i for i in range(count)
            ] + [b"after"]
            await store.flush()
        async with open_store(tmp_path) as store:
            assert len(read_all(store)) == count + 1
            if keys:
                assert len(keys_of(store, "k")) == min(count + 1, 32)

    asyncio.run(story())


def test_a_batch_is_none_when_the_index_has_no_room(tmp_path):
    disk = WatchedDisk()

    async def story():
        async with open_store(tmp_path, disk, mapped_file_size_commit_log=1 << 16) as store:
            for i in range(15):  # of 19 entries
                store.put(message(b"%d" % i, KEYS=f"k{i}"), i)
            disk.room = 0
            before = store.log_bounds, store.bounds("T", 0)
            with pytest.raises(DiskFull):
                store.put_all([message(b"x", KEYS=f"b{i}") for i in range(8)], 1)
            assert (store.log_bounds, store.bounds("T", 0)) == before

    asyncio.run(story())


def test_a_batch_that_outgrows_the_index_is_undone_in_the_index_too(tmp_path):
    disk = WatchedDisk()

    async def story():
        async with open_store(tmp_path, disk, mapped_file_size_commit_log=1 << 16) as store:
            store.put(message(b"first", KEYS="first"), 1)
            disk.room = 2
            before = store.log_bounds, store.bounds("T", 0)
            with pytest.raises(DiskFull):
                store.put_all([message(b"x", KEYS=f"b{i}") for i in range(80)], 1)
            assert (store.log_bounds, store.bounds("T", 0)) == before
            disk.room = None
            store.put(message(b"next", KEYS="next"), 1)
            found = [keys_of(store, key) for key in ("first", "b0", "b70", "next")]
            assert found == [[b"first"], [], [], [b"next"]]

    asyncio.run(story())


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_number_that_does_not_fit_changes_nothing(tmp_path, at):
    async def story():
        async with open_store(tmp_path) as store:
            store.put(message(b"first", KEYS="first"), 1)
            before = store.log_bounds, store.bounds("T", 0)
            many = [message(b"b%d" % i, KEYS=f"b{i}") for i in range(3)]
            many[at] = message(b"bad", sys_flag=2**31, KEYS="bad")
            for refused in (lambda: store.put_all(many, 1), lambda: store.put(many[at], 1)):
                with pytest.raises(Malformed, match="does not fit"):
                    refused()
                assert (store.log_bounds, store.bounds("T", 0)) == before
            end = store.log_bounds[1]
            assert not any((tmp_path / "commitlog" / f"{0:020}").read_bytes()[end:])
            store.put(message(b"next", KEYS="next"), 1)
            found = [keys_of(store, key) for key in ("first", "b0", "bad", "next")]
            assert found == [[b"first"], [], [], [b"next"]]

    asyncio.run(story())


def test_a_batch_and_single_puts_leave_the_same_bytes(tmp_path):
    prepared = int(MessageFlag.PREPARED)
    many = [
        message(b"a" * i, sys_flag=prepared if i == 2 else 0, TAGS=f"t{i}", KEYS=f"k{i} l m")
        for i in range(5)
    ]

    async def story(folder, put):
        async with open_store(folder, clock=ManualClock(NOON_MS)) as store:
            stored = put(store)
            units = store.get("T", 0, 0, 32)
            return stored, [bytes(view) for view in units.views], store.bounds("T", 0)

    one = asyncio.run(story(tmp_path / "one", lambda store: [store.put(m, 1) for m in many]))
    all_ = asyncio.run(story(tmp_path / "all", lambda store: [*store.put_all(many, 1)]))
    assert one == all_
    for kind in ("commitlog", "consumequeue", "index"):
        files = [path for path in (tmp_path / "one" / kind).rglob("*") if path.is_file()]
        assert files
        for path in files:
            same = tmp_path / "all" / path.relative_to(tmp_path / "one")
            assert path.read_bytes() == same.read_bytes(), path


def test_an_ipv6_store(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            for born in (Host("::1", 1), Host("10.0.0.1", 2)):
                stored = store.put(message(b"x", born_host=born), 1)
                assert store.record(stored.physical_offset).born_host == born

    asyncio.run(story())


def test_reading_nothing_makes_nothing(tmp_path):
    async def story():
        async with open_store(tmp_path) as store:
            assert store.get("nobody", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
            assert store.query("nobody", "k", *EVER_MS) == []
            assert store.record(0) is None
        assert not (tmp_path / "consumequeue").exists()

    asyncio.run(story())
