"""One queue's units: against a list, in memory and in files, over restarts, cuts and forgetting.

What is to hold is in docs/disk.md, section 2.
"""

import random

import pytest

from cometmq.disk import RealDisk
from cometmq.store.queue.consume_queue import BLANK_UNIT, NO_RECORD, UNIT, ConsumeQueue
from cometmq.store.queue.results import UnitVerdict

PER_FILE = 10


def always(key, queue_offset, physical, size):
    return UnitVerdict.GOOD if size > 0 else UnitVerdict.STRAY


@pytest.fixture
def opened(tmp_path):
    def open_queue(judge=always, disk=None):
        queue = ConsumeQueue(tmp_path / "0", PER_FILE * 20, disk or RealDisk())
        queue.load(judge)
        return queue

    return open_queue


def unit(i):
    return i * 100, 100, i * 7 - 50


def fill(queue, count):
    for i in range(queue.end, queue.end + count):
        queue.append(*unit(i))


def flush(queue):
    disk, end = RealDisk(), queue.end
    for write in queue.unwritten():
        disk.write_at(*write)
    queue.written(end)


def all_units(queue):
    """By reads of every length, joined."""
    units, at = [], queue.first
    while at < queue.end:
        found = queue.units(at, 7)
        assert found and len(found) % 20 == 0
        units += UNIT.iter_unpack(found)
        at += len(found) // 20
    return units


def file_names(tmp_path):
    return sorted(path.name for path in (tmp_path / "0").iterdir())


def test_an_empty_queue(opened, tmp_path):
    queue = opened()
    assert (queue.first, queue.end, queue.has_unwritten) == (0, 0, False)
    assert queue.units(0, 5) == b"" and queue.unit(0) is None
    assert queue.unwritten() == []
    assert not (tmp_path / "0").exists()


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25])
def test_units_are_the_same_from_memory_files_and_after_a_restart(opened, tmp_path, count):
    queue = opened()
    fill(queue, count)
    expected = [unit(i) for i in range(count)]
    assert all_units(queue) == expected
    flush(queue)
    assert all_units(queue) == expected
    again = opened()
    assert (again.first, again.end) == (0, count)
    assert all_units(again) == expected
    bases = [f"{base:020}" for base in range(0, count * 20, PER_FILE * 20)]
    assert file_names(tmp_path) == bases
    content = b"".join((tmp_path / "0" / name).read_bytes() for name in bases)
    packed = b"".join(UNIT.pack(*unit(i)) for i in range(count))
    assert content == packed.ljust(len(bases) * 200, b"\0"), "zeros after the last unit"


def test_reads_outside_of_the_queue_give_nothing(opened):
    queue = opened()
    fill(queue, 5)
    for offset, count in [(5, 1), (6, 1), (-1, 5), (0, 0), (0, -1)]:
        assert queue.units(offset, count) == b""
    assert queue.unit(5) is None
    assert queue.unit(4) == unit(4)


def test_a_long_queue_keeps_little_in_memory_and_reads_across(opened):
    queue = opened()
    for _ in range(50):
        fill(queue, 100)
        flush(queue)
    assert len(queue._units) <= 2 * 1024 * 20 + 2000
    assert all_units(queue) == [unit(i) for i in range(5000)]


class CountingDisk(RealDisk):
    reads = 0

    def read_at(self, path, offset, size):
        self.reads += 1
        return super().read_at(path, offset, size)


def test_who_reads_on_needs_few_reads_of_files(tmp_path):
    disk = CountingDisk()
    queue = ConsumeQueue(tmp_path / "0", 4000 * 20, disk)
    fill(queue, 4000)
    flush(queue)
    queue = ConsumeQueue(tmp_path / "0", 4000 * 20, disk)
    queue.load(always)
    disk.reads = 0
    for at in range(0, 4000, 32):
        found = list(UNIT.iter_unpack(queue.units(at, 32)))
        assert found == [unit(i) for i in range(at, at + 32)]
    assert disk.reads <= 4000 // 256 + 1
    assert queue.units(5, 800) == b"".join(UNIT.pack(*unit(i)) for i in range(5, 805))


def test_units_of_columns(opened):
    queue = opened()
    fill(queue, 3)
    queue.append_all(*zip(*map(unit, range(3, 9)), strict=True))
    assert queue.end == 9
    assert all_units(queue) == [unit(i) for i in range(9)]


def test_units_appended_while_a_flush_runs_are_written_by_the_next(opened):
    queue = opened()
    fill(queue, 5)
    writes, end = queue.unwritten(), queue.end
    fill(queue, 5)
    for write in writes:
        RealDisk().write_at(*write)
    queue.written(end)
    assert queue.has_unwritten
    assert opened().end == 5
    flush(queue)
    assert not queue.has_unwritten
    assert all_units(opened()) == [unit(i) for i in range(10)]


def test_a_flush_that_failed_is_done_again(opened):
    queue = opened()
    fill(queue, 15)
    RealDisk().write_at(*queue.unwritten()[0])  # and the second one failed
    fill(queue, 3)
    flush(queue)
    assert all_units(opened()) == [unit(i) for i in range(18)]


@pytest.mark.parametrize("good", [0, 1, 9, 10, 11, 24])
def test_stale_units_at_the_end_are_cut_for_good(opened, good):
    """Those whose record does not say that it belongs there."""
    queue = opened()
    fill(queue, 25)
    flush(queue)
    seen = []

    def judge(key, queue_offset, physical, size):
        assert (physical, size) == unit(queue_offset)[:2]
        seen.append(queue_offset)
        return UnitVerdict.GOOD if queue_offset < good else UnitVerdict.STRAY

    assert opened(judge).end == good
    assert seen == list(range(24, max(good - 2, -1), -1))
    assert all_units(opened()) == [unit(i) for i in range(good)], "zeros stand there now"


def test_a_cut_queue_grows_again(opened):
    chance = random.Random(1)
    queue, end = opened(), 0
    for _ in range(200):
        match chance.choice(["fill", "flush", "cut", "load"]):
            case "fill":
                count = chance.randrange(15)
                fill(queue, count)
                end += count
            case "flush":
                flush(queue)
            case "cut":
                end = chance.randrange(max(0, end - 12), end + 1)
                queue.cut(end)
            case "load":
                flush(queue)
                queue = opened()
        assert (queue.first, queue.end) == (0, end)
        assert all_units(queue) == [unit(i) for i in range(end)]


@pytest.mark.parametrize("first", [1, 9, 10, 11, 30, 1234])
def test_a_queue_may_begin_late(opened, tmp_path, first):
    """Its older records left the log; blanks stand before the first unit of its file."""
    queue = opened()
    queue.start_at(first)
    assert (queue.first, queue.end) == (first, first)
    fill(queue, 12)
    assert all_units(queue) == [unit(i) for i in range(first, first + 12)]
    flush(queue)
    base = first - first % PER_FILE
    content = (tmp_path / "0" / f"{base * 20:020}").read_bytes()
    assert content[: first % PER_FILE * 20] == BLANK_UNIT * (first % PER_FILE)
    again = opened()
    assert again.end == first + 12
    again.forget_before(first * 100)
    assert (again.first, again.end) == (first, first + 12)
    assert all_units(again) == [unit(i) for i in range(first, first + 12)]


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize(
    ("log_start", "first"), [(0, 0), (1, 1), (950, 10), (1000, 10), (2399, 24)]
)
def test_what_left_the_log_is_forgotten(opened, tmp_path, flushed, log_start, first):
    queue = opened()
    fill(queue, 25)
    if flushed:
        flush(queue)
    queue.forget_before(log_start)
    assert (queue.first, queue.end) == (first, 25)
    assert queue.units(first - 1, 1) == b""
    assert all_units(queue) == [unit(i) for i in range(first, 25)]
    if flushed:
        assert queue.span == (first // 10 * 200, 400)
        gone = [base for base in (0, 200, 400) if base < first // 10 * 200]
        assert queue.files_before_first() == [tmp_path / "0" / f"{base:020}" for base in gone]
    else:
        flush(queue)
        assert all_units(queue) == [unit(i) for i in range(first, 25)]


def test_all_of_it_may_leave_the_log(opened):
    queue = opened()
    fill(queue, 25)
    flush(queue)
    queue.forget_before(99_999)
    assert (queue.first, queue.end) == (25, 25)
    fill(queue, 10)
    flush(queue)
    assert all_units(queue) == [unit(i) for i in range(25, 35)]
    assert opened().end == 35


def test_damaged_records_have_a_place_but_no_size(opened):
    queue = opened()
    fill(queue, 2)
    queue.append(200, NO_RECORD, 0)
    fill(queue, 2)
    flush(queue)
    assert opened().end == 5
    assert opened().unit(2) == (200, NO_RECORD, 0)


@pytest.mark.parametrize("size", [0, 1, 45, 199])
def test_a_short_last_file_is_filled_up(opened, tmp_path, size):
    """A crash came before it was whole; Apache's broker wants whole ones."""
    queue = opened()
    fill(queue, 15)
    flush(queue)
    path = tmp_path / "0" / f"{200:020}"
    path.write_bytes(path.read_bytes()[:size])
    again = opened()
    assert again.end == 10 + min(size // 20, 5)
    end = again.end
    fill(again, 4)
    flush(again)
    assert path.stat().st_size == 200
    assert all_units(opened()) == [unit(i) for i in range(end + 4)]


def test_odd_names_are_passed_over(opened, tmp_path):
    queue = opened()
    fill(queue, 3)
    flush(queue)
    for name in ("README", f"{200:020}.tmp", "200"):
        (tmp_path / "0" / name).write_bytes(b"mine")
    assert opened().end == 3
    queue.forget_before(10_000)
    assert queue.files_before_first() == []
