"""A store on a shadow disk, a history of what was sent to it, and the check of what is left.

The check is one sentence: what a store holds after a cut is a prefix of what was sent, in the order
of the log, at least as long as what was promised, each at its own place and found by its keys.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from cometmq.protocol.hosts import Host
from cometmq.protocol.message import StoredMessage, unpack_records
from cometmq.protocol.properties import encode_properties
from cometmq.store.config import StoreConfig
from cometmq.store.found import GetStatus, Stored
from cometmq.store.message_store import MessageStore
from cometmq.store.new_message import NewMessage
from cometmq.testing.clock import ManualClock
from cometmq.testing.shadow_disk import PowerCut, ShadowDisk

START_MS = 1_700_000_000_000
ROOT = "/store"
SIZES = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * 10,
    "max_hash_slot_num": 16,
    "max_index_num": 40,
}
QUEUES = [("Orders", 0), ("Orders", 1), ("Bills", 0), ("%RETRY%group", 3)]
HOSTS = [Host("10.1.2.3", 40000), Host("2001:db8::7", 40001)]
FOREVER_MS = 2**62


@dataclass(frozen=True, slots=True)
class Sent:
    """A message and where the store said it is."""

    message: NewMessage
    key: str
    stored: Stored


@dataclass
class History:
    """What was sent, in the order of the log. The first `promised` must be there for ever."""

    sent: list[Sent] = field(default_factory=list)
    promised: int = 0
    serial: int = 0
    coming: list[tuple[str, NewMessage]] = field(default_factory=list)  # being put

    def after(self, kept: int) -> "History":
        """The history of a store that holds the first `kept`: a reader may have seen them."""
        return History(self.sent[:kept], kept, self.serial)

    def copy(self) -> "History":
        return History(list(self.sent), self.promised, self.serial, list(self.coming))


@dataclass(frozen=True)
class Image:
    """A disk after a crash, and what it must hold and may hold."""

    disk: ShadowDisk
    history: History
    moment: str
    wall_ms: int


def config(**settings: object) -> StoreConfig:
    return StoreConfig(store_path_root_dir=ROOT, **(SIZES | settings))


def new_message(history: History, chance: Random, queue: tuple[str, int] | None = None):
    """Any message; its key is its own."""
    history.serial += 1
    key = f"id{history.serial}"
    topic, queue_id = queue or chance.choice(QUEUES)
    properties = {"UNIQ_KEY": key}
    if chance.random() < 0.5:
        properties["TAGS"] = f"tag{chance.randrange(3)}"
    if chance.random() < 0.3:
        properties["KEYS"] = f"k{history.serial} common"
    size = chance.choice((0, chance.randrange(40), chance.randrange(600)))
    filler = chance.choice((chance.randbytes(size), bytes(size), b"\xff" * size))
    return key, NewMessage(
        topic=topic, queue_id=queue_id, body=filler, born_ms=START_MS,
        born_host=chance.choice(HOSTS), properties_text=encode_properties(properties),
    )  # fmt: skip


def open_store(disk: ShadowDisk, clock: ManualClock, **settings: object) -> MessageStore:
    return MessageStore(config(**settings), disk, clock, Host("127.0.0.1", 10911))


@asynccontextmanager
async def running(
    disk: ShadowDisk, wall_ms: int = START_MS, **settings: object
) -> AsyncIterator[MessageStore]:
    """A store that is left as a crash leaves it."""
    store = open_store(disk, ManualClock(wall_ms), **settings)
    await store.__aenter__()
    try:
        yield store
    finally:
        await store.abandon()


async def settled(disk: ShadowDisk, future: "asyncio.Future[None]") -> None:
    """Wait as long as the disk is on, doing what it holds."""
    while not future.done():
        if disk.is_off:
            raise PowerCut
        disk.release()
        await asyncio.sleep(0)
    future.result()


def put(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored:
    key, message = new_message(history, chance)
    history.coming = [(key, message)]
    stored = store.put(message, now_ms)
    history.coming = []
    history.sent.append(Sent(message, key, stored))
    return stored


def put_batch(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored:
    queue = chance.choice(QUEUES)
    made = [new_message(history, chance, queue) for _ in range(chance.randint(1, 4))]
    history.coming = made
    places = store.put_batch([message for _, message in made], now_ms)
    history.coming = []
    for (key, message), stored in zip(made, places, strict=True):
        history.sent.append(Sent(message, key, stored))
    return places[-1]


def read_all(store: MessageStore) -> list[StoredMessage]:
    """By way of the queues, in the order of the log; every offset of a queue must give one."""
    found = []
    for topic, queue_id in QUEUES:
        offset, end = store.bounds(topic, queue_id)
        assert offset == 0, f"{topic} {queue_id} begins at {offset}"
        while offset < end:
            got = store.get(topic, queue_id, offset, 32)
            place = f"{topic} {queue_id} at {offset} of {end}"
            assert got.status is GetStatus.FOUND, f"{place}: {got.status}"
            for message in unpack_records(b"".join(got.views)):
                assert (message.topic, message.queue_id) == (topic, queue_id), f"{place}: not its"
                assert message.queue_offset == offset, f"{place}: says {message.queue_offset}"
                found.append(message)
                offset += 1
            assert got.next_offset == offset, f"{place}: next is {got.next_offset}, not {offset}"
    return sorted(found, key=lambda message: message.physical_offset)


def check(store: MessageStore, history: History, chance: Random, keys: int = 8) -> int:
    """See the top of the file. How many messages are there."""
    found = read_all(store)
    for message, (key, coming) in zip(found[len(history.sent) :], history.coming, strict=False):
        at = message.physical_offset
        history.sent.append(Sent(coming, key, Stored(at, message.queue_offset, 0, 0)))
    assert len(found) <= len(history.sent), "more than was sent"
    for message, sent in zip(found, history.sent, strict=False):
        assert message.physical_offset == sent.stored.physical_offset, (
            f"{sent.key} at {sent.stored.physical_offset} is missing, or has moved"
        )
        check_same(message, sent)
    assert len(found) >= history.promised, f"{len(found)} of {history.promised} promised"
    for sent in chance.sample(history.sent[: len(found)], min(keys, len(found))):
        offsets = {
            message.physical_offset
            for message in store.query(sent.message.topic, sent.key, 0, FOREVER_MS)
        }
        assert offsets == {sent.stored.physical_offset}, f"{sent.key} by key: {offsets}"
    return len(found)


def check_same(message: StoredMessage, sent: Sent) -> None:
    assert message.body == sent.message.body, f"{sent.key}: another body"
    assert message.properties_text == sent.message.properties_text
    assert (message.topic, message.queue_id) == (sent.message.topic, sent.message.queue_id)
    assert message.queue_offset == sent.stored.queue_offset


@dataclass
class Camera:
    """Takes images of a disk before its steps, and whenever told to."""

    disk: ShadowDisk
    history: History
    chance: Random
    clock: Callable[[], int]
    each_step: float = 1.0  # images per step, on average
    images: list[Image] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.disk.before_step = self._before_step

    def _before_step(self) -> None:
        count = int(self.each_step) + (self.chance.random() < self.each_step % 1)
        for _ in range(count):
            self.take(f"before step {self.disk.steps}")

    def take(self, moment: str) -> None:
        killed = self.chance.random() < 0.15
        image = self.disk.kill() if killed else self.disk.crash(self.chance)
        moment = f"{'killed' if killed else 'cut'} {moment}"
        self.images.append(Image(image, self.history.copy(), moment, self.clock()))
