"""A log whose last files are missing opened silently, and offsets of lost messages were reused.

What is to hold is in docs/disk.md, section 6.
"""

import asyncio
import errno
import struct

import pytest

from cometmq.errors import BadState
from cometmq.store.recovery.checkpoint import read_checkpoint
from store.rig import NOON_MS, RoomyDisk, bodies, message, open_store, read_all

LOG_FILE_SIZE = 4096
COUNT = 60
ACCEPT = "accept_lost_messages"


async def fill(folder, crash=False):
    store = await open_store(folder).__aenter__()
    for i in range(COUNT):
        store.put(message(b"%d" % i + b" " * 200, queue_id=i % 2, KEYS=f"k{i}"), NOON_MS + i)
    await store.flush()
    await (store.abandon() if crash else store.__aexit__(None, None, None))


def log_files(folder):
    return sorted((folder / "commitlog").iterdir())


def remove_last(folder, count):
    """In use are all: no file is made ahead in these stores."""
    gone = log_files(folder)[-count:]
    for path in gone:
        path.unlink()
    return gone


def moved_times(folder):
    """As Apache's broker leaves the checkpoint when it closes a store."""
    path = folder / "checkpoint"
    path.write_bytes(struct.pack(">qqq", *(NOON_MS + 10_000,) * 3) + path.read_bytes()[24:])
    assert read_checkpoint(RoomyDisk(), path).log_end == -1


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("0*") if path.is_file()}


@pytest.mark.parametrize("crash", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("count", [1, 2, 100], ids=["one", "two", "all"])
def test_the_store_is_not_opened_and_the_missing_file_is_named(tmp_path, crash, count):
    asyncio.run(fill(tmp_path, crash))
    end = read_checkpoint(RoomyDisk(), tmp_path / "checkpoint").log_end
    gone = remove_last(tmp_path, count)
    before = content(tmp_path)
    for _ in range(2):
        with pytest.raises(BadState) as refused:
            asyncio.run(open_store(tmp_path).__aenter__())
        text = str(refused.value)
        assert str(gone[-1] if count == 100 else gone[0]) in text
        assert f"up to {end} were on disk" in text
        assert str(tmp_path / ACCEPT) in text, "how to go on"
    assert content(tmp_path) == before, "nothing was changed"


def test_it_opens_again_when_the_files_are_back(tmp_path):
    asyncio.run(fill(tmp_path))
    last = log_files(tmp_path)[-1]
    last.rename(tmp_path / "elsewhere")
    with pytest.raises(BadState):
        asyncio.run(open_store(tmp_path).__aenter__())
    (tmp_path / "elsewhere").rename(last)

    async def story():
        async with open_store(tmp_path) as store:
            assert [len(read_all(store, "T", queue_id)) for queue_id in (0, 1)] == [30, 30]

    asyncio.run(story())


@pytest.mark.parametrize("how", ["closed", "killed", "closed by Apache"])
def test_an_accepted_loss_reuses_no_queue_offset(tmp_path, caplog, how):
    """Consumers that are past lost messages see the next one."""

    async def story():
        await fill(tmp_path, how == "killed")
        if how == "closed by Apache":
            moved_times(tmp_path)
        remove_last(tmp_path, 1)
        left = len(log_files(tmp_path)) * LOG_FILE_SIZE
        (tmp_path / ACCEPT).touch()
        async with open_store(tmp_path) as store:
            assert "The loss is accepted" in caplog.text
            assert not (tmp_path / ACCEPT).exists(), "it counts once"
            kept = [len(read_all(store, "T", queue_id)) for queue_id in (0, 1)]
            assert min(kept) > 0 and max(kept) < 30
            assert store.log_bounds[1] <= left
            assert [store.bounds("T", queue_id)[1] for queue_id in (0, 1)] == [30, 30]
            assert store.put(message(b"new"), NOON_MS).queue_offset == 30
            assert bodies(store.get("T", 0, 30, 32)) == [b"new"]
            assert store.query("T", f"k{COUNT - 1}", 0, 2**62) == []
        for crash in (False, True, False):
            store = await open_store(tmp_path).__aenter__()
            assert [store.bounds("T", queue_id)[1] for queue_id in (0, 1)] == [31, 30]
            assert bodies(store.get("T", 0, 30, 32)) == [b"new"]
            assert len(read_all(store, "T", 0)) == kept[0] + 1
            assert len(read_all(store, "T", 1)) == kept[1]
            await (store.abandon() if crash else store.__aexit__(None, None, None))
        assert store.damaged == 0

    asyncio.run(story())


def test_units_past_the_end_prove_it_after_a_clean_stop_of_apache(tmp_path):
    """Its checkpoint has times only."""
    asyncio.run(fill(tmp_path))
    moved_times(tmp_path)
    gone = remove_last(tmp_path, 1)
    with pytest.raises(BadState, match=f"{gone[0].name} is missing.* queue 1 of T, which ends at"):
        asyncio.run(open_store(tmp_path).__aenter__())


def test_after_a_crash_of_apache_they_do_not(tmp_path):
    """It writes queues before the log is on disk: a power cut costs the end, as it always did."""

    async def story():
        await fill(tmp_path)
        moved_times(tmp_path)
        (tmp_path / "abort").touch()
        remove_last(tmp_path, 1)
        async with open_store(tmp_path) as store:
            first, end = store.bounds("T", 0)
            assert (first, 0 < end < 30) == (0, True)
            assert len(read_all(store)) == end

    asyncio.run(story())


def test_one_damaged_unit_does_not_blame_the_log(tmp_path):
    async def story():
        await fill(tmp_path)
        moved_times(tmp_path)
        path = sorted((tmp_path / "consumequeue" / "T" / "1").iterdir())[-1]
        units = bytearray(path.read_bytes())
        at = max(at for at in range(0, len(units), 20) if any(units[at : at + 20]))
        units[at + 4] ^= 0x40  # of the physical offset
        path.write_bytes(units)
        async with open_store(tmp_path) as store:
            assert len(read_all(store, "T", 0)) == 30

    asyncio.run(story())


def test_a_failed_start_that_cut_a_damaged_log_raises_no_alarm(tmp_path):
    """The checkpoint vouches for the end no more before the log is cut."""

    class Failing(RoomyDisk):
        def replace(self, path, content):
            if path.name == "manifest":  # written after the log is cut, before the checkpoint
                raise OSError(errno.EIO, "Input/output error")
            super().replace(path, content)

    async def story():
        await fill(tmp_path)
        for path in log_files(tmp_path)[-2:]:
            path.write_bytes(bytes(LOG_FILE_SIZE))
        with pytest.raises(OSError, match="Input/output"):
            await open_store(tmp_path, Failing()).__aenter__()
        async with open_store(tmp_path) as store:
            assert 0 < len(read_all(store)) < 30

    asyncio.run(story())
