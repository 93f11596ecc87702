"""Tests of the shadow disk: synced bytes survive, others may not; names follow disk steps."""

import errno
from pathlib import Path
from random import Random

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BadState
from crash.shadow_disk import PowerCut, ShadowDisk
from crash.shadow_files import SECTOR_SIZE

PATH = Path("/a/b/file")
SIZE = 4 * SECTOR_SIZE


def images(disk: ShadowDisk, count: int = 200) -> list[ShadowDisk]:
    return [disk.crash(Random(seed)) for seed in range(count)]


def contents(disk: ShadowDisk, path: Path = PATH) -> set[bytes | None]:
    """Return all contents that a crash may leave of a file."""
    return {image.read(path) if holds(image, path) else None for image in images(disk)}


def holds(disk: ShadowDisk, path: Path) -> bool:
    return path.name in disk.names(path.parent)


def test_only_synced_bytes_always_survive():
    disk = ShadowDisk()
    region = disk.create(PATH, SIZE)
    region.memory[:4] = b"safe"
    region.sync()
    region.memory[SECTOR_SIZE : SECTOR_SIZE + 4] = b"some"
    region.memory[-4:] = b"more"
    left = contents(disk)
    assert all(content is not None and content[:4] == b"safe" for content in left)
    assert {(content[SECTOR_SIZE:][:4], content[-4:]) for content in left if content} == {
        (some, more) for some in (b"some", bytes(4)) for more in (b"more", bytes(4))
    }
    region.sync()
    assert len(contents(disk)) == 1


def test_sectors_are_written_atomically():
    disk = ShadowDisk()
    region = disk.create(PATH, SIZE)
    region.memory[:SIZE] = b"x" * SIZE
    for content in contents(disk):
        assert content is not None
        for at in range(0, SIZE, SECTOR_SIZE):
            assert len(set(content[at : at + SECTOR_SIZE])) == 1


def test_kill_loses_nothing_and_makes_nothing_durable():
    disk = ShadowDisk()
    region = disk.create(PATH, SIZE)
    region.memory[:4] = b"seen"
    killed = disk.kill()
    assert killed.read(PATH)[:4] == b"seen"
    assert {content[:4] for content in contents(killed) if content} == {b"seen", bytes(4)}
    killed.map(PATH, SIZE).sync()
    assert {content[:4] for content in contents(killed) if content} == {b"seen"}
    assert bytes(4) in {content[:4] for content in contents(disk) if content}, "apart"


@pytest.mark.parametrize("old", [None, b"old"])
def test_replace_leaves_old_or_new_content_at_every_step(old):
    steps = step_count(lambda disk: disk.replace(PATH, b"new"), old)
    assert steps >= 4
    seen = set()
    for step in range(steps):
        disk = prepared(old)
        disk.cut_at = disk.steps + step
        with pytest.raises(PowerCut):
            disk.replace(PATH, b"new")
        with pytest.raises(PowerCut):
            disk.step()
        seen |= contents(disk)
    assert seen == {old, b"new"}
    disk = prepared(old)
    disk.replace(PATH, b"new")
    assert contents(disk) == {b"new"}


def test_created_file_is_complete_or_missing_at_every_step():
    for step in range(step_count(lambda disk: disk.create(PATH, SIZE), None)):
        disk = ShadowDisk()
        disk.cut_at = step
        with pytest.raises(PowerCut):
            disk.create(PATH, SIZE)
        assert contents(disk) <= {None, bytes(SIZE)}


def test_renames_and_deletions_are_uncertain_until_folder_sync():
    disk = prepared(b"old")
    disk.cut_at = disk.steps + 1  # after the unlink, before the sync of the folder
    with pytest.raises(PowerCut):
        disk.delete(PATH)
    assert contents(disk) == {None, b"old"}
    disk = prepared(b"old")
    disk.delete(PATH)
    assert contents(disk) == {None}


def test_durable_write_leaves_holes_in_its_file():
    disk = ShadowDisk()
    disk.write_at(PATH, 1000, b"data", SIZE)
    assert contents(disk) == {bytes(1000) + b"data" + bytes(SIZE - 1004)}


def test_failed_sync_loses_its_bytes():
    disk = ShadowDisk()
    region = disk.create(PATH, SIZE)
    region.memory[:4] = b"lost"
    disk.fail_sync_at = disk.syncs
    with pytest.raises(OSError) as failure:
        region.sync()
    assert failure.value.errno == errno.EIO
    region.memory[-4:] = b"kept"
    region.sync()
    assert region.memory[:4] == b"lost", "the process still sees them"
    assert bytes(4) in {content[:4] for content in contents(disk) if content}
    assert {content[-4:] for content in contents(disk) if content} == {b"kept"}


def test_bytes_of_failed_sync_stay_lost_for_next_process():
    """On the same page cache, until they are written again."""
    for rewrite in (False, True):
        disk = ShadowDisk()
        region = disk.create(PATH, SIZE)
        region.memory[:4] = b"lost"
        disk.fail_sync_at = disk.syncs
        with pytest.raises(OSError):
            region.sync()
        again = disk.kill()
        region = again.map(PATH, SIZE)
        assert region.memory[:4] == b"lost"
        if rewrite:
            region.rewrite(2, 3)
        for seed in range(20):
            again.write_back(Random(seed))
        region.sync()
        left = {content[:4] for content in contents(again) if content}
        assert (bytes(4) in left) != rewrite
        region.memory[:4] = bytes(4)
        again.step()
        region.memory[:4] = b"lost"
        region.sync()
        assert {content[:4] for content in contents(again) if content} == {b"lost"}


def test_batch_file_has_its_size_when_it_has_its_name():
    """Holds after a kill at any step. A power cut may preserve the name and lose the size."""
    paths = [PATH, PATH.with_name("other"), Path("/a/c/file")]
    steps = step_count(lambda disk: disk.write_all([(path, 9, b"x", 99) for path in paths]), None)
    for step in range(steps):
        disk = ShadowDisk()
        disk.cut_at = step
        with pytest.raises(PowerCut):
            disk.write_all([(path, 9, b"x", 99) for path in paths])
        killed = disk.kill()
        for path in paths:
            assert not holds(killed, path) or killed.read(path) == bytes(9) + b"x" + bytes(89)
    disk = ShadowDisk()
    disk.write_all([(path, 9, b"x", 99) for path in paths])
    assert all(contents(disk, path) == {bytes(9) + b"x" + bytes(89)} for path in paths)


def test_full_disk_recovers():
    disk = ShadowDisk()
    disk.room = SIZE - 1
    with pytest.raises(OSError) as failure:
        disk.create(PATH, SIZE)
    assert failure.value.errno == errno.ENOSPC
    assert disk.names(PATH.parent) == []
    disk.room = None
    disk.create(PATH, SIZE)
    assert disk.names(PATH.parent) == ["file"]


def test_held_work_runs_when_released_or_awaited():
    disk = ShadowDisk()
    disk.release()
    assert disk.begin(lambda: 1).done(), "work is held on request only"
    disk.hold()
    released, waited = disk.begin(lambda: 2), disk.begin(lambda: 3)
    assert not released.done()
    assert waited.result() == 3
    disk.release()
    assert released.result() == 2


@pytest.mark.parametrize("make", [ShadowDisk, RealDisk])
def test_shadow_disk_behaves_like_the_real_one(make, tmp_path):
    disk, path = make(), tmp_path / "folder" / "file"
    with pytest.raises(FileNotFoundError):
        disk.read(path)
    assert disk.names(path.parent) == []
    disk.delete(path)
    disk.replace(path, b"12345678")
    assert (disk.read(path), disk.size(path), disk.read_at(path, 6, 5)) == (b"12345678", 8, b"78")
    with pytest.raises(BadState):
        disk.map(path, 9)
    region = disk.map(path, 8)
    assert (region.find(b"34", 0), region.find(b"34", 3)) == (2, -1)
    region.memory[0:1] = b"x"
    region.sync()
    region.close()
    assert disk.read(path) == b"x2345678"
    disk.write_at(path.with_name("holes"), 3, b"abc", 10)
    assert disk.read(path.with_name("holes")) == b"\0\0\0abc\0\0\0\0"
    assert disk.names(path.parent) == ["file", "holes"]
    assert disk.names(tmp_path) == ["folder"]
    lock = disk.lock(path.with_name("lock"))
    with pytest.raises(BadState):
        disk.lock(path.with_name("lock"))
    lock.release()
    disk.lock(path.with_name("lock")).release()
    disk.delete(path)
    assert not holds(disk, path)


def prepared(old: bytes | None) -> ShadowDisk:
    disk = ShadowDisk()
    if old is not None:
        disk.replace(PATH, old)
    return disk


def step_count(work, old: bytes | None) -> int:
    disk = prepared(old)
    before = disk.steps
    work(disk)
    return disk.steps - before
