"""A full disk, and odd files in a store's folder: a clear error or none, and no message lost.

What is to hold is in docs/disk.md, sections 4 and 6.
"""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BadState, DiskFull, Malformed, StoreFailed
from cometmq.store.state_file import StateFile
from power.ext4 import Ext4, missing
from store.rig import EVER_MS, NOON_MS, RoomyDisk, message, open_store, read_all

pytestmark = pytest.mark.timeout(300)

COUNT = 60
QUEUES = 3


# Odd files


async def make(folder, crash=False, first=0, count=COUNT):
    """A store with messages in several files of log, queues and index."""
    store = await open_store(folder).__aenter__()
    for i in range(first, first + count):
        one = message(b"%d" % i + b" " * 150, queue_id=i % QUEUES, KEYS=f"k{i}", TAGS="a")
        assert store.put(one, NOON_MS + i * 1000).queue_offset == i // QUEUES
    await store.flush()
    if crash:
        await store.abandon()
    else:
        await store.__aexit__(None, None, None)


async def check(folder, count=COUNT):
    """Everything is found by queue and key, and the store goes on."""
    for _ in range(2):
        async with open_store(folder) as store:
            for queue_id in range(QUEUES):
                numbers = [int(one.body) for one in read_all(store, "T", queue_id)]
                assert numbers == list(range(queue_id, count, QUEUES))
            for i in range(count):
                assert [int(one.body) for one in store.query("T", f"k{i}", *EVER_MS)] == [i]
        await make(folder, first=count, count=QUEUES)
        count += QUEUES


def last(folder):
    """The last file of a folder."""
    return max(path for path in folder.iterdir() if path.name.isdigit())


def zero_byte_next_log(root):
    path = last(root / "commitlog")
    path.with_name(f"{int(path.name) + 4096:020}").write_bytes(b"")


def short_next_log(root):
    path = last(root / "commitlog")
    path.with_name(f"{int(path.name) + 4096:020}").write_bytes(bytes(1000))


def whole_next_log(root):
    path = last(root / "commitlog")
    path.with_name(f"{int(path.name) + 4096:020}").write_bytes(bytes(4096))


def unfinished_log(root):
    path = last(root / "commitlog")
    path.with_name(f"{int(path.name) + 4096:020}.tmp").write_bytes(bytes(100))


def strays(root):
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        (folder / "README").write_text("not yours")
        (folder / ".nfs0001").write_bytes(b"")
        (folder / "lost+found").mkdir()


def no_queues(root):
    shutil.rmtree(root / "consumequeue")


def one_queue_gone(root):
    shutil.rmtree(root / "consumequeue" / "T" / "1")


def last_queue_file_gone(root):
    last(root / "consumequeue" / "T" / "1").unlink()


def empty_queue_folder(root):
    for path in (root / "consumequeue" / "T" / "1").iterdir():
        path.unlink()


def zero_byte_queue_file(root):
    last(root / "consumequeue" / "T" / "1").write_bytes(b"")


def short_queue_file(root):
    path = last(root / "consumequeue" / "T" / "1")
    path.write_bytes(path.read_bytes()[:50])


def no_index(root):
    shutil.rmtree(root / "index")


def one_index_file_gone(root):
    last(root / "index").unlink()


def zero_byte_index_file(root):
    last(root / "index").write_bytes(b"")


def cut_checkpoint(root):
    path = root / "checkpoint"
    path.write_bytes(path.read_bytes()[:10])


def empty_checkpoint(root):
    (root / "checkpoint").write_bytes(b"")


def no_checkpoint(root):
    (root / "checkpoint").unlink()


def checkpoint_of_the_future(root):
    (root / "checkpoint").write_bytes(b"\x7f" * 24)


def only_the_log(root):
    for path in root.iterdir():
        if path.is_dir() and path.name != "commitlog":
            shutil.rmtree(path)
        elif path.is_file() and path.name != "abort":
            path.unlink()


ODD = [
    zero_byte_next_log, short_next_log, whole_next_log, unfinished_log, strays, no_queues,
    one_queue_gone, last_queue_file_gone, empty_queue_folder, zero_byte_queue_file,
    short_queue_file, no_index, one_index_file_gone, zero_byte_index_file, cut_checkpoint,
    empty_checkpoint, no_checkpoint, checkpoint_of_the_future, only_the_log,
]  # fmt: skip


@pytest.mark.parametrize("crash", [False, True], ids=["clean", "killed"])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
def test_odd_files_cost_nothing(tmp_path, odd, crash):
    asyncio.run(make(tmp_path, crash))
    assert (tmp_path / "abort").exists() == crash
    odd(tmp_path)
    asyncio.run(check(tmp_path))


def test_a_missing_log_file_is_refused_by_name(tmp_path):
    asyncio.run(make(tmp_path))
    (tmp_path / "commitlog" / f"{4096:020}").unlink()
    with pytest.raises(BadState, match=f"{4096:020} is missing"):
        asyncio.run(check(tmp_path))


def test_a_log_of_other_sizes_is_refused_and_kept(tmp_path):
    """The setting was changed: nothing may be removed for it."""

    async def story():
        async with open_store(tmp_path) as store:
            store.put(message(b"1"), 1)
        with pytest.raises(BadState, match="4096"):
            await open_store(tmp_path, mapped_file_size_commit_log=8192).__aenter__()
        async with open_store(tmp_path) as store:
            assert [one.body for one in read_all(store)] == [b"1"]

    asyncio.run(story())


@pytest.mark.parametrize("damage", [b"", b"\0" * 100, b'{"a":'])
def test_an_empty_json_is_read_from_its_bak(tmp_path, damage):
    def parse(content):
        if not content.startswith(b"{") or not content.endswith(b"}"):
            raise Malformed("no table")
        return content

    path = tmp_path / "config" / "topics.json"
    state = StateFile(RealDisk(), path)
    state.write(b"{1}")
    state.write(b"{2}")
    path.write_bytes(damage)
    state = StateFile(RealDisk(), path)
    assert state.read(parse) == b"{1}"
    state.write(b"{3}")
    assert StateFile(RealDisk(), path).read(parse) == b"{3}"


# A disk that fails


@pytest.fixture
def quick_path(tmp_path):
    """A folder in memory, where a sync costs nothing, if there is one."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="cometmq-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("part", range(10))
def test_a_sync_that_fails_at_any_call(quick_path, part, monkeypatch):
    """Each of the first 200, of whatever file: no false promise, and all that was promised kept."""
    for fatal in range(part, 200, 10):
        calls = FailingSyncs(monkeypatch, fatal)
        folder = quick_path / str(fatal)
        acked = asyncio.run(put_while_it_goes(folder))
        monkeypatch.undo()
        assert calls.count > fatal, "it did fail"
        asyncio.run(check_acked(folder, acked))
        shutil.rmtree(folder)


class FailingSyncs:
    """In place of fsync and fdatasync: the n-th call fails, as the kernel's does once."""

    def __init__(self, monkeypatch, fatal):
        self.count = 0
        for name in ("fsync", "fdatasync"):
            real = getattr(os, name)
            monkeypatch.setattr(os, name, partial(self._call, real, fatal))

    def _call(self, real, fatal, descriptor):
        self.count += 1
        if self.count - 1 == fatal:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)


async def put_while_it_goes(folder):
    """The numbers that were acknowledged; after a failed store, none is."""
    acked = []
    try:
        store = await open_store(folder).__aenter__()
    except OSError:
        return acked  # told at once, and nothing was promised
    failed = False
    for i in range(80):
        try:
            stored = store.put(message(b"%d" % i + b" " * 300, KEYS=f"k{i}"), NOON_MS + i)
            await store.durable(stored)
            if i % 4 == 0:
                await store.flush()
        except StoreFailed:
            failed = True
        except (DiskFull, OSError):
            assert not failed, "it stays failed"
        else:
            assert not failed, "no promise after a failure"
            acked.append(i)
    await store.abandon()
    return acked


async def check_acked(folder, acked):
    async with open_store(folder) as store:
        found = [int(one.body) for one in read_all(store)]
        assert set(acked) <= set(found) and found == sorted(set(found))
        for i in acked:
            assert [int(one.body) for one in store.query("T", f"k{i}", *EVER_MS)] == [i]


# A full disk


FILL = """
import asyncio, sys
from pathlib import Path
from power.test_disk_trouble import fill_and_go_on
asyncio.run(fill_and_go_on(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
print("done")
"""
SIZES = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 6000,
         "max_hash_slot_num": 1000, "max_index_num": 4000,
         "clean_resource_interval": 100, "clean_file_forcibly_enable": False}  # fmt: skip


async def fill_and_go_on(folder, leave, sight, meanwhile):
    """Put until the disk is full, read, free some room, put again.

    "told" in sight: the store sees how full the disk is, and stops at 90 %; else it runs into its
    end. Meanwhile it stays open, or it is closed or killed, and opened before there is room.
    """
    told = sight == "told"
    ballast = folder / "ballast"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - leave - (6 << 20 if told else 0))
    acked = []

    def put(store, number):
        one = message(b"%d" % number + b" " * 400, queue_id=number % 2, KEYS=f"k{number}")
        stored = store.put(one, NOON_MS + number)
        acked.append(number)
        return stored

    async def fill(store):
        stored = None
        for number in range(50_000):
            try:
                stored = put(store, number)
            except DiskFull:
                return stored
            if number % 50 == 0:
                await asyncio.sleep(0.001)
        raise AssertionError("it has no end")

    def compare(store):
        for queue_id in (0, 1):
            found = [int(one.body) for one in read_all(store, "T", queue_id)]
            assert found == [number for number in acked if number % 2 == queue_id]

    def disk():
        return RealDisk() if told else RoomyDisk()

    async def meet_the_end(store):
        for _ in range(10):
            with pytest.raises(DiskFull):
                put(store, len(acked))
            await asyncio.sleep(0.1)  # the timers meet the full disk too
        compare(store)

    async def opened_again(store):
        await (store.abandon() if meanwhile == "killed" else store.__aexit__(None, None, None))
        with suppress(OSError), (folder / "more ballast").open("wb", buffering=0) as file:
            while True:  # it may have been left some room; now there is none at all
                file.write(bytes(4096))
        return await open_store(folder / "store", disk(), **SIZES).__aenter__()

    async with AsyncExitStack() as stores:
        store = await open_store(folder / "store", disk(), **SIZES).__aenter__()
        await store.durable(await fill(store))
        assert len(acked) > 1000
        await meet_the_end(store)
        if meanwhile != "open":
            store = await opened_again(store)
            await asyncio.sleep(0)  # for its first look at the disk
            compare(store)
            await meet_the_end(store)
        stores.push_async_exit(store)
        ballast.unlink()
        await asyncio.sleep(0.5 if told else 0)
        before = len(acked)
        for number in range(before, before + 3000):
            stored = put(store, number)
        await store.durable(stored)
        compare(store)
        await store.flush()
    if meanwhile == "open":  # else there may have been no room for keys: they are made again
        assert not (folder / "store" / "abort").exists(), "it was closed cleanly"
    async with open_store(folder / "store", disk(), **SIZES) as store:
        compare(store)
        for number in acked[::37]:
            assert [int(one.body) for one in store.query("T", f"k{number}", *EVER_MS)] == [number]


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("meanwhile", ["open", "closed", "killed"])
@pytest.mark.parametrize(
    ("kind", "sight", "leave"),
    [
        ("ext4", "told", 3 << 20),
        ("ext4", "untold", 3 << 20),
        ("ext4", "untold", (5 << 20) + 70_000),
        ("tmpfs", "untold", (4 << 20) + 300_000),
    ],
)
def test_a_full_disk_stops_puts_and_nothing_else(tmp_path, kind, leave, sight, meanwhile):
    """In a process of its own: a signal would end it."""

    def run(folder):
        tests = Path(__file__).parent.parent
        environment = os.environ | {"PYTHONPATH": str(tests)}
        done = subprocess.run(
            [sys.executable, "-c", FILL, str(folder), str(leave), sight, meanwhile],
            env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]

    if kind == "ext4":
        with Ext4(tmp_path, 40) as ext4:
            run(ext4.mount_point)
    else:
        with tmpfs(tmp_path / "tmpfs", 40) as folder:
            run(folder)


@contextmanager
def tmpfs(folder, megabytes):
    folder.mkdir()
    options = f"size={megabytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
