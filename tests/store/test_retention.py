"""What is deleted, when, and what stays."""

import asyncio
import os

import pytest

from cometmq.errors import DiskFull
from cometmq.store.retention import judge
from cometmq.testing.clock import ManualClock
from store.rig import RoomyDisk, config_of, message, open_store, read_all

HOUR_MS = 3_600_000


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
    verdict = judge(config_of(tmp_path), used, hour, by_hand=by_hand)
    assert (verdict.expired_go, verdict.any_go, verdict.puts_stop) == (
        expired_go, any_go, puts_stop,
    )  # fmt: skip


def test_nothing_goes_by_force_where_that_is_forbidden(tmp_path):
    config = config_of(tmp_path, clean_file_forcibly_enable=False)
    assert not judge(config, 0.99, 3, by_hand=False).any_go


def test_several_hours_may_be_given(tmp_path):
    config = config_of(tmp_path, delete_when="04; 16")
    assert [h for h in range(24) if judge(config, 0.1, h, by_hand=False).expired_go] == [4, 16]


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


def test_the_file_in_use_stays_however_full_the_disk_is(tmp_path):
    async def story(store, disk, clock):
        disk.used = 0.99
        while store.clean():
            pass
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
        bounds.append(store.bounds("T", 0))

    filled(story, tmp_path)

    async def again():
        async with open_store(tmp_path) as store:
            assert store.bounds("T", 0) == bounds[0]

    asyncio.run(again())
