"""A process that opens a store, tells what it finds there, and puts messages until it is killed.

    python writer.py FOLDER SYNC|ASYNC FIRST_ID [--small] [--idle] [--flush-ms MS]

With --small files are small, and all but the newest log files are cleaned all the time. With --idle
it opens the store, reports, and sends nothing.

Lines on its output, each written at once:

    opening
    bounds QUEUE FIRST END                  min and max offset of each queue it found
    have TOPIC QUEUE OFFSET ID PHYSICAL     every message it found, by queue and offset
    damaged QUEUE OFFSET                    a place that has none
    unfound [ID PHYSICAL]...                messages that a query by key did not find
    log START                               where the log begins
    state VERSION                           of the state file that is written along; 0 if none
    ready
    began clean|log|queue|index MS          starts deleting a log file, or making a file
    ended clean|log|queue|index MS
    cleaned START MS                        log files before START are dropped
    ack ID QUEUE OFFSET PHYSICAL MS         durable under SYNC, put under ASYNC
    saved VERSION MS                        the state file is durable
    failed MS TEXT                          the store does not open, or takes no more
"""

import argparse
import asyncio
import json
import os
import threading
import time
import zlib
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from cometmq.disk import RealDisk
from cometmq.errors import Malformed, WorldError
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.seams import RealClock
from cometmq.store.config import FlushDiskType, StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.state_file import StateFile

TOPIC, QUEUES, SENDERS = "Power", 4, 8
FLUSH_MS = 50
LOG_FILE_SIZE, QUEUE_FILE_SIZE = 256 << 10, 300 * 20
SMALL_LOG_FILE_SIZE, SMALL_QUEUE_FILE_SIZE = 32 << 10, 25 * 20
SMALL_INDEX = {"max_hash_slot_num": 50, "max_index_num": 200}
KEPT_FILES = 2  # with --small: older log files are cleaned
CLEAN_S = 0.01  # between two cleanings
RARE = 101  # with --small, queue 3 gets one message of so many: often all of its are cleaned

_output = threading.Lock()  # files are made and deleted on other threads


def write(text):
    with _output:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(1, left) :]


def tell(*words):
    write(" ".join(map(str, words)) + "\n")


def now_ms():
    return time.monotonic_ns() // 1_000_000


class AgingDisk(RealDisk):
    """Reports what the campaign counts. Log files before `old_before` are old, others are new.

    The file system always has room: no other file is cleaned.
    """

    def __init__(self):
        super().__init__()
        self.old_before = 0

    def used_ratio(self, folder):
        return 0.1

    def modified_ms(self, path):
        end = int(path.name) + path.stat().st_size
        return 0 if end <= self.old_before else RealClock().wall_ms()

    def create(self, path, size):
        with reported("log" if path.parent.name == "commitlog" else "index"):
            return super().create(path, size)

    def write_all(self, writes):
        with reported("queue" if any(not path.exists() for path, *_ in writes) else ""):
            super().write_all(writes)

    def delete(self, path):
        is_log = path.parent.name == "commitlog" and path.exists()
        with reported("clean" if is_log else ""):
            super().delete(path)


@contextmanager
def reported(kind):
    if kind:
        tell("began", kind, now_ms())
    yield
    if kind:
        tell("ended", kind, now_ms())


def body_of(number):
    """Known from the number alone; now and then a large one."""
    size = 20_000 if number % 211 == 0 else number * 7919 % 600
    return b"%d " % number + bytes([97 + number % 26]) * size


def queue_of(number, is_small):
    if not is_small:
        return number % QUEUES
    return QUEUES - 1 if number % RARE == 0 else number % (QUEUES - 1)


def message_of(number, queue):
    properties = {"KEYS": f"k{number}", "TAGS": f"tag{number % 3}"}
    return NewMessage(
        topic=TOPIC, queue_id=queue, body=body_of(number),
        properties_text=encode_properties(properties),
    )  # fmt: skip


def config_of(options):
    sizes = {
        "mapped_file_size_commit_log": LOG_FILE_SIZE,
        "mapped_file_size_consume_queue": QUEUE_FILE_SIZE,
        "max_hash_slot_num": 500,
        "max_index_num": 2000,
    }
    if options.small:
        sizes["mapped_file_size_commit_log"] = SMALL_LOG_FILE_SIZE
        sizes["mapped_file_size_consume_queue"] = SMALL_QUEUE_FILE_SIZE
        sizes |= SMALL_INDEX
    is_sync = options.mode == "SYNC"
    return StoreConfig(
        store_path_root_dir=str(options.folder / "store"),
        flush_disk_type=FlushDiskType.SYNC_FLUSH if is_sync else FlushDiskType.ASYNC_FLUSH,
        flush_interval_commit_log=FLUSH_MS,
        flush_commit_log_least_pages=0,
        flush_interval_consume_queue=options.flush_ms,
        delete_when="",
        clean_resource_interval=3_600_000,
        **sizes,
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


def tell_what_is_there(store, every_key):
    lines, places = [], []
    for queue in range(QUEUES):
        offset, end = store.bounds(TOPIC, queue)
        lines.append(f"bounds {queue} {offset} {end}\n")
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
            assert found.next_offset > offset, f"queue {queue} stops at {offset} of {end}"
            offset = found.next_offset
    write("".join(lines))
    tell("unfound", *sum(unfound(store, places if every_key else places[-200:] + places[::17]), ()))
    tell("log", store.log_bounds[0])


def unfound(store, places):
    return [
        (number, physical)
        for number, physical in places
        if physical
        not in [one.physical_offset for one in store.query(TOPIC, f"k{number}", 0, 2**62)]
    ]


async def send(store, numbers, options):
    clock = RealClock()
    promise = options.mode == "SYNC"
    while True:
        for _ in range(1 if promise else 20):
            number = next(numbers)
            queue = queue_of(number, options.small)
            stored = store.put(message_of(number, queue), clock.wall_ms())
            if promise:
                await store.durable(stored)
            tell("ack", number, queue, stored.queue_offset, stored.physical_offset, now_ms())
        if not promise:
            await asyncio.sleep(0.003)


async def clean(store, disk):
    """The newest files stay. What is dropped is told before any of it is deleted."""
    while True:
        await asyncio.sleep(CLEAN_S)
        before, end = store.log_bounds
        disk.old_before = end - KEPT_FILES * SMALL_LOG_FILE_SIZE
        store.clean()
        start = store.log_bounds[0]
        if start > before:
            assert start <= disk.old_before, "a new file was cleaned"
            tell("cleaned", start, now_ms())


async def save(disk, state, saved):
    for version in count(saved + 1):
        await asyncio.wrap_future(disk.begin(partial(state.write, state_of(version))))
        tell("saved", version, now_ms())
        await asyncio.sleep(0.01)


async def work(options):
    disk = AgingDisk() if options.small else RealDisk()
    store = MessageStore(config_of(options), disk, RealClock(), Host("127.0.0.1", 1))
    async with store:
        tell_what_is_there(store, options.small)
        state = StateFile(disk, options.folder / "store" / "config" / "topics.json")
        version = state.read(parse_state) or 0
        tell("state", version)
        tell("ready")
        if options.idle:
            await asyncio.sleep(60)  # until we are killed
            return
        numbers = count(options.first)
        senders = SENDERS if options.mode == "SYNC" else 1
        tasks = [send(store, numbers, options) for _ in range(senders)]
        tasks += [clean(store, disk)] if options.small else []
        try:
            await asyncio.gather(*tasks, save(disk, state, version))
        except (WorldError, OSError) as error:
            await fail(error)


async def fail(error):
    tell("failed", now_ms(), repr(error))
    await asyncio.sleep(60)  # for the one who kills us


async def main(options):
    tell("opening")
    try:
        await work(options)
    except (WorldError, OSError) as error:
        await fail(error)


def parsed_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=["SYNC", "ASYNC"])
    parser.add_argument("first", type=int)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--flush-ms", type=int, default=70)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parsed_options()))
