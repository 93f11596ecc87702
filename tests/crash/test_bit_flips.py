"""One flipped bit anywhere in a log: it costs at most its own message, and is told if it can be.

What no crc and no check covers cannot be noticed: flag, sys flag (but for its host bits), born,
born host, stored, store host, reconsume times, prepared offset, properties, and the letters of a
topic. Those flips must still cost no other message. COMETMQ_FLIPS says how many flips are tried.
"""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from cometmq.errors import Malformed
from cometmq.protocol.message import HEADS, StoredMessage, body_crc, unpack_records
from cometmq.testing.clock import ManualClock
from cometmq.testing.shadow_disk import ShadowDisk
from crash.rig import QUEUES, START_MS, History, Sent, open_store, put, running, settled

FLIPS = int(os.environ.get("COMETMQ_FLIPS", "3000"))
LOG = Path("/store/commitlog")
FILE_SIZE = 4096
pytestmark = pytest.mark.timeout(7200)


async def written(seed: int, clean: bool) -> tuple[ShadowDisk, History]:
    """A store of several log files, stopped cleanly, or killed right after a checkpoint."""
    disk, history, chance = ShadowDisk(), History(), Random(seed)
    store = open_store(disk, ManualClock())
    await store.__aenter__()
    for number in range(40):
        put(store, history, chance, START_MS + 200 * number)
    if clean:
        await settled(disk, asyncio.ensure_future(store.__aexit__()))
    else:
        await store.flush()
        await store.abandon()
    return disk.kill(), history


def covered(sent: Sent, disk: ShadowDisk) -> set[int]:
    """The bytes of a record whose every flip must be noticed when the walk meets it."""
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


def parsed(views: tuple[memoryview, ...], walked: bool) -> list[StoredMessage]:
    """What a reader makes of an answer: one that does not check the crc."""
    try:
        return list(unpack_records(b"".join(views), check_crc=False))
    except Malformed:
        assert not walked, "a damaged record is served"
        return []


async def look(disk: ShadowDisk, history: History, victim: Sent, byte: int, walked: bool) -> None:
    by_offset = {sent.stored.physical_offset: sent for sent in history.sent}
    async with running(disk, START_MS + 60_000) as store:
        told = any(
            bad.offset <= victim.stored.physical_offset < bad.offset + bad.size
            for bad in store.recovered.bad
        )
        if walked and byte in covered(victim, disk):
            assert told, "not noticed"
        seen: set[int] = set()
        for topic, queue_id in QUEUES:
            offset, end = store.bounds(topic, queue_id)
            while offset < end:
                got = store.get(topic, queue_id, offset, 1)
                for message in parsed(got.views, walked):
                    place = message.physical_offset
                    if offset == victim.stored.queue_offset and place not in by_offset:
                        continue  # its own place is what was flipped
                    sent = by_offset[place]
                    seen.add(place)
                    if sent is victim:
                        ok = message.body == sent.message.body
                        assert ok or body_crc(message.body) != body_crc(sent.message.body)
                        assert ok or not walked, "a bad body is served"
                    else:
                        assert message.body == sent.message.body
                        assert message.queue_offset == sent.stored.queue_offset == offset
                offset = got.next_offset
        lost = by_offset.keys() - seen - {victim.stored.physical_offset}
        assert not lost, f"{len(lost)} others are lost: {[by_offset[at].key for at in lost]}"
        now = put(store, History(serial=10_000), Random(byte), START_MS + 60_000)
        assert store.record(now.physical_offset) is not None, "it goes on"


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("again", [False, True], ids=["checkpoint", "no checkpoint"])
def test_a_flip_costs_no_other_message(clean, again):
    """Without a checkpoint the whole log is walked, and all queues are made again."""

    async def story() -> None:
        chance = Random(f"{clean} {again}")
        tried = seed = 0
        while tried < FLIPS / 4:
            disk, history = await written(seed, clean)
            if again:
                disk.delete(Path("/store/checkpoint"))
                disk.replace(Path("/store/abort"), b"")
            seed += 1
            last_file = history.sent[-1].stored.physical_offset // FILE_SIZE
            for victim in history.sent[1:-1]:
                places = range(victim.stored.size * 8)
                some = places if FLIPS >= 100_000 else chance.sample(places, 20)
                for place in some:
                    offset = victim.stored.physical_offset + place // 8
                    walked = again or (clean and offset // FILE_SIZE == last_file)
                    try:
                        await look(
                            flipped(disk, offset, place % 8), history, victim, place // 8, walked
                        )
                    except Exception as error:
                        raise AssertionError(
                            f"seed {seed - 1}, {victim.key} of {victim.stored}, byte {place // 8} "
                            f"bit {place % 8}: {error!r}"
                        ) from error
                    tried += 1
        print(f"{tried} flips in {seed} logs")

    asyncio.run(story())
