"""The messages of the swap test, our store that holds them, and how they get into Apache's.

As a program it opens a store, appends, tells what is there, and waits to be killed:

    python swap.py FOLDER PORT COUNT_BEFORE COUNT
"""

import asyncio
import ipaddress
import json
import signal
import socket
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cometmq.disk import RealDisk
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.records.compression import decompress
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, unpack_records
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import decode_properties, encode_properties
from cometmq.seams import RealClock
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore

TOPIC, QUEUES = "Swap", 4
SCHEDULE, LEVEL, DELAY_MS = "SCHEDULE_TOPIC_XXXX", 18, 7_200_000
PLACES = [*((TOPIC, queue) for queue in range(QUEUES)), (SCHEDULE, LEVEL - 1)]
FILE_SIZE = 2 << 20  # so that the log has several files
# As the Apache broker of peers/apache.py, or its files would have other sizes.
SIZES = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 20 * 2048,
    "max_hash_slot_num": 10_000,
    "max_index_num": 40_000,
}
HOSTS = [Host("10.1.2.3", 40000), Host("2001:db8::7", 40001)]
FOREVER_MS = 2**62
_EVERY, _BATCH = 100, 16


class Seen(msgspec.Struct, frozen=True):
    """A message as a reader sees it."""

    topic: str
    queue: int
    offset: int
    at: int
    crc: int
    tags: str | None
    colour: str | None
    born_host: str
    id: str


# Message i, the same as Shapes.java's


def is_over_ipv6(i: int) -> bool:
    return i % 40 == 1


def is_delayed(i: int) -> bool:
    return i % 250 == 3


def body_of(i: int) -> bytes:
    if is_over_ipv6(i):
        return b"" if i % 80 == 1 else b"six"
    size = 1_300_000 if i % 4999 == 4998 else 200_000 if i % 997 == 0 else 0
    return bytes([97 + i % 26]) * size or f"body-{i}-消息".encode()


def keys_of(i: int) -> str:
    return f"k{i} every{i % 2000}"


def properties_of(i: int) -> dict[str, str]:
    properties = {"KEYS": keys_of(i), "UNIQ_KEY": f"{i:032X}"}
    if i % 3 == 0:
        properties["TAGS"] = f"tag{i % 5}"
    if i % 7 == 0:
        properties["colour"] = f"green-{i}"
    if is_delayed(i):
        real = {"REAL_TOPIC": TOPIC, "REAL_QID": str(i % QUEUES)}
        properties |= {"DELAY": str(LEVEL), **real}
    return properties


def message_of(i: int) -> NewMessage:
    return NewMessage(
        topic=SCHEDULE if is_delayed(i) else TOPIC,
        queue_id=LEVEL - 1 if is_delayed(i) else i % QUEUES,
        body=body_of(i), born_host=HOSTS[i % 2],
        properties_text=encode_properties(properties_of(i)),
    )  # fmt: skip


# Our store


def open_store(folder: Path, port: int) -> MessageStore:
    """The port is that of Apache's broker: it is in the ids."""
    config = StoreConfig(store_path_root_dir=str(folder / "store"), **SIZES)
    host = Host("127.0.0.1", port)
    return MessageStore(config, RealDisk(), RealClock(), host, coder=code_of)


def code_of(topic: str, text: str, tag_code: int, stored_ms: int) -> int:
    return stored_ms + DELAY_MS if topic == SCHEDULE else tag_code


def append(
    store: MessageStore, first: int, count: int, chosen: Callable[[int], bool] = lambda i: True,
    later_ms: int = 0,
) -> None:  # fmt: skip
    """Sixteen of each hundred in batches, as far as they are of one queue."""
    clock = RealClock()
    for start in range(first, first + count, _EVERY):
        block = [i for i in range(start, min(start + _EVERY, first + count)) if chosen(i)]
        small = [i for i in block if not is_delayed(i) and len(body_of(i)) < 1000]
        batch = [i for i in small if i - start < _BATCH]
        for queue in range(QUEUES):
            messages = [message_of(i) for i in batch if i % QUEUES == queue]
            if messages:
                store.put_all(messages, clock.wall_ms() + later_ms)
        for i in sorted(set(block) - set(batch)):
            store.put(message_of(i), clock.wall_ms() + later_ms)


def read_all(store: MessageStore) -> dict[str, Seen]:
    """Every message by its keys, by way of its queue."""
    found = {}
    for topic, queue in PLACES:
        for message in _read_queue(store, topic, queue):
            keys = message.properties["KEYS"]
            assert keys not in found, "none is there twice"
            found[keys] = _seen(message)
    return found


def _read_queue(store: MessageStore, topic: str, queue: int) -> Iterator[StoredMessage]:
    offset, end = store.bounds(topic, queue)
    while offset < end:
        codes: list[int] = []
        got = store.get(topic, queue, offset, 32, lambda code, codes=codes: not codes.append(code))
        messages = list(unpack_records(b"".join(got.views)))
        yield from messages
        if topic == SCHEDULE:
            due = [message.stored_ms + DELAY_MS for message in messages]
            assert all(abs(a - b) < 1000 for a, b in zip(due, codes, strict=False)), "due"
        assert got.next_offset > offset
        offset = got.next_offset


def _seen(message: StoredMessage) -> Seen:
    properties = decode_properties(message.properties_text)
    body = decompress(message.body, message.sys_flag, 2 << 20)
    return Seen(
        message.topic, message.queue_id, message.queue_offset, message.physical_offset,
        zlib.crc32(body), properties.get("TAGS"), properties.get("colour"),
        ip(message.born_host.ip), str(OffsetId(message.store_host, message.physical_offset)),
    )  # fmt: skip


def ip(text: str) -> str:
    return str(ipaddress.ip_address(text))


def find_each(store: MessageStore, seen: dict[str, Seen]) -> None:
    """By each of its keys and by id, as well as by queue."""
    for keys, one in seen.items():
        (by_key,) = store.query(one.topic, keys.split(" ")[0], 0, FOREVER_MS)
        assert _seen(by_key) == one
        by_id = store.record(OffsetId.parse(one.id).physical_offset)
        assert by_id == by_key
        others = store.query(one.topic, keys.split(" ")[1], 0, FOREVER_MS)
        assert by_key in others


# Into Apache's broker, by hand


def send_over_ipv6(port: int, first: int, count: int) -> int:
    """What its client leaves to us: empty bodies, and a host that is not IPv4."""
    chosen = [i for i in range(first, first + count) if is_over_ipv6(i)]
    answers = 0
    decoder = FrameDecoder()
    with socket.create_connection(("::1", port), timeout=30) as connection:
        for i in chosen:  # one at a time: a broker refuses more than it can take
            connection.sendall(encode_frame(_send_request(i)))
            answered: list[Command] = []
            while not answered:
                answered += decoder.feed(connection.recv(1 << 16))
            assert answered[0].code == ResponseCode.SUCCESS, answered[0].remark
            answers += 1
    return answers


def _send_request(i: int) -> Command:
    header = SendHeaderV2(
        producer_group="six", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=i % QUEUES, sys_flag=0, born_timestamp=RealClock().wall_ms(), flag=0,
        properties=encode_properties(properties_of(i)),
    )  # fmt: skip
    fields = write_header(header)
    return Command(code=RequestCode.SEND_MESSAGE_V2, opaque=i, fields=fields, body=body_of(i))


async def story(folder: Path, port: int, count_before: int, count: int) -> None:
    store = await open_store(folder, port).__aenter__()
    # To units of the schedule topic that it makes again, Apache's broker gives another due time,
    # and delivers their messages at once: so these are on disk before the kill.
    half = count // 2
    append(store, count_before, half, is_delayed)
    # It walks from 3 s before the checkpoint on: the keys of an older file of the log, in an index
    # file that it throws away, are found only if the checkpoint thinks of them.
    append(store, count_before + half, count - half, is_delayed, later_ms=10_000)
    await store.flush()
    append(store, count_before, count, lambda i: not is_delayed(i), later_ms=20_000)
    seen = {keys: msgspec.to_builtins(one) for keys, one in read_all(store).items()}
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    signal.pause()  # the loop stands still: nothing more reaches a file


if __name__ == "__main__":
    asyncio.run(story(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
