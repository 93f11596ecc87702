"""A table and its file: what was changed before a save is on disk after it."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from broker.whole import FOLDER, at_broker
from cometmq.broker.tables.table_file import KeptTable
from cometmq.errors import BadState
from cometmq.protocol.bodies.tables import GroupConfig, KeyValues
from crash.shadow_disk import ShadowDisk

PATH = Path("/store/config/table.json")


class Table:
    """A number, and the file it is kept in."""

    def __init__(self, disk):
        self.number = 0
        self.file = KeptTable(disk, PATH, lambda: KeyValues(table={"n": str(self.number)}))

    def set(self, number):
        self.number = number
        self.file.changed()


def kept(disk):
    found = KeptTable(disk, PATH, KeyValues).read(KeyValues)
    return None if found is None else int(found.table["n"])


async def turns(count=10):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_save_survives_a_power_cut():
    async def story():
        disk = ShadowDisk()
        table = Table(disk)
        assert kept(disk) is None
        table.set(1)
        assert not table.file.is_saved
        await table.file.save()
        assert table.file.is_saved
        assert kept(disk.crash(Random(1))) == 1

    asyncio.run(story())


def test_an_unchanged_table_is_not_written():
    async def story():
        disk = ShadowDisk()
        table = Table(disk)
        await table.file.save()
        assert disk.steps == 0
        table.set(1)
        await table.file.save()
        steps = disk.steps
        await table.file.save()
        assert disk.steps == steps

    asyncio.run(story())


def test_savers_share_a_write_and_none_returns_before_its_own_change_is_there():
    async def story():
        disk = ShadowDisk()
        table = Table(disk)
        disk.hold()
        table.set(1)
        first = [asyncio.create_task(table.file.save()) for _ in range(3)]
        await turns()
        table.set(2)  # the first write has begun, and holds 1
        second = asyncio.create_task(table.file.save())
        await turns()
        disk.release()
        await turns()
        assert all(task.done() for task in first)
        assert not second.done()
        assert kept(disk) == 1
        disk.release()
        await second
        assert kept(disk) == 2

    asyncio.run(story())


def test_a_saver_that_is_cancelled_costs_the_others_nothing():
    async def story():
        disk = ShadowDisk()
        table = Table(disk)
        disk.hold()
        table.set(1)
        gone, stays = (asyncio.create_task(table.file.save()) for _ in range(2))
        await turns()
        gone.cancel()
        await turns()
        disk.release()
        await stays
        assert gone.cancelled()
        assert kept(disk) == 1

    asyncio.run(story())


def test_a_failed_write_is_raised_and_retried():
    async def story():
        disk = ShadowDisk()
        table = Table(disk)
        table.set(1)
        await table.file.save()
        disk.room = 0
        table.set(2)
        with pytest.raises(OSError, match="No space"):
            await table.file.save()
        assert not table.file.is_saved
        assert kept(disk) == 1
        disk.room = None
        await table.file.save()
        assert kept(disk) == 2

    asyncio.run(story())


def test_a_torn_file_gives_way_to_the_one_before_it_and_two_are_told():
    async def story():
        disk = ShadowDisk()
        table = Table(disk)
        for number in (1, 2):
            table.set(number)
            await table.file.save()
        disk.overwrite(PATH, b'{"table":{"n"')
        assert kept(disk) == 1
        disk.overwrite(PATH.with_name("table.json.bak"), b"")
        with pytest.raises(BadState, match=r"table\.json"):
            kept(disk)

    asyncio.run(story())


def test_a_broker_saves_topics_and_groups_again_if_that_failed():
    async def story(whole):
        whole.disk.room = 0
        whole.make_topic("New")
        whole.groups.keep(GroupConfig(group_name="newcomers"))
        await turns()
        assert not whole.topics.file.is_saved
        assert not whole.groups.file.is_saved
        whole.disk.room = None
        await whole.clock.advance(5_000)
        assert whole.topics.file.is_saved
        assert whole.groups.file.is_saved
        assert b"New" in whole.disk.read(FOLDER / "config/topics.json")

    at_broker(story)
