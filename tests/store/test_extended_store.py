"""A store whose queues have extensions: whatever happens, each unit has its code, time and bits.

What is to hold is in docs/disk.md, section 2.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest

from cometmq.store.message_store import MessageStore
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk
from store.rig import HOST, config_of, message

FOLDER = Path("/store")
QUEUES = 3
SETTINGS = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 20 * 50,
    "enable_consume_queue_ext": True,
    "mapped_file_size_consume_queue_ext": 1024,
    "message_index_enable": False,
}


def coder(topic, text, tag_code, stored_ms):
    """Bits that only this message has."""
    return ExtendedCode(tag_code, stored_ms, text.encode()[-14:])


def open_store(disk, clock):
    return MessageStore(config_of(FOLDER, **SETTINGS), disk, clock, HOST, coder=coder)


def check(store):
    """Each message by its queue, and what the extension says of it; how many there are."""
    count = 0
    for queue_id in range(QUEUES):
        first, end = store.bounds("T", queue_id)
        for offset in range(first, end):
            (unit,) = store.units("T", queue_id, offset, 1)
            record = store.record(unit.physical_offset)
            assert (record.queue_id, record.queue_offset) == (queue_id, offset)
            expected = coder("T", record.properties_text, unit.code, record.stored_ms)
            assert isinstance(unit.code, ExtendedCode)
            assert (unit.code.stored_ms, unit.code.bits) == (expected.stored_ms, expected.bits)
            count += 1
    return count


def put(store, number, stored_ms):
    text = f"{number:014}"
    store.put(message(b"x" * (number % 50), queue_id=number % QUEUES, number=text), stored_ms)


@pytest.mark.parametrize("seed", range(40))
def test_any_history(seed):
    async def story():
        chance, clock, disk = Random(seed), ManualClock(), ShadowDisk()
        number = durable = 0
        for _ in range(6):
            store = await open_store(disk, clock).__aenter__()
            count = check(store)
            assert durable <= count <= number
            number = durable = count
            for _ in range(chance.randrange(60)):
                clock.jump(chance.randrange(3))
                put(store, number, clock.wall_ms())
                number += 1
                if chance.random() < 0.1:
                    await store.flush()
                    durable = number
            assert check(store) == number
            match chance.choice(["close", "kill", "cut", "cut"]):
                case "close":
                    await store.__aexit__()
                    durable = number
                case "kill":
                    await store.abandon()
                    disk = disk.kill()
                    durable = number
                case "cut":
                    await store.abandon()
                    disk = disk.crash(chance)

    asyncio.run(story())


def test_old_files_go_with_the_log():
    async def story():
        clock, disk = ManualClock(), ShadowDisk()
        disk.wall_ms = clock.wall_ms
        async with open_store(disk, clock) as store:
            for number in range(600):
                put(store, number, clock.wall_ms())
            await store.flush()
            folder = FOLDER / "consumequeue_ext" / "T" / "0"
            before = disk.names(folder)
            clock.jump(100 * 3_600_000)
            assert store.clean() > 0
            await clock.advance(20_000)
            await store.flush()
            left = disk.names(folder)
            assert 0 < len(left) < len(before)
            assert left == before[-len(left) :]
            assert check(store) > 0

    asyncio.run(story())
