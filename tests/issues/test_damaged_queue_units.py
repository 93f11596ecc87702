"""Damaged units of a queue file hid messages from consumers, and nothing was reported.

What is to hold is in docs/disk.md, section 2.
"""

import asyncio
import logging
from pathlib import Path
from random import Random

import pytest

from cometmq.protocol.java.values import hash_code
from cometmq.protocol.names import HALF_TOPIC
from cometmq.protocol.records.message import unpack_records
from cometmq.store.queue.results import GetStatus
from store.rig import NOON_MS, message, open_store, read_all

COUNT = 600
FILE_SIZE = {"mapped_file_size_consume_queue": 20 * 1000}


async def filled(folder: Path, **settings) -> None:
    async with open_store(folder, **FILE_SIZE, **settings) as store:
        for i in range(COUNT):
            store.put(message(b"%d" % i, queue_id=i % 2, TAGS="ab"[i % 3 == 0]), NOON_MS + i)


def queue_file(folder: Path, queue_id: int = 0) -> Path:
    return folder / "consumequeue" / "T" / str(queue_id) / f"{0:020}"


def overwrite(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


async def consumed(store, queue_id: int = 0, **filters) -> list[int]:
    """What a consumer gets that reads again where units are being rebuilt."""
    offset, end = store.bounds("T", queue_id)
    got: list[int] = []
    while offset < end:
        found = store.get("T", queue_id, offset, 32, **filters)
        if found.status is GetStatus.REBUILDING:
            assert found.next_offset == offset
            await store.rebuilt()
            continue
        got += [int(one.body) for view in found.views for one in unpack_records(view)]
        assert found.next_offset > offset
        offset = found.next_offset
    return got


DAMAGE = {
    "zeros": lambda chance, data: bytes(len(data)),
    "garbage": lambda chance, data: chance.randbytes(len(data)),
    "ones": lambda chance, data: b"\xff" * len(data),
    "moved": lambda chance, data: data[20:] + data[:20],
    "repeated": lambda chance, data: data[:20] * (len(data) // 20),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(("first", "count"), [(0, 20), (100, 1), (120, 100), (0, 300), (250, 50)])
def test_all_messages_are_consumed(tmp_path, caplog, kind, first, count):
    async def story():
        await filled(tmp_path)
        path = queue_file(tmp_path)
        whole = path.read_bytes()
        data = whole[first * 20 : (first + count) * 20]
        overwrite(path, first * 20, DAMAGE[kind](Random(1), data))
        if path.read_bytes() == whole:
            return
        async with open_store(tmp_path, **FILE_SIZE) as store:
            assert await consumed(store) == list(range(0, COUNT, 2))
            assert await consumed(store, 1) == list(range(1, COUNT, 2))
            assert store.damaged == 0, "the log is not to blame"
            assert store.rebuilds >= 1
        assert str(path) in caplog.text
        assert path.read_bytes() == whole, "the units are as they were"
        caplog.clear()
        async with open_store(tmp_path, **FILE_SIZE) as store:
            assert [int(one.body) for one in read_all(store)] == list(range(0, COUNT, 2))
            assert store.rebuilds == store.damaged == 0
        assert not [line for line in caplog.records if line.levelno >= logging.WARNING]

    asyncio.run(story())


@pytest.mark.parametrize("bit", range(0, 96, 5))
def test_a_flipped_bit_is_blamed_on_the_unit(tmp_path, bit):
    """Of the physical offset or the size, in the middle of a queue."""

    async def story():
        await filled(tmp_path)
        path = queue_file(tmp_path)
        byte = path.read_bytes()[150 * 20 + bit // 8]
        overwrite(path, 150 * 20 + bit // 8, bytes([byte ^ 1 << bit % 8]))
        async with open_store(tmp_path, **FILE_SIZE) as store:
            assert await consumed(store) == list(range(0, COUNT, 2))
            assert (store.damaged, store.rebuilds) == (0, 1)

    asyncio.run(story())


def test_a_consumer_by_tag_gets_all_of_its_messages(tmp_path):
    async def story():
        await filled(tmp_path)
        overwrite(queue_file(tmp_path), 100 * 20, bytes(100 * 20))
        async with open_store(tmp_path, **FILE_SIZE) as store:
            wanted = await consumed(store, wants_tag=lambda code: code == hash_code("b"))
            assert wanted == list(range(0, COUNT, 6))

    asyncio.run(story())


def test_a_damaged_record_is_still_blamed_on_the_log(tmp_path, caplog):
    """Also one whose head is gone, so that only a walk tells who is to blame."""

    async def story():
        await filled(tmp_path)
        path = tmp_path / "commitlog" / f"{0:020}"
        content = path.read_bytes()
        first = len(content[: content.index(b"TAGS")])  # somewhere in the first record
        start = content.index(b"\xda\xa3\x20\xa7", first) - 4  # magic of the second one
        start = content.index(b"\xda\xa3\x20\xa7", start + 8) - 4  # of the third: queue 0
        overwrite(path, start, bytes(30))
        async with open_store(tmp_path, **FILE_SIZE) as store:
            assert await consumed(store) == [i for i in range(0, COUNT, 2) if i != 2]
            assert (store.damaged, store.rebuilds) == (1, 0)
        assert f"bytes of the log at {start} are bad" in caplog.text

    asyncio.run(story())


def test_the_loop_is_not_held_while_a_long_stretch_is_rebuilt(tmp_path):
    async def story():
        await filled(tmp_path)
        overwrite(queue_file(tmp_path), 20, bytes(298 * 20))
        async with open_store(tmp_path, **FILE_SIZE) as store:
            turns = 0
            assert store.get("T", 0, 5, 1).status is GetStatus.REBUILDING
            while not store._rebuild.idle.is_set():
                await asyncio.sleep(0)
                turns += 1
            assert turns >= COUNT // 256, "others had their turn"

    asyncio.run(story())


def test_who_waits_is_woken(tmp_path):
    async def story():
        await filled(tmp_path)
        overwrite(queue_file(tmp_path), 100 * 20, bytes(50 * 20))
        announced = []
        async with open_store(
            tmp_path, announce=lambda *place: announced.append(place), **FILE_SIZE
        ) as store:
            assert store.get("T", 0, 120, 8).status is GetStatus.REBUILDING
            assert store.units("T", 0, 120, 8) == [], "nor are units given"
            await store.rebuilt()
            assert announced == [("T", 0, 300, 0)]
            assert store.get("T", 0, 120, 8).count == 8

    asyncio.run(story())


def test_units_of_half_messages_are_rebuilt_before_they_are_read(tmp_path):
    async def story():
        async with open_store(tmp_path, **FILE_SIZE) as store:
            for i in range(100):
                store.put(message(b"%d" % i, topic=HALF_TOPIC), NOON_MS + i)
        path = tmp_path / "consumequeue" / HALF_TOPIC / "0" / f"{0:020}"
        overwrite(path, 20 * 20, bytes(30 * 20))
        async with open_store(tmp_path, **FILE_SIZE) as store:
            store.check_units(HALF_TOPIC, 0, 0)
            bodies = [store.message(HALF_TOPIC, 0, offset).body for offset in range(100)]
            assert bodies == [b"%d" % i for i in range(100)]

    asyncio.run(story())


def test_a_stretch_is_bounded_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.setattr("cometmq.store.queue.unit_rebuild._UNITS_MAX", 64)

    async def story():
        await filled(tmp_path)
        path = queue_file(tmp_path)
        whole = path.read_bytes()
        overwrite(path, 20, bytes(298 * 20))
        async with open_store(tmp_path, **FILE_SIZE) as store:
            assert store.get("T", 0, 150, 1).status is GetStatus.REBUILDING
            await store.rebuilt()
            units = path.read_bytes()
            assert units[: 100 * 20] != whole[: 100 * 20], "too far before the requested unit"
            assert units[150 * 20 : 160 * 20] == whole[150 * 20 : 160 * 20]
            assert await consumed(store) == list(range(0, COUNT, 2))
        assert path.read_bytes() == whole

    asyncio.run(story())
