"""A walk along the log finds every good record, whatever stands between them.

What is to hold is in docs/disk.md, section 1.
"""

import pytest

from cometmq.disk import RealDisk
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, pack_record, unpack_record
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.walk import BadBytes, walk

SIZE = 4096


@pytest.fixture
def log(tmp_path):
    """Twelve records of various sizes in three files or four."""
    log = CommitLog(tmp_path, SIZE, RealDisk())
    for i in range(12):
        put(log, i, bytes([65 + i]) * (700 + 50 * (i % 3)))
    return log


def put(log, i, body):
    host = Host("::1" if i % 2 else "10.0.0.1", 5)
    fields = {"topic": "T", "queue_offset": i, "body": body, "born_host": host}
    size = len(pack_record(StoredMessage(**fields)))
    file = log.room_for(size)
    record = pack_record(StoredMessage(**fields, physical_offset=file.end))
    file.memory[file.written : file.written + size] = record
    file.written += size


def good(log, start=0):
    return [item[4] for item in walk(log, start) if not isinstance(item, BadBytes)]


def bad(log, start=0):
    return [item for item in walk(log, start) if isinstance(item, BadBytes)]


def place(log, i):
    """File and position of record i."""
    (item,) = [item for item in walk(log, 0) if item[4] == i]
    file = log.file_at(item[0])
    return file, item[0] - file.base, item[1]


def test_all_records_over_all_files(log):
    assert good(log) == list(range(12))
    assert bad(log) == []
    assert len(log.files) >= 3
    for item in walk(log, 0):
        record = unpack_record(log.view(item[0], item[1]))
        assert item == (
            record.physical_offset, len(pack_record(record)), record.topic, record.queue_id,
            record.queue_offset, record.sys_flag, record.stored_ms, record.properties_text, False,
        )  # fmt: skip


def test_an_empty_log(tmp_path):
    assert list(walk(CommitLog(tmp_path, SIZE, RealDisk()), 0)) == []


def test_from_a_record_or_a_file_on(log):
    file, at, _ = place(log, 6)
    assert good(log, file.base + at) == list(range(6, 12))
    assert log.files[1].base == SIZE
    first = good(log, SIZE)[0]
    assert good(log, SIZE) == list(range(first, 12))
    assert good(log, 99_999) == []


@pytest.mark.parametrize("i", range(11))
@pytest.mark.parametrize("damage", ["body", "magic", "length", "zeros", "offset", "blank"])
def test_a_damaged_record_costs_no_other(log, i, damage):
    file, at, size = place(log, i)
    match damage:
        case "body":
            file.memory[at + 200] ^= 1
        case "magic":
            file.memory[at + 4] ^= 1
        case "length":
            file.memory[at : at + 4] = b"\x7f\xff\xff\xff"
        case "zeros":
            file.memory[at : at + size] = bytes(size)
        case "offset":
            file.memory[at + 35] ^= 8
        case "blank":  # one that does not end where its file does
            file.memory[at : at + 8] = bytes.fromhex("00000100CBD43194")
    assert good(log) == [n for n in range(12) if n != i]
    last_of_file = at + 2 * size > file.size
    if not last_of_file:
        assert [(item.offset, item.size) for item in bad(log)] == [(file.base + at, size)]
        assert all(item.reason for item in bad(log))


def test_damage_at_the_end_of_a_full_file_is_told_too(log):
    """Other files follow it: this is no torn tail."""
    places = [place(log, i) for i in range(12)]
    last = max(i for i, (file, _, _) in enumerate(places) if file is log.files[0])
    file, at, _ = places[last]
    file.memory[at + 200] ^= 1
    assert good(log) == [n for n in range(12) if n != last]
    assert [item.offset for item in bad(log)] == [at]


def test_several_bad_records_in_a_row_are_one_stretch(log):
    file, at, first_size = place(log, 0)
    _, _, second_size = place(log, 1)
    file.memory[at + 200] ^= 1
    file.memory[at + first_size + 200] ^= 1
    assert good(log) == list(range(2, 12))
    assert [(item.offset, item.size) for item in bad(log)] == [(0, first_size + second_size)]


def test_a_record_inside_a_body_is_not_taken_for_one(tmp_path):
    """Its physical offset does not say where it stands, even when the outer one is damaged."""
    log = CommitLog(tmp_path, SIZE, RealDisk())
    inner = pack_record(StoredMessage(topic="T", queue_offset=99, body=b"x"))
    put(log, 0, b"abc" + inner + b"abc")
    put(log, 1, b"")
    assert good(log) == [0, 1]
    log.files[0].memory[88] ^= 1
    assert good(log) == [1]


def test_a_torn_last_record_ends_the_walk_at_every_byte(log):
    file, at, size = place(log, 11)
    whole = bytes(file.memory[at : at + size])
    for cut in range(size):
        for rest in (b"\0", b"\xff"):
            file.memory[at : at + size] = whole[:cut].ljust(size, rest)
            if bytes(file.memory[at : at + size]) == whole:
                continue
            found = list(walk(log, file.base + at))
            assert all(isinstance(item, BadBytes) for item in found), f"cut at {cut}"
    file.memory[at : at + size] = whole
    assert good(log)[-1] == 11
