"""Two queue folders that were exchanged on disk: consumers got the messages of the other queue.

What is to hold is in docs/disk.md, section 2.
"""

import asyncio
import logging
from pathlib import Path

import pytest

from store.rig import NOON_MS, message, open_store, read_all

QUEUES = [("T", 0), ("T", 1), ("U", 0)]


async def filled(folder: Path) -> None:
    async with open_store(folder) as store:
        for i in range(90):
            topic, queue_id = QUEUES[i % 3]
            one = message(b"%d" % i, topic=topic, queue_id=queue_id, KEYS="k")
            store.put(one, NOON_MS + i)


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


async def bodies(store) -> list[list[int]]:
    return [[int(one.body) for one in read_all(store, *queue)] for queue in QUEUES]


@pytest.mark.parametrize("state", ["clean", "killed", "without a list of files"])
@pytest.mark.parametrize(("one", "other"), [("T/0", "T/1"), ("T/0", "U/0")])
def test_each_queue_serves_its_own_messages(tmp_path, caplog, one, other, state):
    async def story():
        await filled(tmp_path)
        queues = tmp_path / "consumequeue"
        swap(queues / one, queues / other)
        if state == "killed":
            (tmp_path / "abort").touch()
        if state == "without a list of files":
            (tmp_path / "manifest").unlink()
        expected = [list(range(start, 90, 3)) for start in range(3)]
        async with open_store(tmp_path) as store:
            assert await bodies(store) == expected
            assert store.damaged == 0 and store.rebuilds == 2
            for topic, queue_id in QUEUES:
                assert (
                    store.put(message(topic=topic, queue_id=queue_id), NOON_MS).queue_offset == 30
                )
        assert str(queues / one) in caplog.text and str(queues / other) in caplog.text
        caplog.clear()
        async with open_store(tmp_path) as store:
            assert [len(read_all(store, *queue)) for queue in QUEUES] == [31] * 3
        assert not [line for line in caplog.records if line.levelno >= logging.WARNING]

    asyncio.run(story())


def test_a_swap_of_single_files_is_noticed_when_they_are_read(tmp_path):
    async def story():
        await filled(tmp_path)
        queues = tmp_path / "consumequeue"
        swap(queues / "T" / "0" / f"{200:020}", queues / "U" / "0" / f"{200:020}")
        async with open_store(tmp_path) as store:
            for topic, start in (("T", 0), ("U", 2)):
                offset = 0
                while offset < 30:
                    found = store.get(topic, 0, offset, 32)
                    offset = found.next_offset
                    await store.rebuilt()
                got = [int(one.body) for one in read_all(store, topic, 0)]
                assert got == list(range(start, 90, 3))
            assert store.damaged == 0 and store.rebuilds == 2

    asyncio.run(story())
