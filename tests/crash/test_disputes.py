"""Bit flips in the queue or offset of a record, which then claims the place of another message.

Tests every order of a few records in two queues whose names differ in one bit. Each record in turn
is flipped into the other queue or into the place of its neighbor. However the queues are rebuilt,
all other messages are served once, at their own offsets, after this start and the next one. They
are found by their keys if the topic is the same.

docs/disk.md, section 1, states the guarantees.
"""

import asyncio
from itertools import product
from pathlib import Path

import pytest

from cometmq.protocol.records.message import HEADS, unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.store.log.new_message import NewMessage
from cometmq.testing.clock import ManualClock
from crash.rig import FOREVER_MS, START_MS, open_store, rebuild, running, settled
from crash.shadow_disk import ShadowDisk

LOG = Path("/store/commitlog/00000000000000000000")
QUEUE_ID_END, QUEUE_OFFSET_END = 15, 27
TOPIC_END = HEADS[0].size + 1 + 1 + 1  # a body of one byte, the topic's size, its first letter
PAIRS = {  # of queues, and the byte whose lowest bit is flipped
    "queue ids": (("T0", 0), ("T0", 1), QUEUE_ID_END),
    "topics": (("T0", 0), ("T1", 0), TOPIC_END),
    "queue offsets": (("T0", 0), ("T0", 1), QUEUE_OFFSET_END),
}
LONGEST = 4
ORDERS = [order for count in range(2, LONGEST + 1) for order in product((0, 1), repeat=count)]


def message_of(number, queue):
    topic, queue_id = queue
    text = encode_properties({"UNIQ_KEY": f"id{number}"})
    return NewMessage(topic=topic, queue_id=queue_id, body=b"%d" % number, properties_text=text)


async def written(order, pair, clean):
    """Return the disk and the position of each message."""
    disk = ShadowDisk()
    store = open_store(disk, ManualClock())
    await store.__aenter__()
    places = [
        store.put(message_of(number, pair[which]), START_MS) for number, which in enumerate(order)
    ]
    if clean:
        await settled(disk, asyncio.ensure_future(store.__aexit__()))
    else:
        await store.flush()
        await store.abandon()
    return disk.kill(), places


def forget_checkpoint(disk):
    disk.delete(Path("/store/checkpoint"))
    disk.replace(Path("/store/abort"), b"")


def forget_queues(disk):
    forget_checkpoint(disk)
    for topic in disk.names(Path("/store/consumequeue")):
        for queue_id in disk.names(Path("/store/consumequeue") / topic):
            folder = Path("/store/consumequeue") / topic / queue_id
            for name in disk.names(folder):
                disk.delete(folder / name)


FORGET = {
    "checkpoint": lambda disk: None,
    "no checkpoint": forget_checkpoint,
    "no queues": forget_queues,
}


def flip(disk, offset):
    content = bytearray(disk.read(LOG))
    content[offset] ^= 1
    disk.overwrite(LOG, bytes(content))


def served(store, pair):
    """Return each message and the offset at which it was found."""
    for topic, queue_id in pair:
        offset, end = store.bounds(topic, queue_id)
        while offset < end:
            got = store.get(topic, queue_id, offset, 1)
            for message in unpack_records(b"".join(got.views)):
                yield offset, message
            offset = got.next_offset


def check(store, pair, places, victim, are_known):
    """Check the served messages. Offsets may differ if the list of queues is lost."""
    numbers = []
    for offset, message in served(store, pair):
        number = int(message.body)
        numbers.append(number)
        if number == victim:
            continue
        assert message.queue_offset == offset
        assert offset == places[number].queue_offset or not are_known
        if pair[0][0] == pair[1][0]:
            assert len(store.query("T0", f"id{number}", 0, FOREVER_MS)) == 1, "by its key"
    assert len(set(numbers)) == len(numbers), "no message is served twice"
    assert set(range(len(places))) - set(numbers) <= {victim}


async def look(disk, pair, places, victim, forget):
    """Check that all others are served, also after more puts and another rebuild."""
    FORGET[forget](disk)
    are_known = forget != "no queues"
    async with running(disk, START_MS + 60_000) as store:
        await rebuild(store, pair)
        check(store, pair, places, victim, are_known)
        more = [
            store.put(message_of(len(places) + which, queue), START_MS + 60_000)
            for which, queue in enumerate(pair)
        ]
    for forget_again in (FORGET["checkpoint"], FORGET[forget]):
        disk = disk.kill()
        forget_again(disk)
        async with running(disk, START_MS + 120_000) as store:
            await rebuild(store, pair)
            check(store, pair, places + more, victim, are_known)


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize("forget", FORGET)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_record_claiming_another_place_loses_no_other_message(names, forget, clean):
    *pair, byte = PAIRS[names]

    async def story():
        for order in ORDERS:
            disk, places = await written(order, pair, clean)
            for victim, place in enumerate(places):
                other = disk.kill()
                flip(other, place.physical_offset + byte)
                try:
                    await look(other, pair, places, victim, forget)
                except AssertionError as error:
                    raise AssertionError(f"number {victim} of {order}: {error}") from error

    asyncio.run(story())
