"""A store on a shadow disk, a history of what was sent to it, and the check of what is left.

The check is one sentence: what a store holds after a cut is a prefix of what was sent, in the order
of the log, at least as long as what was promised, each at its own place and found by its keys; the
table beside it is one that was saved, and no older than what was promised; and the checkpoint
vouches for nothing that is gone. Of a topic that was being deleted, what was sent before is there
or gone, all of it.

Log files are cleaned in some histories. A message in a file that the store dropped may be gone, in
the order of its queue; all others must be there. The offsets of a queue are never reused, also if
all of its messages were cleaned.
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
    """A message and where the store said it is."""

    message: NewMessage
    key: str
    stored: Stored
    put_ms: int = 0


@dataclass
class History:
    """What was sent, in the order of the log. The first `promised` must be there for ever."""

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
        """The history of a store that holds the first `kept`: a reader may have seen them."""
        return replace(
            self, sent=self.sent[:kept], promised=kept, coming=[], saved=version, leaving=("", 0),
            gone=list(self.gone),
        )  # fmt: skip

    def copy(self) -> "History":
        return replace(self, sent=list(self.sent), coming=list(self.coming), gone=list(self.gone))

    def delete(self, log_end: int) -> None:
        """The topic that was being deleted is."""
        gone = self.of_leaving()
        self.promised -= sum(one in gone for one in self.sent[: self.promised])
        self.sent = [one for one in self.sent if one not in gone]
        self.gone += [one for one in gone if one.stored.end <= log_end]
        self.leaving = "", 0

    def clean(self, log_start: int, now_ms: int) -> None:
        """The store dropped the log files before this place: they were on disk, and old."""
        for one in self.sent:
            if self.cleaned <= one.stored.physical_offset < log_start:
                assert now_ms - one.put_ms > KEPT_MS, f"{one.key} was cleaned before its time"
        self.cleaned = max(self.cleaned, log_start)
        self.promised = max(self.promised, self.cleaned_count)

    @property
    def cleaned_count(self) -> int:
        """The first so many of `sent` may be gone."""
        return bisect_left(self.sent, self.cleaned, key=lambda one: one.stored.physical_offset)

    def of_leaving(self) -> list[Sent]:
        topic, count = self.leaving
        return [one for one in self.sent[:count] if one.message.topic == topic]


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
    disk: ShadowDisk, wall_ms: int = START_MS, clock: ManualClock | None = None, **settings: object
) -> AsyncIterator[MessageStore]:
    """A store that is left as a crash leaves it."""
    store = open_store(disk, clock or ManualClock(wall_ms), **settings)
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


def put(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored | None:
    """None if the disk is full, or its topic is being deleted: then nothing happened."""
    return _put(store, history, [new_message(history, chance)], now_ms)


def put_batch(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored | None:
    queue = chance.choice(QUEUES)
    made = [new_message(history, chance, queue) for _ in range(chance.randint(1, 4))]
    return _put(store, history, made, now_ms)


def put_burst(store: MessageStore, history: History, chance: Random, now_ms: int) -> Stored | None:
    """So many to one queue that its files roll, one after the other."""
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
    """The table, in its next version; OSError, and it may be either one."""
    history.saving += 1
    content = json.dumps({"version": history.saving, "filler": "x" * (history.saving % 3 * 400)})
    StateFile(disk, TABLE).write(content.encode())
    history.saved = history.saving


def check_table(disk: ShadowDisk, history: History) -> int:
    """The version that is there."""
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
    """Were the table damaged, the version before it would still be there."""
    disk.overwrite(TABLE, b"")
    assert StateFile(disk, TABLE).read(_version) == version, "the version before it is not in .bak"


def vouched(disk: ShadowDisk) -> int:
    """What the checkpoint says is on disk of the log."""
    return read_checkpoint(disk, CHECKPOINT).log_end


def read_all(store: MessageStore) -> list[StoredMessage]:
    """By way of the queues, in the order of the log; every offset of a queue must give one."""
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
    """Read all once, so that units which do not match the log are rebuilt."""
    for topic, queue_id in queues:
        offset, end = store.bounds(topic, queue_id)
        while offset < end:
            got = store.get(topic, queue_id, offset, 1)
            if got.status is GetStatus.REBUILDING:
                await store.rebuilt()
            offset = max(got.next_offset, store.bounds(topic, queue_id)[0])


def check(store: MessageStore, history: History, chance: Random, keys: int = 8) -> int:
    """See the top of the file. How many messages are there, with those that were cleaned."""
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
    """Messages of a file that was dropped and not yet deleted are as they were sent."""
    sent = {_place(one): one for one in history.sent[: history.cleaned_count]}
    for message in found:
        assert message.physical_offset in sent, f"{message.physical_offset} was never sent"
        check_same(message, sent[message.physical_offset])


def check_ends(store: MessageStore, sent: list[Sent]) -> None:
    """A queue ends after its last message, though all of its messages may be cleaned."""
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
    """Each key of some messages finds all that have it, newest first, and no others."""
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
    """Takes images of a disk before its steps, and whenever told to."""

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
        """What the store dropped until now: it deletes it by later steps."""
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
