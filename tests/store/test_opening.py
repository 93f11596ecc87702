"""What is believed of a store that is opened: the checkpoint, the list of files, or neither.

What is to hold is in docs/disk.md, sections 4 and 6.
"""

import asyncio
import errno
import shutil
import struct
from pathlib import Path

import pytest

from cometmq.errors import DiskFull
from cometmq.store.recovery import opening, rebuild
from cometmq.store.recovery.checkpoint import read_checkpoint
from store.rig import EVER_MS, NOON_MS, RoomyDisk, message, open_store, read_all


async def filled(folder, count=40, **properties):
    async with open_store(folder) as store:
        for i in range(count):
            store.put(message(b"%d" % i + b" " * 100, queue_id=i % 2, **properties), NOON_MS + i)


async def bodies_of(folder):
    async with open_store(folder) as store:
        found = [int(one.body) for queue_id in (0, 1) for one in read_all(store, "T", queue_id)]
        return sorted(found), store.recovered


@pytest.fixture
def walks(monkeypatch):
    """From where on the log was walked, at each opening."""
    starts = []
    recover = opening.recover

    def watched(parts, found):
        starts.append(found.first(parts.log.start))
        return recover(parts, found)

    monkeypatch.setattr(opening, "recover", watched)
    return starts


def log_end(folder):
    return read_checkpoint(RoomyDisk(), folder / "checkpoint").log_end


@pytest.mark.parametrize("properties", [{}, {"KEYS": "k"}], ids=["without keys", "with keys"])
@pytest.mark.parametrize("killed", [False, True], ids=["clean", "killed"])
def test_nothing_before_the_checkpoint_is_walked(tmp_path, walks, killed, properties):
    """Also in a store whose index has no file, as no message has a key."""
    asyncio.run(filled(tmp_path, **properties))
    if killed:
        (tmp_path / "abort").touch()
    end = log_end(tmp_path)
    assert end > 4096
    assert asyncio.run(bodies_of(tmp_path))[0] == list(range(40))
    assert walks == [0, end], "the first was of an empty store"


def test_what_follows_the_checkpoint_is_dispatched(tmp_path, walks):
    async def story():
        store = await open_store(tmp_path).__aenter__()
        for i in range(10):
            store.put(message(b"%d" % i, KEYS=f"k{i}"), NOON_MS + i)
        await store.flush()
        for i in range(10, 16):
            store.put(message(b"%d" % i, KEYS=f"k{i}"), NOON_MS + i)
        await store.abandon()
        async with open_store(tmp_path) as store:
            assert store.recovered.redispatched == 6
            assert [int(one.body) for one in read_all(store)] == list(range(16))
            for i in range(16):
                assert [int(one.body) for one in store.query("T", f"k{i}", *EVER_MS)] == [i]

    asyncio.run(story())


def test_offsets_go_with_the_times_that_another_broker_moved(tmp_path, walks):
    """It writes the first 24 bytes of the checkpoint; ours, behind them, are then not believed."""
    asyncio.run(filled(tmp_path))
    path = tmp_path / "checkpoint"
    page = path.read_bytes()
    path.write_bytes(struct.pack(">qqq", *(NOON_MS + 100,) * 3) + page[24:])
    assert log_end(tmp_path) == -1
    assert asyncio.run(bodies_of(tmp_path))[0] == list(range(40))
    assert walks[-1] % 4096 == 0, "from the beginning of the last file"


@pytest.mark.parametrize("killed", [False, True], ids=["clean", "killed"])
def test_offsets_of_another_log_are_not_believed(tmp_path, walks, killed):
    """Its bytes before them are not those that were there, though the times are."""
    asyncio.run(filled(tmp_path))
    if killed:
        (tmp_path / "abort").touch()
    end = log_end(tmp_path)
    last = sorted((tmp_path / "commitlog").iterdir())[-1]
    content = bytearray(last.read_bytes())
    start = end - int(last.name)
    content[start - 60 : start] = bytes(60)  # as if it had been cut there, and be shorter
    last.write_bytes(content)
    found, recovered = asyncio.run(bodies_of(tmp_path))
    assert found == list(range(39)), "all but the one that is not there"
    assert recovered.end < end
    assert walks[-1] % 4096 == 0


def test_a_second_crash_while_it_recovers_costs_no_more(tmp_path, walks):
    """Units and keys before the checkpoint are still vouched for."""

    async def story():
        await filled(tmp_path, KEYS="k")
        (tmp_path / "abort").touch()
        end = log_end(tmp_path)
        for _ in range(3):
            store = await open_store(tmp_path).__aenter__()
            await store.abandon()
        assert walks[1:] == [end] * 3

    asyncio.run(story())


def test_only_the_queue_that_lacks_files_is_made_again(tmp_path, caplog):
    async def story():
        await filled(tmp_path)
        folder = tmp_path / "consumequeue" / "T"
        kept = {path: path.stat().st_mtime_ns for path in (folder / "0").iterdir()}
        (folder / "1" / f"{0:020}").unlink()
        found, recovered = await bodies_of(tmp_path)
        assert found == list(range(40)) and recovered.redispatched == 20
        assert f"{0:020} is missing: queue 1 of T is rebuilt" in caplog.text
        assert {path: path.stat().st_mtime_ns for path in (folder / "0").iterdir()} == kept

    asyncio.run(story())


def test_a_list_of_files_that_cannot_be_read_is_none(tmp_path):
    asyncio.run(filled(tmp_path))
    (tmp_path / "manifest").write_bytes(b'{"queues":')
    assert asyncio.run(bodies_of(tmp_path))[0] == list(range(40))


def test_files_that_retention_took_are_not_missed(tmp_path, walks):
    """The list is written before they are deleted, so not even a crash right after is mistaken."""

    async def story():
        store = await open_store(tmp_path, file_reserved_time=0).__aenter__()
        for i in range(60):
            store.put(message(b"x" * 300, KEYS=f"k{i}"), NOON_MS)
        await store.flush()
        await asyncio.sleep(0.01)  # so that the files are older than no time at all
        assert store.clean() > 3
        await store.flush()
        await store.abandon()
        async with open_store(tmp_path) as store:
            assert store.recovered.redispatched == 0
            first, end = store.bounds("T", 0)
            assert 0 < first < end == 60

    asyncio.run(story())


def test_a_queue_without_messages_keeps_its_place(tmp_path):
    """All of its records left the log, and the broker is started anew: offsets go on."""

    async def story():
        async with open_store(tmp_path, file_reserved_time=0) as store:
            for i in range(20):  # two whole files of units
                store.put(message(b"%d" % i, queue_id=1), NOON_MS)
            for _ in range(40):
                store.put(message(b"x" * 300), NOON_MS)
            await store.flush()
            await asyncio.sleep(0.01)
            assert store.clean()
            assert store.bounds("T", 1) == (20, 20)
        for _ in range(2):
            async with open_store(tmp_path) as store:
                assert store.bounds("T", 1) == (20, 20)
        async with open_store(tmp_path) as store:
            assert store.put(message(b"20", queue_id=1), NOON_MS).queue_offset == 20
            assert [one.body for one in read_all(store, "T", 1)] == [b"20"]

    asyncio.run(story())


def test_a_deleted_topic_is_not_missed(tmp_path, walks):
    """Though nothing else happens before the store is closed."""

    async def story():
        async with open_store(tmp_path) as store:
            for i in range(30):
                store.put(message(b"%d" % i, topic=f"T{i % 2}"), NOON_MS)
            await store.flush()
            await store.delete_topic("T0")
        async with open_store(tmp_path) as store:
            assert store.recovered.redispatched == 0
            assert (store.bounds("T0", 0), store.bounds("T1", 0)) == ((0, 0), (0, 15))

    asyncio.run(story())


def test_a_topic_that_was_deleted_and_made_again_has_only_its_new_messages(tmp_path):
    """Also after a crash: no file list or checkpoint brings the old ones back."""

    async def story():
        store = open_store(tmp_path)
        await store.__aenter__()
        for i in range(5):
            store.put(message(b"old %d" % i, topic="T"), NOON_MS)
        await store.flush()
        await store.delete_topic("T")
        stored = store.put(message(b"new", topic="T"), NOON_MS)
        assert stored.queue_offset == 0
        await store.durable(stored)
        await store.abandon()
        async with open_store(tmp_path) as store:
            found = store.get("T", 0, 0, 32)
            assert store.bounds("T", 0) == (0, 1)
            assert b"new" in bytes(found.views[0])

    asyncio.run(story())


@pytest.mark.parametrize("crash", [False, True], ids=["closed", "killed"])
def test_no_lost_file_brings_back_what_a_deleted_topic_of_the_name_held(tmp_path, crash):
    """A queue that is made again from the log begins where the topic was deleted."""

    async def story():
        store = await open_store(tmp_path).__aenter__()
        for i in range(25):
            store.put(message(b"old %d" % i, topic="T"), NOON_MS)
            store.put(message(b"other %d" % i, topic="U"), NOON_MS)
        await store.delete_topic("T")
        for i in range(15):
            assert store.put(message(b"new %d" % i, topic="T"), NOON_MS).queue_offset == i
        await store.flush()
        if crash:
            await store.abandon()
        else:
            await store.__aexit__(None, None, None)
        for topic in "TU":
            for path in (tmp_path / "consumequeue" / topic / "0").iterdir():
                path.unlink()
        for _ in range(2):
            async with open_store(tmp_path) as store:
                assert [one.body for one in read_all(store)] == [b"new %d" % i for i in range(15)]
                others = [one.body for one in read_all(store, "U")]
                assert others == [b"other %d" % i for i in range(25)]

    asyncio.run(story())


def test_a_deleted_topic_is_forgotten_with_its_records(tmp_path):
    """The list of deleted ones has an end."""

    async def story():
        async with open_store(tmp_path, file_reserved_time=0) as store:
            store.put(message(b"old", topic="Old"), NOON_MS)
            await store.delete_topic("Old")
            assert b"Old" in (tmp_path / "manifest").read_bytes()
            for _ in range(40):
                store.put(message(b"x" * 300), NOON_MS)
            await store.flush()
            await asyncio.sleep(0.01)
            assert store.clean()
            await store.flush()
            assert b"Old" not in (tmp_path / "manifest").read_bytes()

    asyncio.run(story())


def test_a_damaged_last_record_keeps_its_place(tmp_path):
    """A group that is past it must see what comes next."""

    async def story():
        async with open_store(tmp_path) as store:
            for i in range(400):
                queue = 0 if i < 5 else 1
                last = store.put(message(b"%d" % i * 20, queue_id=queue), NOON_MS)
                if i == 4:
                    damaged = last
        with min((tmp_path / "commitlog").iterdir()).open("r+b") as opened:
            opened.seek(damaged.physical_offset + 95)
            opened.write(b"\xff")
        async with open_store(tmp_path) as store:
            assert store.bounds("T", 0) == (0, 5)
            assert store.get("T", 0, 4, 32).count == 0
            assert store.get("T", 0, 0, 32).count == 4
            assert store.put(message(b"next", queue_id=0), NOON_MS).queue_offset == 5

    asyncio.run(story())


# On a full disk


class FullDisk(RoomyDisk):
    """While it is full: no new block, though what has one may be written again."""

    is_full = True

    def _take(self, path, data):
        if self.is_full and data and not path.exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    def replace(self, path, content):
        self._take(path.with_name("another"), content)
        super().replace(path, content)

    def create(self, path, size):
        self._take(path, bytes(1))
        return super().create(path, size)

    def write_at(self, path, offset, data, file_size):
        self._take(path, data)
        super().write_at(path, offset, data, file_size)

    def write_all(self, writes):
        if writes:
            self._take(Path("another"), bytes(1))
        super().write_all(writes)


def nothing_more(root):
    """As it was left."""


def no_queue(root):
    shutil.rmtree(root / "consumequeue" / "T" / "1")


def no_index(root):
    shutil.rmtree(root / "index")


def the_log_alone(root):
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    for name in ("checkpoint", "manifest"):
        (root / name).unlink()


@pytest.mark.parametrize("loss", [nothing_more, no_queue, no_index, the_log_alone])
@pytest.mark.parametrize("killed", [False, True], ids=["clean", "killed"])
def test_a_store_is_opened_on_a_full_disk_and_goes_on_when_there_is_room(
    tmp_path, monkeypatch, killed, loss
):
    """What could not be written is served all the same, and survives another crash."""
    monkeypatch.setattr(rebuild, "_UNITS_HELD_MAX", 7)
    queues = range(2)

    def bodies(store):
        return [int(one.body) for queue_id in queues for one in read_all(store, "T", queue_id)]

    def put(store, number):
        one = message(b"%d" % number + b" " * 100, queue_id=number % 2, KEYS=f"k{number}")
        store.put(one, NOON_MS + number)

    async def story():
        store = await open_store(tmp_path).__aenter__()
        for number in range(40):
            put(store, number)
            if number == 25:
                await store.flush()
        await (store.abandon() if killed else store.__aexit__(None, None, None))
        loss(tmp_path)
        count = 40
        for _ in range(2):
            disk = FullDisk()
            store = await open_store(tmp_path, disk).__aenter__()
            assert (tmp_path / "abort").exists()
            with pytest.raises(DiskFull):
                for number in range(count, 1000):
                    put(store, number)
                    count += 1
            assert sorted(bodies(store)) == list(range(count))
            await store.abandon()
        async with open_store(tmp_path, disk) as store:
            assert sorted(bodies(store)) == list(range(count))
            disk.is_full = False
            for number in range(count, count + 20):
                put(store, number)
            await store.flush()
        async with open_store(tmp_path) as store:
            assert sorted(bodies(store)) == list(range(count + 20))
            for number in range(count + 20):
                found = store.query("T", f"k{number}", *EVER_MS)
                assert [int(one.body) for one in found] == [number]

    asyncio.run(story())


def test_another_failure_is_told_at_once(tmp_path):
    class BrokenDisk(RoomyDisk):
        def replace(self, path, content):
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        asyncio.run(open_store(tmp_path, BrokenDisk()).__aenter__())
