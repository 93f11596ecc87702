"""The file system as a Disk: order of its steps, modes, links, locks, full disks."""

import errno
import mmap
import os
import re
import resource
from pathlib import Path

import pytest

from cometmq import disk as disk_module
from cometmq.disk import RealDisk
from cometmq.errors import BadState

NAMELESS = "a file without a name"


@pytest.fixture
def steps(monkeypatch):
    """What is asked of the system, in order, by the name of the file it is asked for."""
    taken = []

    def name_of(descriptor):
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        return NAMELESS if name.endswith("(deleted)") else name

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
    real_link = os.link

    def link(source, target, **how):
        taken.append(("link", Path(target).name))
        return real_link(source, target, **how)

    monkeypatch.setattr(os, "link", link)
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
        ("fsync", NAMELESS),
        ("link", "file"),
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


def test_new_files_are_whole_before_they_have_a_name(tmp_path, steps):
    """A killed process leaves no file of no size: the original would refuse the store."""
    disk = RealDisk()
    new = [tmp_path / "queues" / name / "file" for name in ("a", "b")]
    disk.write_all([(path, 40, b"unit", 100) for path in new])
    assert steps[:4] == [("pwrite", NAMELESS), ("link", "file")] * 2
    assert steps[4:6] == [("fdatasync", NAMELESS)] * 2, "as the system calls it for ever"
    assert sorted(steps[6:]) == [
        ("fsync", name) for name in sorted(["a", "b", "queues", tmp_path.name])
    ]
    for path in new:
        assert path.read_bytes() == bytes(40) + b"unit" + bytes(56)
        assert path.stat().st_mode & 0o133 == 0
    steps.clear()
    disk.write_all([(new[0], 0, b"more", 100)])
    assert steps == [("pwrite", "file"), ("fdatasync", "file")], "its name is durable already"


@pytest.mark.parametrize("refusal", [errno.EOPNOTSUPP, errno.EISDIR, None, "no name"])
def test_where_no_file_can_be_without_a_name_it_has_another(tmp_path, steps, monkeypatch, refusal):
    if refusal is None:
        monkeypatch.setattr(disk_module, "_NAMELESS", 0)
    real_open = os.open

    def refusing(path, flags, *rest, **how):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(refusal, "no such files here")
        return real_open(path, flags, *rest, **how)

    def unlinked(source, target, **how):
        raise OSError(errno.EPERM, "not here")

    if refusal == "no name":
        monkeypatch.setattr(os, "link", unlinked)
    else:
        monkeypatch.setattr(os, "open", refusing)
    RealDisk().create(tmp_path / "log", 4096).close()
    assert steps[-3:] == [("fsync", "log.tmp"), ("rename", "log"), ("fsync", tmp_path.name)]
    assert steps[:-3] == ([("fsync", NAMELESS)] if refusal == "no name" else [])

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        RealDisk().create(tmp_path / "next", 4096)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_file_that_could_not_be_made_whole_can_be_made_again(tmp_path, monkeypatch):
    """The sync of its folder failed: its name is there."""
    disk = RealDisk()
    with monkeypatch.context() as broken:
        real_fsync = os.fsync

        def fails(descriptor):
            if Path(f"/proc/self/fd/{descriptor}").is_dir():
                raise OSError(errno.EIO, "Input/output error")
            real_fsync(descriptor)

        broken.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output"):
            disk.create(tmp_path / "log", 4096)
    region = disk.create(tmp_path / "log", 8192)
    assert len(region.memory) == 8192
    region.close()


def test_a_sync_that_fails_among_many_is_told_when_none_is_at_work(tmp_path, monkeypatch):
    writes = [(tmp_path / str(i) / "file", 0, b"unit", 100) for i in range(300)]
    closed = []
    at_work = []
    real_close = os.close

    def fails(descriptor):
        at_work.append(descriptor)
        if len(at_work) == 100:
            raise OSError(errno.EIO, "Input/output error")

    def close(descriptor):
        closed.append(len(at_work))
        real_close(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fails)
        broken.setattr(os, "close", close)
        disk = RealDisk()
        with pytest.raises(OSError, match="Input/output"):
            disk.write_all(writes)
    assert set(closed) == {len(at_work)}, "no file was closed while another was synced"
    disk.write_all(writes)  # and this syncs the folders too


def test_the_pages_of_a_warmed_file_are_in_memory(tmp_path, steps):
    region = RealDisk().create(tmp_path / "log", 200 * 4096)
    steps.clear()
    region.warm(64)
    assert steps == [("fdatasync", "log")] * 4, "three times 64 pages, and the rest"
    assert not bytes(region.memory).strip(b"\0")
    region.close()


def locked():
    """Bytes of this process that cannot leave memory."""
    (found,) = re.findall(r"^VmLck:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    return int(found) * 1024


def test_a_warmed_file_is_locked_in_memory_until_it_is_cooled(tmp_path, monkeypatch):
    size = 16 * 4096
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] in range(size):
        pytest.skip("this shell lets nothing be locked: ulimit -l")
    monkeypatch.setattr("cometmq.region._LOCKED_TOGETHER", 3 * 4096)
    before = locked()
    for end in ("cool", "close"):
        region = RealDisk().create(tmp_path / end, size)
        region.warm(64)
        assert locked() == before + size
        view = region.memory[:1]
        getattr(region, end)()
        assert locked() == before
        view[:] = b"x"  # it is mapped, as long as somebody looks


def test_a_file_that_cannot_be_locked_is_used_as_it_is(tmp_path, monkeypatch, caplog):
    real_map, size = mmap.mmap, 16 * 4096

    def map_parts(descriptor, length, *rest, offset=0, **more):
        if offset:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real_map(descriptor, length, *rest, **more)

    monkeypatch.setattr("cometmq.region._LOCKED_TOGETHER", 4096)
    monkeypatch.setattr(mmap, "mmap", map_parts)
    before = locked()
    region = RealDisk().create(tmp_path / "log", size)
    region.warm(64)
    assert locked() == before, "not in part either"
    assert "ulimit -l" in caplog.text
    region.memory[:] = bytes(size)
    region.sync()
    region.close()


def test_what_is_rewritten_stays_as_it_was(tmp_path):
    region = RealDisk().create(tmp_path / "log", 3 * 4096)
    region.memory[:] = content = os.urandom(3 * 4096)
    for start, end in ((0, 3 * 4096), (100, 101), (4095, 4097), (5000, 5000)):
        region.rewrite(start, end)
        assert region.memory == content
    region.close()


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
