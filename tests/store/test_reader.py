"""Reads of a queue: every status and where to read on (seed 001, getMessage), limits, filters."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.disk import RealDisk
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import unpack_record, unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.new_message import NewMessage, RecordWriter
from cometmq.store.log.vetting import Vetting
from cometmq.store.queue.consume_queue import NO_RECORD, ConsumeQueue
from cometmq.store.queue.reader import Reader, ReadLimits
from cometmq.store.queue.results import GetStatus
from searches import examples
from store.rig import bodies, message, open_store, read_all

MEMORY = 1 << 30


class Rig:
    """A log and one queue in it, written by hand."""

    def __init__(self, folder, file_size=1 << 20, **limits):
        self.log = CommitLog(folder / "log", file_size, RealDisk())
        self.queue = ConsumeQueue(folder / "T" / "0", 6000, RealDisk())
        limits = ReadLimits(**({"memory": MEMORY} | limits))
        self.rebuilt = []
        self.reader = Reader(
            self.log, limits, Vetting(self.log), lambda _, offset: self.rebuilt.append(offset)
        )
        self._writer = RecordWriter(Host("127.0.0.1", 1), 4 << 20)

    def put(self, body=b"", tag="", queued=True, **properties):
        text = encode_properties(properties | ({"TAGS": tag} if tag else {}))
        one = NewMessage(topic="T", queue_id=0, body=body, properties_text=text)
        prepared = self._writer.prepare_one(one)
        file = self.log.room_for(prepared[0])
        offset = file.end
        self._writer.write_one(file.memory, file.written, offset, self.queue.end, 5, one, prepared)
        file.written += prepared[0]
        if queued:
            self.queue.append(offset, prepared[0], hash_code(tag))
        return offset, prepared[0]

    def get(self, offset=0, count=32, **filters):
        return self.reader.get(self.queue, offset, count, **filters)


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def summary(found):
    return found.status, found.next_offset, found.min_offset, found.max_offset, found.count


# Status and where to read on


@pytest.mark.parametrize("offset", [-1, 0, 1, 99])
def test_an_empty_queue(rig, offset):
    assert summary(rig.get(offset)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("offset", "status", "following"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (999, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
    ],
)
def test_outside_of_a_queue_that_begins_at_zero(rig, offset, status, following):
    for _ in range(5):
        rig.put()
    assert summary(rig.get(offset)) == (status, following, 0, 5, 0)


@pytest.mark.parametrize(
    ("offset", "status", "following"),
    [
        (0, GetStatus.OFFSET_TOO_SMALL, 100),
        (99, GetStatus.OFFSET_TOO_SMALL, 100),
        (105, GetStatus.OFFSET_OVERFLOW_ONE, 105),
        (106, GetStatus.OFFSET_OVERFLOW_BADLY, 105),
    ],
)
def test_outside_of_a_queue_that_begins_later(rig, offset, status, following):
    rig.queue.start_at(100)
    for _ in range(5):
        rig.put()
    assert summary(rig.get(offset)) == (status, following, 100, 105, 0)


def test_a_queue_whose_messages_are_all_gone(rig):
    rig.queue.start_at(100)
    assert summary(rig.get(99)) == (GetStatus.OFFSET_TOO_SMALL, 100, 100, 100, 0)
    assert summary(rig.get(100)) == (GetStatus.OFFSET_OVERFLOW_ONE, 100, 100, 100, 0)
    assert summary(rig.get(101)) == (GetStatus.OFFSET_OVERFLOW_BADLY, 100, 100, 100, 0)


def test_found(rig):
    for i in range(5):
        rig.put(b"%d" % i)
    assert summary(rig.get(0, 3)) == (GetStatus.FOUND, 3, 0, 5, 3)
    assert bodies(rig.get(3, 32)) == [b"3", b"4"]
    assert rig.get(3).next_offset == 5
    assert not rig.get(3).from_slave


def test_nothing_matches(rig):
    for _ in range(5):
        rig.put(tag="a")
    found = rig.get(1, 32, wants_tag=lambda code: code == 1)
    assert summary(found) == (GetStatus.NO_MATCHED_MESSAGE, 5, 0, 5, 0)


def test_a_read_looks_at_so_many_units_and_no_more(rig):
    """16000 bytes of them, as there; the consumer asks again from where it ended."""
    for i in range(900):
        rig.put(tag="wanted" if i == 850 else "other")

    def wants(code):
        return code == hash_code("wanted")

    found = rig.get(0, 32, wants_tag=wants)
    assert summary(found) == (GetStatus.NO_MATCHED_MESSAGE, 800, 0, 900, 0)
    assert summary(rig.get(800, 32, wants_tag=wants)) == (GetStatus.FOUND, 900, 0, 900, 1)


def test_records_that_left_the_log_are_told(tmp_path):
    rig = Rig(tmp_path, file_size=4096)
    for i in range(10):
        rig.put(bytes([i]) * 900)
    gone = sum(1 for i in range(10) if rig.queue.unit(i)[0] < 4096)
    rig.log.drop_oldest()
    found = rig.get(0, gone)
    assert summary(found) == (GetStatus.MESSAGE_WAS_REMOVING, gone, 0, 10, 0)


@pytest.mark.parametrize("count", [5, 10, 32])
def test_records_that_left_the_log_hide_none_that_are_there(tmp_path, count):
    """By the seed the loop goes on past them: what it then finds is returned, never skipped."""
    rig = Rig(tmp_path, file_size=4096)
    for i in range(10):
        rig.put(bytes([i]) * 900)
    gone = sum(1 for i in range(10) if rig.queue.unit(i)[0] < 4096)
    rig.log.drop_oldest()
    offset, seen = 0, []
    while offset < 10:
        found = rig.get(offset, count)
        seen += [body[0] for body in bodies(found)]
        assert found.next_offset > offset
        offset = found.next_offset
    assert seen == list(range(gone, 10))


def test_a_unit_that_cannot_be_read(rig, tmp_path):
    for _ in range(5):
        rig.put()
    rig.queue._kept = 5  # as if it had been flushed, to a file that somebody then cut
    (tmp_path / "T" / "0").mkdir(parents=True)
    (tmp_path / "T" / "0" / f"{0:020}").write_bytes(b"")
    found = rig.get(2)
    assert found.status is GetStatus.REBUILDING and rig.rebuilt == [2]
    assert found.next_offset == 2 and found.count == 0


# Limits


@pytest.mark.parametrize(
    ("size", "count", "expected"),
    [
        (10, 5, 5),
        (10, 32, 32),
        (10, 100, 32),  # 32 messages
        (100_000, 32, 2),  # 256 KiB
        (300_000, 32, 1),  # at least one
    ],
)
def test_limits_of_what_is_in_memory(tmp_path, size, count, expected):
    rig = Rig(tmp_path, file_size=64 << 20)
    for _ in range(100):
        rig.put(b"x" * size)
    found = rig.get(0, count)
    assert (found.count, found.next_offset) == (expected, expected)
    assert not found.from_slave


@pytest.mark.parametrize(
    ("size", "count", "expected"),
    [(10, 5, 5), (10, 32, 8), (30_000, 32, 2), (100_000, 32, 1)],  # 8 messages, 64 KiB
)
def test_limits_of_what_is_far_behind(tmp_path, size, count, expected):
    rig = Rig(tmp_path, file_size=64 << 20, memory=1 << 20)
    for _ in range(40):
        rig.put(b"x" * size)
    for _ in range(11):
        rig.put(b"y" * 100_000, queued=False)
    found = rig.get(0, count)
    assert (found.count, found.next_offset) == (expected, expected)
    assert found.from_slave, "a slave may have it in memory"


def test_limits_count_only_what_is_returned(tmp_path):
    rig = Rig(tmp_path)
    for i in range(100):
        rig.put(b"x" * 5_000, tag="ab"[i % 2])
    found = rig.get(0, 32, wants_tag=lambda code: code == hash_code("a"))
    assert (found.count, found.next_offset) == (32, 63)
    assert {one.properties["TAGS"] for view in found.views for one in unpack_records(view)} == {"a"}


# Filters and views


def test_a_tag_filter_sees_codes_and_a_record_filter_what_passed_it(rig):
    for i in range(10):
        rig.put(b"%d" % i, tag="ab"[i % 2], colour=f"c{i % 3}")
    looked_at = []

    def is_green(view):
        looked_at.append(unpack_record(view).body)
        return unpack_record(view).properties["colour"] == "c0"

    found = rig.get(0, 32, wants_tag=lambda code: code == hash_code("a"), wants_record=is_green)
    assert bodies(found) == [b"0", b"6"]
    assert looked_at == [b"0", b"2", b"4", b"6", b"8"]
    assert found.next_offset == 10


def test_neighbours_are_joined_into_one_view(rig):
    for i in range(3):
        rig.put(b"%d" % i)
    rig.put(queued=False)  # of another queue
    for i in range(3, 5):
        rig.put(b"%d" % i)
    found = rig.get(0)
    assert len(found.views) == 2
    assert bodies(found) == [b"0", b"1", b"2", b"3", b"4"]
    assert len(rig.get(0, 3).views) == 1
    every_other = iter([True, False, True, True, False])
    found = rig.get(0, wants_tag=lambda _: next(every_other))
    assert [len(list(unpack_records(view))) for view in found.views] == [1, 1, 1]


def test_a_view_never_spans_two_files(tmp_path):
    rig = Rig(tmp_path, file_size=4096)
    for i in range(30):
        rig.put(bytes([i]) * 300)
    found = rig.get(0, 32)
    assert [body[0] for body in bodies(found)] == list(range(30))
    assert len(found.views) == len(rig.log.files)


def test_a_damaged_record_is_passed_over(rig):
    rig.put(b"0")
    rig.queue.append(50, NO_RECORD, 0)
    rig.put(b"2")
    seen, offset = [], 0
    while offset < 3:
        found = rig.get(offset)
        seen += bodies(found)
        offset = found.next_offset
    assert seen == [b"0", b"2"]
    found = rig.get(1, 1)
    assert (found.status, found.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 2)


def test_reads_by_place(rig):
    first, _ = rig.put(b"0")
    second, _ = rig.put(b"1")
    assert rig.reader.record(first).body == b"0"
    assert rig.reader.record(second).body == b"1"
    for nowhere in (-1, rig.log.end, rig.log.end + 1, 1 << 40):
        assert rig.reader.record(nowhere) is None


def test_a_record_filter_alone_looks_as_far_as_a_tag_filter(tmp_path):
    """Or a consumer whose messages are rare needs a round trip for every 32 others."""

    async def story():
        async with open_store(tmp_path, mapped_file_size_commit_log=1 << 20) as store:
            for i in range(500):
                store.put(message(b"rare" if i == 499 else b"x"), 1)
            found = store.get(
                "T", 0, 0, 32, wants_record=lambda view: unpack_record(view).body == b"rare"
            )
            assert (found.count, found.next_offset) == (1, 500)
            assert len(read_all(store)) == 500

    asyncio.run(story())


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=40),
    st.integers(0, 39), st.integers(1, 40), st.integers(100, 8000), st.integers(1, 32),
)  # fmt: skip
def test_a_read_of_all_is_the_read_that_wants_all(puts, offset, count, bytes_max, count_max):
    """The short way finds what the unit by unit way finds, whatever stands between the records."""
    with TemporaryDirectory() as folder:
        rig = Rig(Path(folder), 4096, hot_bytes=bytes_max, hot_count=count_max)
        for size, queued in puts:
            rig.put(b"x" * size, queued=queued)
        short = rig.get(offset, count)
        assert short == rig.get(offset, count, wants_tag=lambda code: True)
