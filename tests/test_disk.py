"""The file system as a Disk: order of its steps, modes, links, locks, full disks."""

import errno
import os
from pathlib import Path

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BadState


@pytest.fixture
def steps(monkeypatch):
    """What is asked of the system, in order, by the name of the file it is asked for."""
    taken = []

    def name_of(descriptor):
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def spy(name, shown):
        real = getattr(os, name)

        def called(*arguments):
            taken.append((name, shown(arguments[0])))
            return real(*arguments)

        monkeypatch.setattr(os, name, called)

    spy("fsync", name_of)
    spy("fdatasync", name_of)
    spy("pwrite", name_of)
    real_replace = Path.replace

    def replace(self, target):
        taken.append(("rename", Path(target).name))
        return real_replace(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    return taken


def test_a_file_is_replaced_only_by_one_that_is_durable(tmp_path, steps):
    RealDisk().replace(tmp_path / "state", b"new")
    assert steps == [
        ("pwrite", "state.tmp"),
        ("fsync", "state.tmp"),
        ("rename", "state"),
        ("fsync", tmp_path.name),
    ]


def test_a_new_folder_is_durable_in_the_one_above(tmp_path, steps):
    RealDisk().create(tmp_path / "a" / "b" / "file", 4096).close()
    assert steps == [
        ("fsync", tmp_path.name),
        ("fsync", "a"),
        ("fsync", "file.tmp"),
        ("rename", "file"),
        ("fsync", "b"),
    ]
    assert (tmp_path / "a" / "b" / "file").stat().st_blocks * 512 >= 4096, "allocated, not a hole"


def test_a_part_of_a_file_is_durable_when_written(tmp_path, steps):
    disk = RealDisk()
    disk.write_at(tmp_path / "queue", 40, b"unit", 100)
    assert steps[-2:] == [("pwrite", "queue"), ("fdatasync", "queue")]
    assert (tmp_path / "queue").read_bytes() == bytes(40) + b"unit" + bytes(56)
    assert disk.read_at(tmp_path / "queue", 40, 4) == b"unit"
    assert disk.read_at(tmp_path / "queue", 98, 10) == bytes(2)


def test_mode_and_link_of_a_replaced_file_stay(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("secret")
    kept.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(kept)
    RealDisk().replace(link, b"changed")
    assert link.is_symlink()
    assert kept.read_bytes() == b"changed"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_new_file_is_not_for_others_to_write_or_run(tmp_path):
    RealDisk().replace(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode & 0o133 == 0


def test_what_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "state"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(os, "posix_fallocate", full)
    for attempt in (
        lambda: RealDisk().replace(path, b"new"),
        lambda: RealDisk().create(tmp_path / "log", 4096),
    ):
        with pytest.raises(OSError, match="No space"):
            attempt()
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
    assert path.read_bytes() == b"old"


def test_a_mapped_file_keeps_what_is_written_and_outlives_its_closing(tmp_path):
    disk, path = RealDisk(), tmp_path / "log"
    region = disk.create(path, 4096)
    region.memory[10:14] = b"data"
    region.sync()
    view = region.memory[10:14]
    assert region.find(b"ata", 0) == 11
    region.close()
    assert bytes(view) == b"data", "a reader that holds a view is not cut off"
    again = disk.map(path, 4096)
    assert bytes(again.memory[10:14]) == b"data"
    again.close()
    with pytest.raises(BadState, match="4096"):
        disk.map(path, 8192)


def test_a_store_is_held_by_one_process(tmp_path):
    disk = RealDisk()
    lock = disk.lock(tmp_path / "lock")
    with pytest.raises(BadState, match="another process"):
        disk.lock(tmp_path / "lock")
    lock.release()
    disk.lock(tmp_path / "lock").release()


def test_what_is_not_there_is_no_trouble(tmp_path):
    disk = RealDisk()
    assert disk.names(tmp_path / "nowhere") == []
    disk.delete(tmp_path / "nowhere" / "file")
    disk.delete(tmp_path / "file")
    assert 0 <= disk.used_ratio(tmp_path) <= 1
    assert disk.begin(lambda: 42).result() == 42
