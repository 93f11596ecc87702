"""A small store in a folder, whose files all roll soon, and a disk that counts, waits and fails."""

import errno
import threading
from array import array
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

from cometmq.disk import RealDisk
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.key_hash import key_hashes
from cometmq.protocol.records.message import StoredMessage, unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.seams import RealClock
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Found

HOST = Host("127.0.0.1", 10911)
UNCLEANED = SimpleNamespace(start=0)  # a log that has all its records
NOON_MS = 1_700_000_000_000
EVER_MS = (0, 2**62)
SIZES = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * 10,
    "max_hash_slot_num": 7,
    "max_index_num": 20,
}
# A busy machine may be in a test for seconds: timers must not flush or make files meanwhile.
UNHURRIED = {
    "flush_interval_commit_log": 3_600_000,
    "flush_interval_consume_queue": 3_600_000,
    "clean_resource_interval": 3_600_000,
}


def config_of(folder: Path, **changes) -> StoreConfig:
    return StoreConfig(store_path_root_dir=str(folder), **(SIZES | changes))


def open_store(folder: Path, disk=None, clock=None, announce=None, **changes) -> MessageStore:
    """To be used with `async with`. By the clock of the machine nothing is done, unless told so."""
    more = {} if announce is None else {"announce": announce}
    changes = (UNHURRIED if clock is None else {}) | changes
    config = config_of(folder, **changes)
    return MessageStore(config, disk or RoomyDisk(), clock or RealClock(), HOST, **more)


def message(body=b"", topic="T", queue_id=0, born_host=HOST, sys_flag=0, **properties):
    """A message with properties by name: TAGS, KEYS, UNIQ_KEY, colour..."""
    return NewMessage(
        topic=topic, queue_id=queue_id, body=body, born_host=born_host, sys_flag=sys_flag,
        properties_text=encode_properties(properties),
    )  # fmt: skip


def records(found: Found) -> list[StoredMessage]:
    """Each view holds whole records."""
    messages = [one for view in found.views for one in unpack_records(view)]
    assert len(messages) == found.count
    return messages


def bodies(found: Found) -> list[bytes]:
    return [one.body for one in records(found)]


def read_all(store: MessageStore, topic="T", queue_id=0) -> list[StoredMessage]:
    """Everything that a consumer of the queue would get, by reads one after the other."""
    offset, end = store.bounds(topic, queue_id)
    messages: list[StoredMessage] = []
    while offset < end:
        found = store.get(topic, queue_id, offset, 32)
        messages += records(found)
        assert found.next_offset > offset
        offset = found.next_offset
    assert all((one.topic, one.queue_id) == (topic, queue_id) for one in messages)
    return messages


class WatchedRegion:
    """A region whose syncs its disk sees first."""

    def __init__(self, inner, disk: "WatchedDisk") -> None:
        self.path = inner.path
        self.memory = inner.memory
        self.find = inner.find
        self.used = inner.used
        self.warm = inner.warm
        self.cool = inner.cool
        self.rewrite = inner.rewrite
        self._inner = inner
        self._disk = disk

    def sync(self) -> None:
        self._disk.before_sync(self.path)
        self._inner.sync()

    def close(self) -> None:
        self.memory = memoryview(b"")
        self._inner.close()


class RoomyDisk(RealDisk):
    """Says that there is room, however full the machine is: nothing is deleted for it."""

    def used_ratio(self, folder: Path) -> float:
        return 0.1


class WatchedDisk(RoomyDisk):
    """Knows which regions were synced; can hold syncs back, fail them, and be full."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.fails_to_sync = False
        self.room: int | None = None  # files that may still be made
        self.syncs_begun = 0
        self._work: set[Future] = set()

    @property
    def is_busy(self) -> bool:
        """Its threads have something to do."""
        return any(not each.done() for each in self._work)

    def begin(self, work):
        future = super().begin(work)
        self._work = {each for each in self._work if not each.done()} | {future}
        return future

    def before_sync(self, path: Path) -> None:
        self.syncs_begun += 1
        assert self.may_sync.wait(60)
        self.synced.append(path)
        if self.fails_to_sync:
            raise OSError(errno.EIO, "Input/output error")

    def map(self, path, size):
        return WatchedRegion(super().map(path, size), self)

    def create(self, path, size):
        if self.room is not None:
            if self.room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room -= 1
        return super().create(path, size)


def index_keys(index, topic, keys, place, stored_ms):
    """Add the keys of a message; if the index may have it already, as recovery does."""
    if place > index.end_offset:
        index.reserve(len(keys))
        index.add((topic,), (keys,), (place,), stored_ms, len(keys))
    else:
        hashes = array("I", key_hashes(topic, keys))
        places, times_ms = array("q", [place] * len(keys)), array("q", [stored_ms] * len(keys))
        index.put(hashes, places, times_ms)
