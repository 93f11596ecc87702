"""What is deleted, when, and what stays.

What is to hold is in docs/disk.md, section 7.
"""

import asyncio
import os
from itertools import pairwise

import pytest

from cometmq.errors import DiskFull
from cometmq.store.retention import QUEUES_A_TURN, plan_cleaning
from cometmq.testing.clock import ManualClock
from store.rig import UNHURRIED, RoomyDisk, WatchedDisk, config_of, message, open_store, read_all

HOUR_MS = 3_600_000
ROUND_MS = 10_000
FILE_SIZE = 4096


@pytest.mark.parametrize(
    ("used", "hour", "by_hand", "expired_go", "any_go", "puts_stop"),
    [
        (0.10, 3, False, False, False, False),
        (0.10, 4, False, True, False, False),
        (0.10, 3, True, True, False, False),
        (0.75, 3, False, False, False, False),
        (0.76, 3, False, True, False, False),
        (0.86, 3, False, True, True, False),
        (0.91, 3, False, True, True, True),
    ],
)
def test_the_rule(tmp_path, used, hour, by_hand, expired_go, any_go, puts_stop):
    plan = plan_cleaning(config_of(tmp_path), used, hour, by_hand=by_hand)
    assert (plan.expired_go, plan.any_go, plan.puts_stop) == (
        expired_go, any_go, puts_stop,
    )  # fmt: skip


def test_nothing_goes_by_force_where_that_is_forbidden(tmp_path):
    config = config_of(tmp_path, clean_file_forcibly_enable=False)
    assert not plan_cleaning(config, 0.99, 3, by_hand=False).any_go


def test_several_hours_may_be_given(tmp_path):
    config = config_of(tmp_path, delete_when="04; 16")
    assert [h for h in range(24) if plan_cleaning(config, 0.1, h, by_hand=False).expired_go] == [
        4,
        16,
    ]


class Disk(RoomyDisk):
    """As full as a test says."""

    used = 0.1

    def used_ratio(self, folder):
        return self.used


def filled(story, tmp_path, **changes):
    """Run a story on a store whose log has several files."""

    async def told():
        disk, clock = Disk(), ManualClock(1_700_000_000_000)
        async with open_store(tmp_path, disk=disk, clock=clock, **changes) as store:
            for i in range(60):
                store.put(message(b"x" * 300, KEYS=f"k{i}"), clock.wall_ms())
            await store.flush()
            await story(store, disk, clock)

    asyncio.run(told())


def age(tmp_path, count, hours, clock):
    """Make the oldest files of the log look so old."""
    for path in sorted((tmp_path / "commitlog").iterdir())[:count]:
        moment = (clock.wall_ms() - hours * HOUR_MS) / 1000
        os.utime(path, (moment, moment))


def test_files_past_their_time_go_and_what_points_into_them(tmp_path):
    async def story(store, disk, clock):
        files = len(list((tmp_path / "commitlog").iterdir()))
        assert files > 4
        for path in (tmp_path / "commitlog").iterdir():
            os.utime(path, (clock.wall_ms() / 1000,) * 2)
        age(tmp_path, 2, 73, clock)
        held = store.get("T", 0, 0, 1).views[0]
        before = bytes(held)
        assert store.clean() == 2
        await store.flush()
        assert bytes(held) == before, "a reader that holds a view keeps it"
        assert len(list((tmp_path / "commitlog").iterdir())) == files - 2
        first, end = store.bounds("T", 0)
        assert 0 < first < end == 60
        assert [one.queue_offset for one in read_all(store)] == list(range(first, end))
        assert store.query("T", "k0", 0, 2**62) == []
        assert len(store.query("T", f"k{first}", 0, 2**62)) == 1
        assert store.record(0) is None
        assert store.clean() == 0

    filled(story, tmp_path)


def test_by_hand_all_go_that_are_past_their_time_some_at_each_round(tmp_path):
    async def story(store, disk, clock):
        for _ in range(100):
            store.put(message(b"x" * 300), clock.wall_ms())
        await store.flush()
        files = len(list((tmp_path / "commitlog").iterdir()))
        assert 12 < files <= 21
        age(tmp_path, files, 73, clock)
        assert store.clean() == 10
        await clock.advance(ROUND_MS)
        start, end = store.log_bounds
        assert end - start <= FILE_SIZE, "the one in use is left"

    filled(
        story, tmp_path,
        clean_resource_interval=ROUND_MS, mapped_file_size_commit_log=FILE_SIZE,
    )  # fmt: skip


DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("by_hand", [False, True])
def test_no_file_goes_for_its_age_when_the_clock_jumped_ahead(tmp_path, caplog, by_hand):
    """Not for a day, but by hand; then it may have been a machine that slept."""

    async def story(store, disk, clock):
        age(tmp_path, 100, 1, clock)
        await clock.advance(HOUR_MS)
        await store.flush()  # lists where the queue ends: no write is due while days pass
        clock.jump(100 * DAY_MS)
        await clock.advance(HOUR_MS)
        assert "jumped 2400.0 hours ahead" in caplog.text
        caplog.clear()
        await clock.advance(DAY_MS - 1)
        assert store.log_bounds[0] == 0 and caplog.text == "", "told once, and deleteWhen was there"
        if by_hand:
            store.clean()
        else:
            await clock.advance(DAY_MS)
        assert store.log_bounds[0] > 0

    filled(story, tmp_path, **UNHURRIED)


def test_a_clock_that_goes_or_is_set_by_less_is_believed(tmp_path):
    async def story(store, disk, clock):
        age(tmp_path, 2, 71.5, clock)
        clock.jump(-DAY_MS)
        await clock.advance(ROUND_MS)
        clock.jump(HOUR_MS)
        await clock.advance(ROUND_MS)
        age(tmp_path, 2, 71.5, clock)
        clock.jump(HOUR_MS)
        assert store.clean() == 2

    filled(story, tmp_path, clean_resource_interval=ROUND_MS)


def test_a_full_disk_is_cleaned_though_the_clock_jumped(tmp_path):
    async def story(store, disk, clock):
        clock.jump(DAY_MS)
        disk.used = 0.86
        assert store.clean() > 0

    filled(story, tmp_path)


def test_the_file_in_use_stays_however_full_the_disk_is(tmp_path):
    async def story(store, disk, clock):
        disk.used = 0.99
        while store.clean():
            await store.flush()
        assert len(list((tmp_path / "commitlog").iterdir())) == 1
        with pytest.raises(DiskFull, match="90 %"):
            store.put(message(b"y"), clock.wall_ms())
        assert read_all(store), "reads go on"
        disk.used = 0.5
        store.clean()
        store.put(message(b"y"), clock.wall_ms())

    filled(story, tmp_path)


def test_first_and_end_are_the_same_after_a_restart(tmp_path):
    bounds = []

    async def story(store, disk, clock):
        age(tmp_path, 3, 100, clock)
        store.clean()
        await store.flush()
        bounds.append(store.bounds("T", 0))

    filled(story, tmp_path)

    async def again():
        async with open_store(tmp_path) as store:
            assert store.bounds("T", 0) == bounds[0]

    asyncio.run(again())


class SlowDisk(WatchedDisk):
    """Syncs wait until they may, as on a slow disk; files count as old at once."""

    def modified_ms(self, path):
        return 0


def test_a_file_is_never_closed_while_it_is_synced(tmp_path):
    """Neither of the log nor of the index: the sync would fail, and the store be read-only."""

    async def story():
        disk = SlowDisk()
        async with open_store(tmp_path, disk=disk) as store:
            disk.may_sync.clear()
            for i in range(60):
                stored = store.put(message(b"x" * 300, KEYS=f"k{i}"), i)
            flush = asyncio.ensure_future(store.flush())
            promise = store.durable(stored)
            await asyncio.sleep(0.05)  # a sync of all files of the log is under way
            assert store.clean() == 0, "what may have to be synced stays"
            disk.may_sync.set()
            await promise
            assert store.clean() == 0, "its units and keys are not on disk yet"
            await flush
            for i in range(60, 90):
                store.put(message(b"x" * 300, KEYS=f"k{i}"), i)
            disk.may_sync.clear()
            flush = asyncio.ensure_future(store.flush())
            await asyncio.sleep(0.05)  # a sync is in flight, of the log's end and then of the index
            assert store.clean() > 3
            disk.may_sync.set()
            await flush
            await store.flush()
            assert len(list((tmp_path / "commitlog").iterdir())) == len(store._log.files)
            assert len(list((tmp_path / "index").iterdir())) == len(store._index.files)
            await store.durable(store.put(message(b"y"), 90))
        assert not (tmp_path / "abort").exists(), "it was closed cleanly"

    asyncio.run(story())


# Many queues


QUEUES = 50  # of a topic each
UNITS_A_FILE = 10


class CountingDisk(Disk):
    """Knows how often it was asked for what is in files or folders of queues."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def read_at(self, path, offset, size):
        self.asked += 1
        return super().read_at(path, offset, size)

    def names(self, folder):
        self.asked += "consumequeue" in folder.parts
        return super().names(folder)

    def size(self, path):
        self.asked += "consumequeue" in path.parts
        return super().size(path)


async def many_queues(tmp_path, clock, messages):
    """A store with so many messages in each queue, and then more of another, all old."""
    async with open_store(tmp_path, clock=clock) as store:
        for _ in range(messages):
            for topic in range(QUEUES):
                store.put(message(b"x", topic=f"T{topic}"), clock.wall_ms())
        while store.log_bounds[1] < (store.log_bounds[1] // 4096 + 1) * 4096 - 400:
            store.put(message(b"y" * 300, topic="Other"), clock.wall_ms())
        for _ in range(20):
            store.put(message(b"y" * 300, topic="Other"), clock.wall_ms())
    age(tmp_path, 1000, 100, clock)


def test_queues_of_one_file_are_not_looked_at(tmp_path):
    """Neither those that are not loaded, nor those whose units are in memory."""

    async def story():
        clock, disk = ManualClock(1_700_000_000_000), CountingDisk()
        await many_queues(tmp_path, clock, UNITS_A_FILE - 1)
        async with open_store(tmp_path, disk=disk, clock=clock) as store:
            await asyncio.sleep(0)  # its own cleaning was before ours
            for topic in range(0, QUEUES, 2):
                store.put(message(b"x", topic=f"T{topic}"), clock.wall_ms())
            disk.asked = 0
            while store.clean():
                await store._retention.sweep()
            loaded = QUEUES // 2
            assert disk.asked <= loaded * 5, "by bisection, of those that are loaded"
            asked = disk.asked
            await store.flush()
            bounds = [store.bounds(f"T{topic}", 0) for topic in range(QUEUES)]
            assert bounds == [(9, 10), (9, 9)] * loaded
            assert asked < disk.asked, "the others are looked at when they are used"

    asyncio.run(story())


READS_OF_A_QUEUE_MAX = 20  # to load it, and to find where it begins


def test_queues_that_are_not_loaded_are_so_only_if_a_file_goes(tmp_path):
    async def story():
        clock, disk = ManualClock(1_700_000_000_000), CountingDisk()
        await many_queues(tmp_path, clock, UNITS_A_FILE * 2 + 5)
        async with open_store(tmp_path, disk=disk, clock=clock) as store:
            await asyncio.sleep(0)  # its own cleaning was before ours
            disk.asked = 0
            assert store.clean() > 0
            for paths in store._queues.forget_before(1):
                assert paths == []
            assert disk.asked <= QUEUES + 1, "none loses a file: one look at each"
            while store.clean():
                pass
            await store._retention.sweep()
            assert disk.asked <= (QUEUES + 1) * READS_OF_A_QUEUE_MAX
            await store.flush()
            for topic in range(QUEUES):
                files = sorted((tmp_path / "consumequeue" / f"T{topic}" / "0").iterdir())
                assert [path.name for path in files] == [f"{400:020}"], "the last says where it is"
                assert store.bounds(f"T{topic}", 0) == (25, 25)
        async with open_store(tmp_path, clock=clock) as store:
            assert store.recovered.redispatched == 0
            assert store.bounds("T1", 0) == (25, 25)

    asyncio.run(story())


def test_others_have_their_turn_while_queues_are_swept(tmp_path):
    """However many there are: what is done at a stretch stays the same."""

    async def story():
        clock, disk = ManualClock(1_700_000_000_000), CountingDisk()
        await many_queues(tmp_path, clock, UNITS_A_FILE * 2 + 5)
        async with open_store(tmp_path, disk=disk, clock=clock) as store:
            await asyncio.sleep(0)  # its own cleaning was before ours
            while store.clean():
                pass
            assert store.bounds("T3", 0) == (25, 25), "before it is swept"
            disk.asked = 0
            asked_by_turn = [0]
            sweep = asyncio.ensure_future(store._retention.sweep())
            while not sweep.done():
                await asyncio.sleep(0)
                asked_by_turn.append(disk.asked)
                store.put(message(b"meanwhile", topic="T3"), clock.wall_ms())
            stretches = [b - a for a, b in pairwise(asked_by_turn)]
            assert max(stretches) <= QUEUES_A_TURN * READS_OF_A_QUEUE_MAX
            assert len(stretches) >= QUEUES // QUEUES_A_TURN
            await store.flush()
            first, end = store.bounds("T3", 0)
            assert first == 25
            assert len(read_all(store, "T3")) == end - first == len(stretches)
            oldest = min((tmp_path / "consumequeue" / "T3" / "0").iterdir())
            assert oldest.name == f"{400:020}", "though it was looked at before it was swept"

    asyncio.run(story())


@pytest.mark.parametrize("loaded", [False, True])
def test_a_queue_whose_files_are_gone_keeps_no_other_from_being_swept(tmp_path, caplog, loaded):
    async def story():
        clock = ManualClock(1_700_000_000_000)
        await many_queues(tmp_path, clock, 2_000 // QUEUES)
        async with open_store(tmp_path, clock=clock) as store:
            assert not loaded or store.bounds("T5", 0)[1] == 40
            for path in (tmp_path / "consumequeue" / "T5" / "0").iterdir():
                path.unlink()
            while store.clean():
                await store.flush()
            left = [
                len(list((tmp_path / "consumequeue" / f"T{n}" / "0").iterdir())) for n in (4, 6)
            ]
            assert left == [1, 1]
        assert loaded or "what is old of queue 0 of T5 stays" in caplog.text

    asyncio.run(story())
