"""A gap between consume queue files made a queue unusable, or the broker refuse to start, for good.

Log files were deleted while units that point into them were in memory alone. What is to hold is in
docs/disk.md, sections 2, 6 and 7.
"""

import asyncio
import errno
import itertools
import os
import shutil
import struct
from pathlib import Path
from random import Random

import pytest

from cometmq.errors import DiskFull
from store.rig import NOON_MS, RoomyDisk, bodies, message, open_store, read_all

LOG_FILE_SIZE = 4096
QUEUE_FILE_SIZE = 200
PER_FILE = QUEUE_FILE_SIZE // 20


def moved_times(folder):
    """As Apache's broker leaves the checkpoint when it closes a store: no offsets, no list."""
    path = folder / "checkpoint"
    path.write_bytes(struct.pack(">qqq", *(NOON_MS + 10_000,) * 3) + path.read_bytes()[24:])


def queue_files(folder, queue_id=0):
    return sorted((folder / "consumequeue" / "T" / str(queue_id)).iterdir())


def names_of(folder, queue_id=0):
    return [int(path.name) // QUEUE_FILE_SIZE for path in queue_files(folder, queue_id)]


def put(store, count, queue_id=0, size=300):
    return [store.put(message(b"x" * size, queue_id=queue_id), NOON_MS) for _ in range(count)]


class QueueDisk(RoomyDisk):
    """Files of queues cannot be synced while `fails`; every file is old."""

    fails = False
    used = 0.1

    def modified_ms(self, path):
        return 0

    def used_ratio(self, folder):
        return self.used

    def write_all(self, writes):
        if self.fails and any("consumequeue" in str(write[0]) for write in writes):
            raise OSError(errno.EIO, "Input/output error", str(writes[0][0]))
        super().write_all(writes)


# Cleaning


def test_no_log_file_goes_before_its_units_are_on_disk(tmp_path, caplog):
    """Whatever is wrong with the disk of queues: a crash costs no place of a queue."""

    async def story():
        disk = QueueDisk()
        store = await open_store(tmp_path, disk).__aenter__()
        put(store, 5)
        await store.flush()
        disk.fails = True
        put(store, 45)
        put(store, 60, queue_id=1)
        with pytest.raises(OSError, match="Input/output"):
            await store.flush()
        assert store.clean() == 0
        assert f"{0:020} is due to be deleted but stays" in caplog.text
        assert "the last flush failed" in caplog.text and "consumequeue/T" in caplog.text
        for _ in range(3):
            store.clean()
        assert caplog.text.count("is due to be deleted") == 1, "logged once"
        await store.abandon()
        for _ in range(2):
            store = await open_store(tmp_path).__aenter__()
            assert [store.bounds("T", queue_id) for queue_id in (0, 1)] == [(0, 50), (0, 60)]
            await store.abandon()

    asyncio.run(story())


def test_log_files_go_again_when_queues_can_be_written(tmp_path, caplog):
    async def story():
        disk = QueueDisk()
        async with open_store(tmp_path, disk) as store:
            disk.fails = True
            put(store, 60)
            with pytest.raises(OSError, match="Input/output"):
                await store.flush()
            assert store.clean() == 0
            disk.fails = False
            await store.flush()
            assert store.clean() > 2
            assert "can be deleted again" in caplog.text
            await store.flush()
            first, end = store.bounds("T", 0)
            assert 0 < first < end == 60
        async with open_store(tmp_path) as store:
            assert store.bounds("T", 0) == (first, 60)

    asyncio.run(story())


def test_a_flush_that_does_not_end_is_reported_too(tmp_path, caplog):
    async def story():
        async with open_store(tmp_path, QueueDisk(), file_reserved_time=0) as store:
            put(store, 60)
            for _ in range(5):
                store.clean()
            assert "is due" not in caplog.text, "the next flush is yet to come"
            store.clean()
            assert "no flush has completed since" in caplog.text

    asyncio.run(story())


def test_a_full_disk_that_cannot_be_cleaned_says_why(tmp_path, caplog):
    async def story():
        disk = QueueDisk()
        async with open_store(tmp_path, disk) as store:
            disk.fails = True
            put(store, 60)
            disk.used = 0.95
            with pytest.raises(OSError, match="Input/output"):
                await store.flush()
            store.clean()
            with pytest.raises(DiskFull, match="old files stay as queues cannot be written: Input"):
                put(store, 1)
            assert (
                "messages of producers are refused" in caplog.text
                and "is due to be deleted" in caplog.text
            )
            disk.fails = False
            await store.flush()
            assert store.clean() > 3
            with pytest.raises(DiskFull, match="old files go"):
                put(store, 1)

    asyncio.run(story())


@pytest.mark.parametrize("what", ["commitlog", "consumequeue"])
def test_a_file_that_cannot_be_deleted_makes_no_gap(tmp_path, what):
    """Those after it stay until it goes."""

    class Stuck(QueueDisk):
        stuck = False

        def delete(self, path):
            if self.stuck and what in str(path) and path.name == f"{0:020}":
                raise OSError(errno.EPERM, "Operation not permitted", str(path))
            super().delete(path)

    async def story():
        disk = Stuck()
        store = await open_store(tmp_path, disk).__aenter__()
        for _ in range(3):
            put(store, 60)
            await store.flush()
            disk.stuck = True
            assert store.clean()
            await store.flush()
        bounds = store.bounds("T", 0)
        await store.abandon()
        files = sorted(int(path.name) for path in (tmp_path / "commitlog").iterdir())
        assert all(b - a == LOG_FILE_SIZE for a, b in itertools.pairwise(files))
        assert names_of(tmp_path)[0] == (0 if what == "consumequeue" else bounds[0] // PER_FILE)
        assert all(b - a == 1 for a, b in itertools.pairwise(names_of(tmp_path)))
        async with open_store(tmp_path) as store:
            first, end = store.bounds("T", 0)
            assert end == 180
            assert len(read_all(store)) == end - first

    asyncio.run(story())


# Loading


async def made_with_a_gap(folder):
    """As a crash left it before: old units of deleted records, then a gap, then what is served."""
    disk = QueueDisk()
    store = await open_store(folder, disk).__aenter__()
    put(store, 5)
    await store.flush()
    old = queue_files(folder)[0].read_bytes()
    put(store, 60)
    await store.flush()
    assert store.clean() > 3
    await store.flush()
    first, end = store.bounds("T", 0)
    await store.__aexit__(None, None, None)
    assert names_of(folder)[0] > 1
    (folder / "consumequeue" / "T" / "0" / f"{0:020}").write_bytes(old)
    return first, end


@pytest.mark.parametrize("crash", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("by_apache", [False, True], ids=["ours", "by Apache"])
def test_files_before_a_gap_are_set_aside(tmp_path, caplog, crash, by_apache):
    async def story():
        first, end = await made_with_a_gap(tmp_path)
        if by_apache:
            moved_times(tmp_path)
        if crash:
            (tmp_path / "abort").touch()
        for number in range(3):
            store = await open_store(tmp_path).__aenter__()
            assert store.bounds("T", 0) == (first, end + number)
            assert len(read_all(store)) == end + number - first
            assert store.queue_files_set_aside == (number == 0)
            assert put(store, 1)[0].queue_offset == end + number
            await (store.abandon() if crash else store.__aexit__(None, None, None))
        path = Path("consumequeue", "T", "0", f"{0:020}")
        assert f"{tmp_path / path} does not fit" in caplog.text
        assert (tmp_path / "set_aside" / path).exists()
        assert 0 not in names_of(tmp_path)

    asyncio.run(story())


def test_a_queue_that_starts_later_after_a_crash_leaves_no_old_file(tmp_path):
    """Apache's broker deletes log files whatever the queues are: all old units are of those."""

    async def story():
        store = await open_store(tmp_path, QueueDisk()).__aenter__()
        put(store, 5)
        await store.flush()
        kept = {path: path.read_bytes() for path in queue_files(tmp_path)}
        put(store, 95)
        await store.flush()
        await store.abandon()
        for path in queue_files(tmp_path):  # never written
            path.unlink()
        for path, content in kept.items():
            path.write_bytes(content)
        moved_times(tmp_path)
        for path in sorted((tmp_path / "commitlog").iterdir())[:4]:
            path.unlink()
        for number in range(3):
            store = await open_store(tmp_path).__aenter__()
            first, end = store.bounds("T", 0)
            assert 20 < first < end == 100
            assert len(read_all(store)) == end - first
            if number:
                assert min(names_of(tmp_path)) == first // PER_FILE
            await store.abandon()

    asyncio.run(story())


def test_a_queue_without_records_keeps_its_end_when_a_file_is_lost(tmp_path):
    async def story(by_apache, folder):
        disk = QueueDisk()
        store = await open_store(folder, disk).__aenter__()
        put(store, 25, size=10)
        put(store, 60, queue_id=1)
        await store.flush()
        shutil.copytree(folder / "consumequeue", folder / "copy")
        assert store.clean() > 3
        await store.flush()
        assert store.bounds("T", 0) == (25, 25)
        await store.__aexit__(None, None, None)
        shutil.rmtree(folder / "consumequeue" / "T" / "0")
        shutil.move(folder / "copy" / "T" / "0", folder / "consumequeue" / "T")
        queue_files(folder)[1].unlink()
        if by_apache:
            moved_times(folder)
        else:
            queue_files(folder)[-1].unlink()
        for _ in range(2):
            async with open_store(folder) as store:
                end = store.bounds("T", 0)[1]
                assert end == (25 if by_apache else 30), "at least where it was"
                assert store.put(message(b"new"), NOON_MS).queue_offset == end
                assert bodies(store.get("T", 0, end, 1)) == [b"new"]
            break

    for by_apache in (False, True):
        asyncio.run(story(by_apache, tmp_path / str(by_apache)))


SETS = int(os.environ.get("COMETMQ_QUEUE_FILE_SETS", "12"))


@pytest.mark.parametrize("by_apache", [False, True], ids=["ours", "by Apache"])
def test_any_set_of_queue_files_serves_what_the_log_holds(tmp_path, by_apache):
    """Gaps and odd files. Without our list of files, first and last ones are there: else it is
    not known that they are missing."""

    async def story():
        origin = tmp_path / "origin"
        async with open_store(origin) as store:
            for i in range(120):
                store.put(message(b"%d" % i, queue_id=i % 2), NOON_MS + i)
        if by_apache:
            moved_times(origin)
        for seed in range(SETS):
            chance, folder = Random(seed), tmp_path / str(seed)
            shutil.copytree(origin, folder)
            if chance.random() < 0.5:
                (folder / "abort").touch()
            done = spoil(folder, chance, by_apache)
            for _ in range(2):
                async with open_store(folder) as store:
                    for queue_id in (0, 1):
                        found = [int(one.body) for one in read_all(store, "T", queue_id)]
                        assert found == list(range(queue_id, 120, 2)), (seed, done)
            sizes = {path.stat().st_size for path in queue_files(folder)}
            assert sizes == {QUEUE_FILE_SIZE}, "Apache's broker refuses others"
            assert names_of(folder) == list(range(6))
            shutil.rmtree(folder)

    asyncio.run(story())


def spoil(folder, chance, spares_ends):
    files = queue_files(folder)
    chosen = files[1:-1] if spares_ends else files
    done = []
    for path in chance.sample(chosen, chance.randint(1, len(chosen))):
        how = chance.choice(["missing", "empty", "short", "long"])
        done.append((path.name, how))
        match how:
            case "missing":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
            case "short":
                path.write_bytes(path.read_bytes()[: chance.randrange(1, QUEUE_FILE_SIZE)])
            case "long":
                path.write_bytes(path.read_bytes() + b"x")
    if chance.random() < 0.3:
        stray = files[0].with_name(f"{chance.choice((7, 4000, 10**9)):020}")
        stray.write_bytes(bytes(QUEUE_FILE_SIZE))
        done.append((stray.name, "stray"))
    return done


# Errors


def test_an_error_of_the_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020}"

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    disk = RoomyDisk()
    monkeypatch.setattr(os, "fdatasync", fail)
    for write in (
        lambda: disk.write_all([(path, 0, b"x", 20)]),
        lambda: disk.write_at(path, 0, b"x", 20),
    ):
        with pytest.raises(OSError, match=r"Input/output error: '.*/T/0/0{20}'"):
            write()
