"""A store on a shadow disk, the history of messages sent to it, and the check after a crash.

After a crash, a store must hold a prefix of the sent messages, in log order and at least as long
as the promised prefix. Each message is at its offset and is found by its keys. The table file is
one of the saved versions and not older than the promised one. The checkpoint does not vouch for
lost bytes. Of a topic whose deletion was interrupted, either all earlier messages exist or none.

Some histories clean log files. Messages in dropped files may be gone, in queue order; all others
must exist. Offsets of a queue are never reused, even if all of its messages were cleaned.
"""

import asyncio
import json
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from cometmq.errors import BeingDeleted, DiskFull, Malformed
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.store.config import StoreConfig
from cometmq.store.index.tag_and_keys import marks_of
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import GetStatus, Stored
from cometmq.store.recovery.checkpoint import read_checkpoint
from cometmq.store.state_file import StateFile
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import PowerCut, ShadowDisk

START_MS = 1_700_000_000_000
ROOT = "/store"
FILE_SIZE = 4096
SIZES = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 20 * 10,
    "max_hash_slot_num": 16,
    "max_index_num": 40,
    "clean_file_forcibly_enable": False,  # a full disk is to cost nothing here
}
TABLE = Path(ROOT) / "config" / "topics.json"
CHECKPOINT = Path(ROOT) / "checkpoint"
QUEUES = [("Orders", 0), ("Orders", 1), ("Bills", 0), ("%RETRY%group", 3)]
HOSTS = [Host("10.1.2.3", 40000), Host("2001:db8::7", 40001)]
FOREVER_MS = 2**62
KEPT_MS = 72 * 3_600_000  # fileReservedTime: no younger file may be cleaned
QUERY_MAX = 64  # maxMsgsNumBatch
EVERY_KEY = 10**9


@dataclass(frozen=True, slots=True)
class Sent:
    """A message and the position that the store returned."""

    message: NewMessage
    key: str
    stored: Stored
    put_ms: int = 0


@dataclass
class History:
    """The sent messages in log order. The first `promised` of them must survive all crashes."""

    sent: list[Sent] = field(default_factory=list)
    promised: int = 0
    serial: int = 0
    coming: list[tuple[str, NewMessage]] = field(default_factory=list)  # being put
    saved: int = 0  # the version of the table that must be there, or a later one
    saving: int = 0  # the last that may be
    leaving: tuple[str, int] = "", 0  # a topic that is being deleted; so many were sent before
    gone: list[Sent] = field(default_factory=list)  # of deleted topics: found by their keys alone
    cleaned: int = 0  # messages before this place of the log may be gone

    def after(self, kept: int, version: int) -> "History":
        """Return the history after a crash that left the first `kept` messages."""
        return replace(
            self, sent=self.sent[:kept], promised=kept, coming=[], saved=version, leaving=("", 0),
            gone=list(self.gone),
        )  # fmt: skip

    def copy(self) -> "History":
        return replace(self, sent=list(self.sent), coming=list(self.coming), gone=list(self.gone))

    def delete(self, log_end: int) -> None:
        """Record that the deletion of the topic is complete."""
        gone = self.of_leaving()
        self.promised -= sum(one in gone for one in self.sent[: self.promised])
        self.sent = [one for one in self.sent if one not in gone]
        self.gone += [one for one in gone if one.stored.end <= log_end]
        self.leaving = "", 0

    def clean(self, log_start: int, now_ms: int) -> None:
        """Record that the store dropped the old log files before this offset."""
        for one in self.sent:
            if self.cleaned <= one.stored.physical_offset < log_start:
                assert now_ms - one.put_ms > KEPT_MS, f"{one.key} was cleaned before its time"
        self.cleaned = max(self.cleaned, log_start)
        self.promised = max(self.promised, self.cleaned_count)

    @property
    def cleaned_count(self) -> int:
        """Return how many of the first messages may be gone."""
        return bisect_left(self.sent, self.cleaned, key=lambda one: one.stored.physical_offset)

    def of_leaving(self) -> list[Sent]:
        topic, count = self.leaving
        return [one for one in self.sent[:count] if one.message.topic == topic]


@dataclass(frozen=True)
class Image:
    """A disk after a crash, with what it must and may hold."""

    disk: ShadowDisk
    history: History
    moment: str
    wall_ms: int


def config(**settings: object) -> StoreConfig:
    return StoreConfig(store_path_root_dir=ROOT, **(SIZES | settings))


def new_message(history: History, chance: Random, queue: tuple[str, int] | None = None):
    """Return a random message with a unique key."""
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
    disk: ShadowDisk, wall_ms: int = START_MS, clock: ManualClock | None = None, **settings: object
) -> AsyncIterator[MessageStore]:
    """Run a store and abandon it without closing it."""
    store = open_store(disk, clock or ManualClock(wall_ms), **settings)
    await store.__aenter__()
    try:
        yield store
    finally:
        await store.abandon()


async def settled(disk: ShadowDisk, future: "asyncio.Future[None]") -> None:
    """Wait for a result while the disk performs its held work."""
    while not future.done():
        if disk.is_off:
            raise PowerCut
        disk.release()
        await asyncio.sleep(0)
    future.result()


def put(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored | None:
    """Put a message. Returns None if the disk is full or the topic is being deleted."""
    return _put(store, history, [new_message(history, chance)], now_ms)


def put_batch(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored | None:
    queue = chance.choice(QUEUES)
    made = [new_message(history, chance, queue) for _ in range(chance.randint(1, 4))]
    return _put(store, history, made, now_ms)


def put_burst(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored | None:
    """Put enough messages to one queue that its files roll."""
    queue = chance.choice(QUEUES)
    stored = None
    for _ in range(chance.randint(10, 20)):
        stored = _put(store, history, [new_message(history, chance, queue)], now_ms) or stored
    return stored


def _put(
    store: MessageStore, history: History, made: list[tuple[str, NewMessage]], now_ms: int
) -> Stored | None:
    history.coming = made
    try:
        if len(made) == 1:
            places = [store.put(made[0][1], now_ms)]
        else:
            places = store.put_all([message for _, message in made], now_ms)
    except (DiskFull, BeingDeleted):
        return None
    finally:
        history.coming = []
    for (key, message), stored in zip(made, places, strict=True):
        history.sent.append(Sent(message, key, stored, now_ms))
    return places[-1]


def save(disk: ShadowDisk, history: History) -> None:
    """Save the next version of the table. After OSError either version may be on disk."""
    history.saving += 1
    content = json.dumps({"version": history.saving, "filler": "x" * (history.saving % 3 * 400)})
    StateFile(disk, TABLE).write(content.encode())
    history.saved = history.saving


def check_table(disk: ShadowDisk, history: History) -> int:
    """Check and return the version of the table on disk."""
    version = StateFile(disk, TABLE).read(_version) or 0
    assert history.saved <= version <= history.saving, (
        f"the table is of version {version}, not {history.saved} to {history.saving}"
    )
    return version


def _version(content: bytes) -> int:
    try:
        return int(json.loads(content)["version"])
    except ValueError as error:
        raise Malformed(str(error)) from error


def check_backup(disk: ShadowDisk, version: int) -> None:
    """Check that the previous version is still in the .bak file."""
    disk.overwrite(TABLE, b"")
    assert StateFile(disk, TABLE).read(_version) == version, "the version before it is not in .bak"


def vouched(disk: ShadowDisk) -> int:
    """Return the log offset up to which the checkpoint vouches for the log."""
    return read_checkpoint(disk, CHECKPOINT).log_end


def read_all(store: MessageStore) -> list[StoredMessage]:
    """Read all messages through their queues, in log order. No offset may be missing."""
    found = []
    for topic, queue_id in QUEUES:
        offset, end = store.bounds(topic, queue_id)
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


async def rebuild(store: MessageStore, queues: list[tuple[str, int]]) -> None:
    """Read everything once, so that units that do not match the log are rebuilt."""
    for topic, queue_id in queues:
        offset, end = store.bounds(topic, queue_id)
        while offset < end:
            got = store.get(topic, queue_id, offset, 1)
            if got.status is GetStatus.REBUILDING:
                await store.rebuilt()
            offset = max(got.next_offset, store.bounds(topic, queue_id)[0])


def check(store: MessageStore, history: History, chance: Random, keys: int = 8) -> int:
    """Check the store as described above. Returns the number of messages with cleaned ones."""
    assert store.log_bounds[0] <= history.cleaned, f"the log starts at {store.log_bounds[0]}"
    found = read_all(store)
    offsets = {message.physical_offset for message in found}
    if all(one.stored.physical_offset not in offsets for one in history.of_leaving()):
        history.delete(store.log_bounds[1])
    cleaned = history.cleaned_count
    check_cleaned([one for one in found if one.physical_offset < history.cleaned], history)
    found = [one for one in found if one.physical_offset >= history.cleaned]
    coming = found[len(history.sent) - cleaned :]
    for message, (key, sent) in zip(coming, history.coming, strict=False):
        at = Stored(message.physical_offset, message.queue_offset, 0, 0)
        history.sent.append(Sent(sent, key, at, message.stored_ms))
    kept = cleaned + len(found)
    assert kept <= len(history.sent), "more than was sent"
    for message, sent in zip(found, history.sent[cleaned:], strict=False):
        assert message.physical_offset == sent.stored.physical_offset, (
            f"{sent.key} at {sent.stored.physical_offset} is missing, or has moved"
        )
        check_same(message, sent)
    assert kept >= history.promised, f"{kept} of {history.promised} promised"
    check_ends(store, history.sent[:kept])
    in_log = [one for one in history.gone if _place(one) >= history.cleaned]
    in_log += history.sent[cleaned:kept]
    check_keys(store, sorted(in_log, key=_place), history.cleaned, chance, keys)
    return kept


def _place(one: Sent) -> int:
    return one.stored.physical_offset


def check_cleaned(found: list[StoredMessage], history: History) -> None:
    """Check that messages of dropped files that still exist are unchanged."""
    sent = {_place(one): one for one in history.sent[: history.cleaned_count]}
    for message in found:
        assert message.physical_offset in sent, f"{message.physical_offset} was never sent"
        check_same(message, sent[message.physical_offset])


def check_ends(store: MessageStore, sent: list[Sent]) -> None:
    """Check that each queue ends after its last message, even if all messages were cleaned."""
    for topic, queue_id in QUEUES:
        places = [
            one.stored.queue_offset for one in sent
            if (one.message.topic, one.message.queue_id) == (topic, queue_id)
        ]  # fmt: skip
        expected = max(places, default=-1) + 1
        end = store.bounds(topic, queue_id)[1]
        assert end == expected, f"{topic} {queue_id} ends at {end}, not {expected}"


def check_keys(
    store: MessageStore, sent: list[Sent], cleaned: int, chance: Random, count: int
) -> None:
    """Check that a query by key returns all messages with the key, newest first, and no others."""
    having: dict[tuple[str, str], list[int]] = {}
    for one in sent:
        for key in marks_of(one.message.properties_text).keys:
            having.setdefault((one.message.topic, key), []).append(one.stored.physical_offset)
    wanted = list(having) if count >= len(having) else chance.sample(list(having), count)
    for topic, key in wanted:
        found = [one.physical_offset for one in store.query(topic, key, 0, FOREVER_MS)]
        offsets = [at for at in found if at >= cleaned]
        expected = having[topic, key][::-1][:QUERY_MAX]
        assert offsets == expected, f"{topic} by key {key}: {offsets}, not {expected}"


def check_same(message: StoredMessage, sent: Sent) -> None:
    assert message.body == sent.message.body, f"{sent.key}: another body"
    assert message.properties_text == sent.message.properties_text
    assert (message.topic, message.queue_id) == (sent.message.topic, sent.message.queue_id)
    assert message.queue_offset == sent.stored.queue_offset


@dataclass
class Camera:
    """Takes images of a disk before its steps and on request."""

    disk: ShadowDisk
    history: History
    chance: Random
    clock: Callable[[], int]
    each_step: float = 1.0  # images per step, on average
    images: list[Image] = field(default_factory=list)
    store: MessageStore | None = None  # which cleans by itself, too

    def __post_init__(self) -> None:
        self.disk.before_step = self._before_step

    def _before_step(self) -> None:
        count = int(self.each_step) + (self.chance.random() < self.each_step % 1)
        for _ in range(count):
            self.take(f"before step {self.disk.steps}")

    def note_cleaned(self) -> None:
        """Record the files that the store has dropped; later steps delete them."""
        start = 0 if self.store is None else self.store.log_bounds[0]
        if start > self.history.cleaned:
            self.history.clean(start, self.clock())

    def take(self, moment: str) -> None:
        self.note_cleaned()
        killed = self.chance.random() < 0.15
        image = self.disk.kill() if killed else self.disk.crash(self.chance)
        now_ms = self.disk.wall_ms()
        image.wall_ms = lambda: now_ms
        moment = f"{'killed' if killed else 'cut'} {moment}"
        self.images.append(Image(image, self.history.copy(), moment, self.clock()))
