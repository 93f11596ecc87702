"""The log's row of files: rolling, blanks, views, cuts, and what a start finds there.

What is to hold is in docs/disk.md, section 1.
"""

import errno
import struct
import threading

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BadState, TooLarge
from cometmq.store.log.commit_log import CommitLog
from store.rig import WatchedDisk

SIZE = 4096
BLANK_MAGIC = bytes.fromhex("CBD43194")


@pytest.fixture
def opened(tmp_path):
    """Open the log of this test's folder."""

    def open_log(disk=None, odd=None):
        log = CommitLog(tmp_path / "commitlog", SIZE, disk or RealDisk())
        said = [] if odd is None else odd
        log.load(said.append)
        assert odd is not None or said == []
        return log

    return open_log


def append(log, data):
    file = log.room_for(len(data))
    offset = file.end
    file.memory[file.written : file.written + len(data)] = data
    file.written += len(data)
    return offset


def names(tmp_path):
    return sorted(path.name for path in (tmp_path / "commitlog").iterdir())


def test_an_empty_log_has_no_file(opened, tmp_path):
    log = opened()
    assert (log.start, log.end, log.files) == (0, 0, ())
    assert log.view(0, 1) is None and log.file_at(0) is None
    log.cut(0)
    log.close()
    assert not (tmp_path / "commitlog").exists()


def test_files_are_named_by_their_offset_and_whole(opened, tmp_path):
    log = opened()
    offsets = [append(log, bytes([i]) * 1000) for i in range(1, 10)]
    assert offsets == [0, 1000, 2000, 3000, 4096, 5096, 6096, 7096, 8192]
    assert names(tmp_path) == [f"{base:020}" for base in (0, 4096, 8192)]
    assert {path.stat().st_size for path in (tmp_path / "commitlog").iterdir()} == {SIZE}
    assert (log.start, log.end) == (0, 9192)


def test_a_blank_marks_the_rest_of_a_file(opened, tmp_path):
    log = opened()
    append(log, b"x" * 4000)
    append(log, b"y" * 100)
    content = (tmp_path / "commitlog" / f"{0:020}").read_bytes()
    assert content[4000:] == struct.pack(">i", 96) + BLANK_MAGIC + bytes(88)


@pytest.mark.parametrize("first", [4000, 4087, 4088])
def test_a_blank_always_has_room(opened, first):
    """A record never leaves less than the eight bytes of a blank."""
    log = opened()
    assert append(log, b"x" * first) == 0
    assert append(log, b"y" * 1) == (first if first < 4088 - 0 else SIZE)
    assert append(log, b"z" * 88) == SIZE + (1 if first == 4088 else 0)
    assert bytes(log.files[0].memory[-8:]) != bytes(8) or first == 4000


def test_what_fits_no_file_is_refused_and_changes_nothing(opened, tmp_path):
    log = opened()
    append(log, b"x" * 4000)
    before = (tmp_path / "commitlog" / f"{0:020}").read_bytes()
    with pytest.raises(TooLarge, match="4089 bytes does not fit a file of 4096"):
        log.room_for(SIZE - 8 + 1)
    assert log.end == 4000
    assert (tmp_path / "commitlog" / f"{0:020}").read_bytes() == before
    assert append(log, b"y" * (SIZE - 8)) == SIZE


def test_views_show_what_is_in_use_and_no_more(opened):
    log = opened()
    append(log, b"x" * 4000)
    append(log, b"y" * 100)
    assert bytes(log.view(0, 4000)) == b"x" * 4000
    assert bytes(log.view(4096, 100)) == b"y" * 100
    assert bytes(log.view(4100, 1)) == b"y"
    for offset, size in [(4096, 101), (4000, 200), (-1, 1), (4196, 1), (99999, 1), (0, 0), (0, -5)]:
        assert log.view(offset, size) is None
    assert log.file_at(4195).base == 4096
    assert log.file_at(4196) is None


def test_a_full_disk_is_told_and_can_be_tried_again(opened):
    disk = WatchedDisk()
    disk.room = 0
    log = opened(disk)
    with pytest.raises(OSError, match="No space"):
        append(log, b"x")
    assert log.end == 0
    disk.room = 1
    append(log, b"x" * 4000)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            append(log, b"y" * 100)
    assert bytes(log.view(0, 4000)) == b"x" * 4000
    disk.room = 1
    assert append(log, b"y" * 100) == SIZE


def test_the_next_file_is_made_ahead_of_need(opened, tmp_path):
    disk = WatchedDisk()
    log = opened(disk)
    log.begin_next()
    append(log, b"x" * 2000)
    log.begin_next()
    assert len(names(tmp_path)) == 1, "not yet"
    append(log, b"x" * 100)
    for _ in range(3):
        log.begin_next()
    log._next.result()
    assert names(tmp_path) == [f"{0:020}", f"{SIZE:020}"]
    disk.room = 0
    append(log, b"y" * 4000)
    assert log.end == SIZE + 4000
    log.close()
    assert len(names(tmp_path)) == 2


def test_a_next_file_that_was_not_used_goes_with_the_log(opened, tmp_path):
    log = opened()
    append(log, b"x" * 3000)
    log.begin_next()
    log.close()
    assert names(tmp_path) == [f"{0:020}"]


def test_a_next_file_that_could_not_be_made_is_tried_again_when_needed(opened):
    """Or a put would fail although there is room again."""
    disk = WatchedDisk()
    log = opened(disk)
    append(log, b"x" * 3000)
    disk.room = 0
    log.begin_next()
    assert log._next.exception() is not None
    disk.room = 1
    assert append(log, b"y" * 2000) == SIZE


def test_a_log_is_found_again(opened):
    log = opened()
    for i in range(9):
        append(log, bytes([i]) * 1000)
    log.close()
    again = opened()
    assert [file.base for file in again.files] == [0, 4096, 8192]
    assert again.end == 3 * SIZE, "until the caller has found its end"
    again.cut(8192 + 1000)
    assert again.end == 9192
    assert bytes(again.view(8192, 1000)) == b"\x08" * 1000


@pytest.mark.parametrize(
    ("end", "files"), [(9000, 3), (8192, 2), (8191, 2), (4097, 2), (4096, 1), (1, 1), (0, 1)]
)
def test_a_cut_is_durable(opened, tmp_path, end, files):
    log = opened()
    for _ in range(9):
        append(log, b"x" * 1000)
    log.close()
    disk = WatchedDisk()
    log = opened(disk)
    stale = any(log.files[(end - 1) // SIZE].memory[end % SIZE or SIZE :]) if end else True
    log.cut(end)
    assert log.end == end
    last = (files - 1) * SIZE
    assert len(names(tmp_path)) == files
    content = (tmp_path / "commitlog" / f"{last:020}").read_bytes()
    assert content[end - last :] == bytes(SIZE - (end - last)), "what stood there never comes back"
    assert [path.name for path in disk.synced] == ([f"{last:020}"] if stale else [])


def test_a_cut_that_changes_nothing_costs_no_sync(opened):
    log = opened()
    append(log, b"x" * 100)
    log.close()
    disk = WatchedDisk()
    log = opened(disk)
    log.cut(100)
    assert disk.synced == []


def test_a_dropped_file_is_gone_but_for_those_who_read_it(opened, tmp_path):
    log = opened()
    for i in range(9):
        append(log, bytes([i]) * 1000)
    held = log.view(1000, 1000)
    gone = log.drop_oldest()
    assert gone.path.name == f"{0:020}"
    gone.sync()  # as one that was under way may
    gone.close()
    RealDisk().delete(gone.path)
    assert (log.start, log.end) == (4096, 9192)
    assert log.view(1000, 1000) is None
    assert bytes(log.view(4096, 1000)) == b"\x04" * 1000
    assert bytes(held) == b"\x01" * 1000
    assert names(tmp_path) == [f"{4096:020}", f"{8192:020}"]
    log.close()
    assert opened().start == 4096


@pytest.mark.parametrize("size", [0, 1, 4095])
def test_a_last_file_that_never_was_whole_is_removed(opened, tmp_path, size):
    log = opened()
    append(log, b"x" * 100)
    log.close()
    (tmp_path / "commitlog" / f"{SIZE:020}").write_bytes(bytes(size))
    odd = []
    assert len(opened(odd=odd).files) == 1
    assert len(odd) == 1 and f"{SIZE:020} has {size} bytes" in odd[0]
    assert names(tmp_path) == [f"{0:020}"]


def test_a_short_last_file_that_holds_something_is_not_thrown_away(opened, tmp_path):
    """Somebody cut it, or changed the setting of its size: a person must look."""
    log = opened()
    append(log, b"x" * 100)
    log.close()
    path = tmp_path / "commitlog" / f"{0:020}"
    path.write_bytes(path.read_bytes()[:2048])
    with pytest.raises(BadState, match="2048"):
        opened(odd=[])
    assert path.read_bytes()[:100] == b"x" * 100


def test_a_gap_or_a_wrong_size_is_refused_by_name(opened, tmp_path):
    log = opened()
    for _ in range(9):
        append(log, b"x" * 1000)
    log.close()
    middle = tmp_path / "commitlog" / f"{4096:020}"
    content = middle.read_bytes()
    middle.write_bytes(content[:-1])
    with pytest.raises(BadState, match=f"{4096:020} has 4095 bytes, not 4096"):
        opened()
    middle.unlink()
    with pytest.raises(BadState, match=f"{4096:020} is missing, between .* and .*{8192:020}"):
        opened()


def test_files_of_others_are_left_alone(opened, tmp_path):
    log = opened()
    append(log, b"x" * 100)
    log.close()
    for name in ("README", f"{4096:020}.tmp", f"{4096:019}", "1" * 19 + "x"):
        (tmp_path / "commitlog" / name).write_bytes(b"mine")
    odd = []
    assert len(opened(odd=odd).files) == 1
    assert len(odd) == 4
    assert len(names(tmp_path)) == 5


class WarmRegion:
    def __init__(self, inner, disk):
        self.path, self.memory, self.close = inner.path, inner.memory, inner.close
        self._warmed, self._cooled, self._failure = disk.warmed, disk.cooled, disk.failure

    def warm(self, pages):
        self._warmed.append((self.path.name, pages, threading.current_thread().name))
        if self._failure:
            raise self._failure

    def cool(self):
        self._cooled.append(self.path.name)


class WarmDisk(RealDisk):
    def __init__(self):
        super().__init__()
        self.warmed, self.cooled, self.begun = [], [], []
        self.failure = None

    def begin(self, work):
        self.begun.append(super().begin(work))
        return self.begun[-1]

    def create(self, path, size):
        return WarmRegion(super().create(path, size), self)


def test_only_a_file_made_ahead_is_warmed_and_not_by_who_puts(tmp_path):
    disk = WarmDisk()
    log = CommitLog(tmp_path, 4096, disk, warm_pages=7)
    log.room_for(3000).written += 3000
    assert disk.warmed == []
    log.begin_next()
    log.room_for(3000).written += 3000
    ((name, pages, thread),) = disk.warmed
    assert (name, pages) == (f"{4096:020}", 7)
    assert thread != threading.current_thread().name
    assert disk.begun[-1].result(60) is None
    assert disk.cooled == [f"{0:020}"], "the one that is full"
    log.close()


def test_a_file_that_could_not_be_warmed_is_made_again_when_needed(tmp_path):
    disk = WarmDisk()
    disk.failure = OSError(errno.EIO, "Input/output error")
    log = CommitLog(tmp_path, 4096, disk, warm_pages=7)
    log.room_for(3000).written += 3000
    log.begin_next()
    assert log.room_for(3000).base == 4096
    log.close()


def test_none_is_warmed_unless_asked_for(tmp_path):
    disk = WarmDisk()
    log = CommitLog(tmp_path, 4096, disk)
    log.room_for(3000).written += 3000
    log.begin_next()
    log.room_for(3000)
    assert disk.warmed == disk.cooled == []
    log.close()
