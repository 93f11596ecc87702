"""A store written by one is opened, read and continued by the other, both ways."""

import asyncio
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from cometmq.disk import RealDisk
from cometmq.protocol.compression import decompress
from cometmq.protocol.hosts import Host
from cometmq.protocol.message import unpack_records
from cometmq.protocol.properties import encode_properties
from cometmq.seams import RealClock
from cometmq.store.config import StoreConfig
from cometmq.store.message_store import MessageStore
from cometmq.store.new_message import NewMessage
from peers.admin import AdminShell
from peers.driver import run_java

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

TOPIC, QUEUES, COUNT = "Swap", 4, 20_000
FILE_SIZE = 8 << 20  # so that the log has several
# As the Apache broker of peers/apache.py, or its files would have other sizes.
SIZES = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 20 * 2048,
    "max_hash_slot_num": 10_000,
    "max_index_num": 40_000,
}
HOSTS = [Host("10.1.2.3", 40000), Host("2001:db8::7", 40001)]
FOREVER_MS = 2**62


def body_of(i: int) -> bytes:
    """The same as Shapes.java's."""
    return bytes([97 + i % 26]) * 200_000 if i % 997 == 0 else f"body-{i}-消息".encode()


def message_of(i: int) -> NewMessage:
    properties = {"KEYS": f"k{i}", "UNIQ_KEY": f"{i:032X}"}
    if i % 3 == 0:
        properties["TAGS"] = f"tag{i % 5}"
    if i % 7 == 0:
        properties["colour"] = f"green-{i}"
    return NewMessage(
        topic=TOPIC, queue_id=i % QUEUES, body=body_of(i), born_host=HOSTS[i % 2],
        properties_text=encode_properties(properties),
    )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A message as a reader sees it."""

    crc: int
    queue: int
    offset: int
    at: int
    tags: str | None
    colour: str | None


def open_store(folder: Path) -> MessageStore:
    config = StoreConfig(store_path_root_dir=str(folder / "store"), **SIZES)
    return MessageStore(config, RealDisk(), RealClock(), Host("127.0.0.1", 10911))


async def read_all(store: MessageStore) -> dict[str, Seen]:
    """Every message by its key, by way of its queue."""
    found = {}
    for queue_id in range(QUEUES):
        offset, end = store.bounds(TOPIC, queue_id)
        while offset < end:
            got = store.get(TOPIC, queue_id, offset, 32)
            for message in unpack_records(b"".join(got.views)):
                properties = message.properties
                body = decompress(message.body, message.sys_flag, 1 << 20)
                found[properties["KEYS"]] = Seen(
                    zlib.crc32(body), queue_id, message.queue_offset, message.physical_offset,
                    properties.get("TAGS"), properties.get("colour"),
                )  # fmt: skip
            assert got.next_offset > offset
            offset = got.next_offset
    return found


def dumped(namesrv: str) -> dict[str, Seen]:
    """The same by Apache's client, from Apache's broker."""
    lines = run_java("Dump", namesrv, TOPIC, timeout=240)
    assert lines.pop() == {"done": True}
    assert len({line["keys"] for line in lines}) == len(lines), "none is there twice"
    return {
        line["keys"]: Seen(
            line["crc"], line["queue"], line["offset"], line["at"], line["tags"], line["colour"]
        )
        for line in lines
    }


def check_complete(seen: dict[str, Seen], count: int) -> None:
    assert seen.keys() == {f"k{i}" for i in range(count)}
    assert all(seen[f"k{i}"].crc == zlib.crc32(body_of(i)) for i in range(count))
    for queue in range(QUEUES):
        offsets = sorted(one.offset for one in seen.values() if one.queue == queue)
        assert offsets == list(range(len(offsets))), "no gap and nothing twice"


def ours(folder: Path, count_before: int, kill: bool) -> dict[str, Seen]:
    """Open with ours, find all by queue, key and place, append COUNT, and close or crash."""

    async def story() -> dict[str, Seen]:
        store = await open_store(folder).__aenter__()
        before = await read_all(store)
        check_complete(before, count_before)
        for key, seen in list(before.items())[:: max(1, count_before // 500)]:
            (by_key,) = store.query(TOPIC, key, 0, FOREVER_MS)
            assert (by_key.queue_id, by_key.queue_offset) == (seen.queue, seen.offset)
            by_place = store.record(seen.at)
            assert by_place == by_key
        clock = RealClock()
        for i in range(count_before, count_before + COUNT):
            store.put(message_of(i), clock.wall_ms())
        seen_now = await read_all(store)
        if kill:
            await store.abandon()
        else:
            await store.__aexit__(None, None, None)
        return seen_now

    return asyncio.run(story())


@pytest.fixture
def cluster(apache_namesrv, apache_broker, tmp_path):
    """Starts Apache's broker on a folder, with the topic made."""
    namesrv = apache_namesrv()

    def start():
        broker = apache_broker(
            folder=tmp_path, namesrv=namesrv.address,
            conf={"mappedFileSizeCommitLog": FILE_SIZE, "flushDiskType": "ASYNC_FLUSH"},
        )  # fmt: skip
        with AdminShell(namesrv.address) as admin:
            admin.run(
                "updateTopic", "-b", broker.address, "-t", TOPIC, "-r", str(QUEUES),
                "-w", str(QUEUES),
            )  # fmt: skip
        return namesrv.address, broker

    return start


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_apache_then_ours_then_apache(cluster, tmp_path, kill):
    namesrv, broker = cluster()
    run_java("Fill", namesrv, TOPIC, 0, COUNT, timeout=240)
    (broker.kill if kill else broker.stop)()
    seen = ours(tmp_path, COUNT, kill)
    check_complete(seen, 2 * COUNT)
    namesrv, broker = cluster()
    assert dumped(namesrv) == seen


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_ours_then_apache_then_ours(cluster, tmp_path, kill):
    seen = ours(tmp_path, 0, kill)
    namesrv, broker = cluster()
    assert dumped(namesrv) == seen
    run_java("Fill", namesrv, TOPIC, COUNT, COUNT, timeout=240)
    (broker.kill if kill else broker.stop)()

    async def look() -> dict[str, Seen]:
        async with open_store(tmp_path) as store:
            return await read_all(store)

    check_complete(asyncio.run(look()), 2 * COUNT)
