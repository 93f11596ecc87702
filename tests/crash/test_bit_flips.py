"""A flipped bit anywhere in a log loses at most its own message and is detected where possible.

Fields without a CRC or another check cannot be verified: flag, sys flag (except its host bits),
born, born host, stored, store host, reconsume times, prepared offset, properties, and the letters
of a topic. Flips in them must still not affect other messages. COMETMQ_FLIPS sets the number of
flips, or "all" for every bit of 200 records.

docs/disk.md, section 1, states the guarantees.
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

from cometmq.protocol.records.message import HEADS, unpack_records
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import GetStatus
from cometmq.testing.clock import ManualClock
from crash.rig import FILE_SIZE, QUEUES, START_MS, History, Sent, open_store, put, running, settled
from crash.shadow_disk import ShadowDisk

FLIPS = os.environ.get("COMETMQ_FLIPS", "3000")
RECORDS = 200  # whose every bit is flipped, where all are wanted
A_LOG = 9  # records of each
LOG = Path("/store/commitlog")
pytestmark = pytest.mark.timeout(7200)


async def written(seed: int, clean: bool) -> tuple[ShadowDisk, History]:
    """Write a store of two log files that is stopped cleanly or killed right after a checkpoint."""
    disk, history, chance = ShadowDisk(), History(), Random(seed)
    store = open_store(disk, ManualClock())
    await store.__aenter__()
    for number in range(A_LOG):
        if number == A_LOG // 2:
            fill_the_file(store, history)
        put(store, history, chance, START_MS + 200 * number)
    if clean:
        await settled(disk, asyncio.ensure_future(store.__aexit__()))
    else:
        await store.flush()
        await store.abandon()
    return disk.kill(), history


def fill_the_file(store: MessageStore, history: History) -> None:
    room = FILE_SIZE - store.log_bounds[1] % FILE_SIZE
    if room > 300:
        message = NewMessage(topic="Bills", queue_id=0, body=b"f" * (room - 200))
        history.sent.append(Sent(message, "filler", store.put(message, START_MS)))


def victims_of(history: History) -> list[Sent]:
    return [sent for sent in history.sent[1:-1] if sent.key != "filler"]


def covered(sent: Sent, disk: ShadowDisk) -> set[int]:
    """Return the bytes of a record in which the log walk must detect every flip."""
    head = HEADS[1 if sent.message.born_host.is_v6 else 0]
    body_at = head.size
    sizes_and_offset = {*range(4), *range(4, 8), *range(8, 12), *range(28, 36)}
    body = set(range(body_at - 4, body_at + len(sent.message.body) + 1))  # sizes on both sides
    topic_end = body_at + len(sent.message.body) + 1 + len(sent.message.topic)
    return sizes_and_offset | body | {topic_end, topic_end + 1}


def flipped(disk: ShadowDisk, offset: int, bit: int) -> ShadowDisk:
    other = disk.kill()
    path = LOG / f"{offset // FILE_SIZE * FILE_SIZE:020}"
    content = bytearray(other.read(path))
    content[offset % FILE_SIZE] ^= 1 << bit
    other.overwrite(path, bytes(content))
    return other


async def look(disk: ShadowDisk, history: History, victim: Sent, byte: int, walked: bool) -> None:
    by_offset = {sent.stored.physical_offset: sent for sent in history.sent}
    async with running(disk, START_MS + 60_000) as store:
        told = any(
            bad.offset <= victim.stored.physical_offset < bad.offset + bad.size
            for bad in store.recovered.bad
        )
        if walked and byte in covered(victim, disk):
            assert told, "the flip was not detected"
        seen: set[int] = set()
        for topic, queue_id in QUEUES:
            offset, end = store.bounds(topic, queue_id)
            while offset < end:
                got = store.get(topic, queue_id, offset, 1)
                if got.status is GetStatus.REBUILDING:
                    await store.rebuilt()
                    continue
                # Like a reader that does not check the CRC.
                for message in unpack_records(b"".join(got.views), check_crc=False):
                    place = message.physical_offset
                    if offset == victim.stored.queue_offset and place not in by_offset:
                        continue  # its own place is what was flipped
                    sent = by_offset[place]
                    seen.add(place)
                    assert message.body == sent.message.body, "a bad body is served"
                    if sent is victim:
                        assert byte not in covered(victim, disk), "a damaged record is served"
                    else:
                        assert message.queue_offset == sent.stored.queue_offset == offset
                offset = got.next_offset
        lost = by_offset.keys() - seen - {victim.stored.physical_offset}
        assert not lost, f"{len(lost)} others are lost: {[by_offset[at].key for at in lost]}"
        now = put(store, History(serial=10_000), Random(byte), START_MS + 60_000)
        assert store.record(now.physical_offset) is not None, "the store accepts messages"


def prepared(seed: int, clean: bool, again: bool) -> tuple[ShadowDisk, History]:
    disk, history = asyncio.run(written(seed, clean))
    if again:
        disk.delete(Path("/store/checkpoint"))
        disk.replace(Path("/store/abort"), b"")
    return disk, history


async def flip(
    disk: ShadowDisk,
    history: History,
    victim: Sent,
    places: Iterable[int],
    clean: bool,
    again: bool,
) -> int:
    """Flip each of these bits of a record in turn. Returns their number."""
    last_file = history.sent[-1].stored.physical_offset // FILE_SIZE
    count = 0
    for place in places:
        offset = victim.stored.physical_offset + place // 8
        walked = again or (clean and offset // FILE_SIZE == last_file)
        other = flipped(disk, offset, place % 8)
        try:
            await look(other, history, victim, place // 8, walked)
        except Exception as error:
            at = f"{victim.key} of {victim.stored}, byte {place // 8} bit {place % 8}"
            raise AssertionError(f"{at}: {error!r}") from error
        count += 1
    return count


def flip_some(clean: bool, again: bool, flips: int) -> None:
    """Flip twenty bits of each record, one log after another."""
    chance = Random(f"{clean} {again}")
    tried = seed = 0
    while tried < flips:
        disk, history = prepared(seed, clean, again)
        for victim in victims_of(history):
            some = chance.sample(range(victim.stored.size * 8), 20)
            tried += asyncio.run(flip(disk, history, victim, some, clean, again))
        seed += 1
    print(f"{tried} flips in {seed} logs")


def flip_all(seed: int, clean: bool, again: bool) -> tuple[int, int]:
    """Flip every bit of a log's records. Returns the numbers of bits and records."""
    logging.disable(logging.CRITICAL)
    disk, history = prepared(seed, clean, again)
    victims = victims_of(history)
    flips = 0
    for victim in victims:
        every = range(victim.stored.size * 8)
        flips += asyncio.run(flip(disk, history, victim, every, clean, again))
    return flips, len(victims)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("again", [False, True], ids=["checkpoint", "no checkpoint"])
def test_bit_flips_lose_no_other_message(clean, again):
    """Without a checkpoint, the whole log is walked and all queues are rebuilt.

    With one, the log is not walked, and damage is detected by reads.
    """
    if FLIPS != "all":
        flip_some(clean, again, int(FLIPS) // 4)
        return
    flips = records = 0
    first = seed = 1000 * (2 * clean + again)  # other records in each of the four
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        while records < RECORDS / 4:
            one_of_each = partial(flip_all, clean=clean, again=again)
            for some, of in pool.map(one_of_each, range(seed, seed + workers)):
                flips, records = flips + some, records + of
            seed += workers
    print(f"{flips} flips: every bit of {records} records in {seed - first} logs")
