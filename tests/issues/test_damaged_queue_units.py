"""Damaged units of a queue file hid messages from consumers, and nothing was reported.

What is to hold is in docs/disk.md, section 2.
"""

import asyncio
import logging
from pathlib import Path
from random import Random

import pytest

from cometmq.store.found import GetStatus
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
        got += [int(one.body) for view in found.views for one in unpack_all(view)]
        assert found.next_offset > offset
        offset = found.next_offset
    return got


def unpack_all(view):
    from cometmq.protocol.message import unpack_records

    return unpack_records(view)


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
