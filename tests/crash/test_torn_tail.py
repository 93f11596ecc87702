"""The last record is truncated or garbled at every byte: it is whole or gone, others survive.

Properties have no CRC: garbage in them is not detected, but zeros are, and a new log file contains
only zeros. COMETMQ_TORN_STEP is the distance between cuts in bytes; 1 cuts at every byte.

docs/disk.md, section 1, states the guarantees.
"""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from cometmq.protocol.records.properties import encode_properties
from cometmq.store.log.new_message import NewMessage
from cometmq.testing.clock import ManualClock
from crash.rig import (
    HOSTS,
    QUEUES,
    START_MS,
    History,
    Sent,
    check,
    open_store,
    put,
    read_all,
    running,
    settled,
)
from crash.shadow_disk import ShadowDisk

STEP = int(os.environ.get("COMETMQ_TORN_STEP", "7"))
LOG = Path("/store/commitlog") / f"{0:020}"
BODIES = [b"", b"x", bytes(40), b"\xff" * 40, Random(1).randbytes(150)]
TEXTS = [
    "",
    encode_properties({"UNIQ_KEY": "last"}),
    encode_properties({"UNIQ_KEY": "last", "KEYS": "some keys", "TAGS": "tag"}),
    encode_properties({"UNIQ_KEY": "last", "colour": "green " * 20}),
]
SHAPES = [(body, text) for body in BODIES for text in TEXTS]
assert len(SHAPES) == 20
pytestmark = pytest.mark.timeout(3600)


async def written(body: bytes, text: str, number: int) -> tuple[ShadowDisk, History]:
    """Write messages that are on disk and a last one that is not."""
    disk, history, chance = ShadowDisk(), History(), Random(number)
    store = open_store(disk, ManualClock())
    await store.__aenter__()
    while len(history.sent) < 5 + number % 4:
        put(store, history, chance, START_MS)
    await store.flush()
    history.promised = len(history.sent)
    topic, queue_id = QUEUES[number % len(QUEUES)]
    last = NewMessage(
        topic=topic, queue_id=queue_id, body=body, properties_text=text, born_host=HOSTS[number % 2]
    )
    stored = store.put(last, START_MS + 5)
    assert stored.end < 4096, "in the first file"
    history.sent.append(Sent(last, "last", stored))
    await store.abandon()
    return disk.kill(), history


def fills(size: int, older: bytes, chance: Random) -> dict[str, bytes]:
    return {
        "zeros": bytes(size),
        "ff": b"\xff" * size,
        "noise": chance.randbytes(size),
        "older": older.ljust(size, b"\0")[:size],
    }


async def look(disk: ShadowDisk, history: History, is_strict: bool) -> None:
    last = history.sent[-1]
    async with running(disk, START_MS + 10) as store:
        found = read_all(store)
        if len(found) == len(history.sent) and not is_strict:
            assert found[-1].body == last.message.body
            found.pop()
        elif len(found) == len(history.sent):
            assert found[-1].body == last.message.body
            assert found[-1].properties_text == last.message.properties_text
        offsets = [sent.stored.physical_offset for sent in history.sent]
        assert [message.physical_offset for message in found] == offsets[: len(found)]
        assert len(found) >= history.promised
        after = History(history.sent[: history.promised], serial=1000)
        if len(read_all(store)) == history.promised:
            stored = put(store, after, Random(1), START_MS + 11)
            await settled(disk, store.durable(stored))
            check(store, after, Random(1))


def tear(number: int, step: int) -> int:
    """Cut a record at regular distances. Returns the number of cuts."""

    async def story() -> int:
        disk, history = await written(*SHAPES[number], number)
        content = disk.read(LOG)
        last, older = history.sent[-1].stored, history.sent[-2].stored
        start, end = last.physical_offset, last.end
        before = content[older.physical_offset : older.end]
        cuts = 0
        for cut in range(start, end, step):
            for name, rest in fills(end - cut, before[cut - start :], Random(cut)).items():
                torn = disk.kill()
                torn.overwrite(LOG, content[:cut] + rest + content[end:])
                try:
                    await look(torn, history, name == "zeros")
                except Exception as error:
                    raise AssertionError(f"{name} from byte {cut - start} on: {error!r}") from error
                cuts += 1
        return cuts

    return asyncio.run(story())


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_torn_last_record_is_whole_or_gone(number):
    print(f"shape {number}: {tear(number, STEP)} cuts")
