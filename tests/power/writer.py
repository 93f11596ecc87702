"""A process that opens a store, tells what it finds there, and puts messages until it is killed.

    python writer.py FOLDER SYNC|ASYNC FIRST_ID

Lines on its output, each written at once:

    opening
    have TOPIC QUEUE OFFSET ID PHYSICAL     every message it found, by queue and offset
    damaged QUEUE OFFSET                    a place that has none
    state VERSION                           of the state file that is written along; 0 if none
    unfound COUNT [ID PHYSICAL]...          messages that a query by key did not find
    ready
    ack ID QUEUE OFFSET PHYSICAL MS         durable under SYNC, put under ASYNC
    saved VERSION MS                        the state file is durable
    failed MS TEXT                          the store does not open, or takes no more
"""

import asyncio
import json
import os
import sys
import time
import zlib
from functools import partial
from itertools import count
from pathlib import Path

from cometmq.disk import RealDisk
from cometmq.errors import Malformed, WorldError
from cometmq.protocol.hosts import Host
from cometmq.protocol.message import unpack_records
from cometmq.protocol.properties import encode_properties
from cometmq.seams import RealClock
from cometmq.store.config import FlushDiskType, StoreConfig
from cometmq.store.message_store import MessageStore
from cometmq.store.new_message import NewMessage
from cometmq.store.state_file import StateFile

TOPIC, QUEUES, SENDERS = "Power", 4, 8
FLUSH_MS = 50
LOG_FILE_SIZE, QUEUE_FILE_SIZE = 256 << 10, 300 * 20


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def body_of(number):
    """Known from the number alone; now and then a large one."""
    size = 20_000 if number % 211 == 0 else number * 7919 % 600
    return b"%d " % number + bytes([97 + number % 26]) * size


def message_of(number):
    properties = {"KEYS": f"k{number}", "TAGS": f"tag{number % 3}"}
    return NewMessage(
        topic=TOPIC, queue_id=number % QUEUES, body=body_of(number),
        properties_text=encode_properties(properties),
    )  # fmt: skip


def config_of(folder, mode):
    return StoreConfig(
        store_path_root_dir=str(folder / "store"),
        flush_disk_type=FlushDiskType.SYNC_FLUSH if mode == "SYNC" else FlushDiskType.ASYNC_FLUSH,
        mapped_file_size_commit_log=LOG_FILE_SIZE,
        mapped_file_size_consume_queue=QUEUE_FILE_SIZE,
        max_hash_slot_num=500,
        max_index_num=2000,
        flush_interval_commit_log=FLUSH_MS,
        flush_commit_log_least_pages=0,
        flush_interval_consume_queue=70,
    )


def parse_state(content):
    try:
        version, crc, filler = json.loads(content)
    except ValueError as error:
        raise Malformed(str(error)) from error
    if zlib.crc32(filler.encode()) != crc:
        raise Malformed("crc")
    return version


def state_of(version):
    filler = f"{version}," * (version % 50 + 100)
    return json.dumps([version, zlib.crc32(filler.encode()), filler]).encode()


def tell_what_is_there(store):
    lines, places = [], []
    for queue in range(QUEUES):
        offset, end = store.bounds(TOPIC, queue)
        assert offset == 0
        while offset < end:
            found = store.get(TOPIC, queue, offset, 32)
            expected = offset
            for one in (one for view in found.views for one in unpack_records(view)):
                number = int(one.body.split(b" ")[0])
                assert (one.topic, one.queue_id) == (TOPIC, queue)
                assert one.body == body_of(number), "not as it was sent"
                lines += [f"damaged {queue} {hole}\n" for hole in range(expected, one.queue_offset)]
                expected = one.queue_offset + 1
                lines.append(
                    f"have {TOPIC} {queue} {one.queue_offset} {number} {one.physical_offset}\n"
                )
                places.append((number, one.physical_offset))
            lines += [f"damaged {queue} {hole}\n" for hole in range(expected, found.next_offset)]
            offset = found.next_offset
    text = memoryview("".join(lines).encode())
    while text:
        text = text[os.write(1, text) :]
    unfound = [
        place
        for place in places[-200:] + places[::17]
        if place[1]
        not in [one.physical_offset for one in store.query(TOPIC, f"k{place[0]}", 0, 2**62)]
    ]
    tell("unfound", len(unfound), *sum(unfound[:5], ()))


async def send(store, numbers, promise):
    clock = RealClock()
    while True:
        for _ in range(1 if promise else 20):
            number = next(numbers)
            stored = store.put(message_of(number), clock.wall_ms())
            if promise:
                await store.durable(stored)
            place = number % QUEUES, stored.queue_offset, stored.physical_offset
            tell("ack", number, *place, time.monotonic_ns() // 1_000_000)
        if not promise:
            await asyncio.sleep(0.003)


async def save(disk, state, saved):
    for version in count(saved + 1):
        await asyncio.wrap_future(disk.begin(partial(state.write, state_of(version))))
        tell("saved", version, time.monotonic_ns() // 1_000_000)
        await asyncio.sleep(0.01)


async def work(folder, mode, first):
    disk = RealDisk()
    store = MessageStore(config_of(folder, mode), disk, RealClock(), Host("127.0.0.1", 1))
    async with store:
        tell_what_is_there(store)
        state = StateFile(disk, folder / "store" / "config" / "topics.json")
        version = state.read(parse_state) or 0
        tell("state", version)
        tell("ready")
        promise, numbers = mode == "SYNC", count(first)
        senders = [send(store, numbers, promise) for _ in range(SENDERS if promise else 1)]
        try:
            await asyncio.gather(*senders, save(disk, state, version))
        except (WorldError, OSError) as error:
            await fail(error)


async def fail(error):
    tell("failed", time.monotonic_ns() // 1_000_000, repr(error))
    await asyncio.sleep(60)  # for the one who kills us


async def main(folder, mode, first):
    tell("opening")
    try:
        await work(folder, mode, first)
    except (WorldError, OSError) as error:
        await fail(error)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
