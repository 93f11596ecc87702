"""The checkpoint's page: three times, and nothing is safe when it cannot be read."""

import struct

import pytest

from cometmq.disk import RealDisk
from cometmq.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


def test_a_page_as_the_original_writes_it(tmp_path):
    path = tmp_path / "checkpoint"
    write_checkpoint(RealDisk(), path, Checkpoint(3, 1, 2))
    assert path.read_bytes() == struct.pack(">qqq", 3, 1, 2).ljust(4096, b"\0")
    found = read_checkpoint(RealDisk(), path)
    assert found == Checkpoint(3, 1, 2)
    assert found.safe_ms == 1


def test_without_a_file_nothing_is_safe(tmp_path):
    assert read_checkpoint(RealDisk(), tmp_path / "checkpoint") == Checkpoint(0, 0, 0)


@pytest.mark.parametrize(
    "content",
    [b"", b"\1", struct.pack(">qqq", 5, 5, 5)[:23], struct.pack(">qqq", 5, -1, 5)],
    ids=["empty", "one byte", "cut", "impossible"],
)
def test_a_damaged_one_says_that_nothing_is_safe(tmp_path, content):
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    assert read_checkpoint(RealDisk(), path).safe_ms == 0


def test_three_times_alone_are_enough(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(struct.pack(">qqq", 5, 6, 7))
    assert read_checkpoint(RealDisk(), path) == Checkpoint(5, 6, 7)


def test_offsets_stand_behind_the_times(tmp_path):
    path = tmp_path / "checkpoint"
    written = Checkpoint(3, 1, 2, log_end=500, queues_end=400)
    write_checkpoint(RealDisk(), path, written)
    assert read_checkpoint(RealDisk(), path) == written
    page = path.read_bytes()
    assert len(page) == 4096 and page[:24] == struct.pack(">qqq", 3, 1, 2)
    assert page[64:96] == b"cometmq\0" + struct.pack(">qqq", 500, 400, 3)


@pytest.mark.parametrize(
    ("at", "changed"), [(0, struct.pack(">q", 4)), (64, b"someone "), (80, struct.pack(">q", 501))],
    ids=["times that moved on", "another's page", "queues beyond the log"],
)  # fmt: skip
def test_offsets_that_are_out_of_date_are_not_read(tmp_path, at, changed):
    path = tmp_path / "checkpoint"
    write_checkpoint(RealDisk(), path, Checkpoint(3, 1, 2, log_end=500, queues_end=400))
    page = bytearray(path.read_bytes())
    page[at : at + 8] = changed
    path.write_bytes(page)
    found = read_checkpoint(RealDisk(), path)
    assert (found.log_end, found.queues_end) == (-1, -1)
    assert found.queues_ms == 1
