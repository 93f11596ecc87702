"""The checkpoint's page: three times, and nothing is safe when it cannot be read.

What is to hold is in docs/disk.md, section 4.
"""

import struct
from zlib import crc32

import pytest

from cometmq.disk import RealDisk
from cometmq.store.recovery.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


def test_a_page_as_the_original_writes_it(tmp_path):
    path = tmp_path / "checkpoint"
    write_checkpoint(RealDisk(), path, Checkpoint(3, 1, 2))
    assert path.read_bytes() == struct.pack(">qqq", 3, 1, 2).ljust(4096, b"\0")
    assert read_checkpoint(RealDisk(), path) == Checkpoint(3, 1, 2)


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
    assert read_checkpoint(RealDisk(), path) == Checkpoint(0, 0, 0)


def test_three_times_alone_are_enough(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(struct.pack(">qqq", 5, 6, 7))
    assert read_checkpoint(RealDisk(), path) == Checkpoint(5, 6, 7)


WHOLE = Checkpoint(3, 1, 2, log_end=500, queues_end=400, index_end=300, tail_crc=77)


def test_offsets_stand_behind_the_times(tmp_path):
    path = tmp_path / "checkpoint"
    write_checkpoint(RealDisk(), path, WHOLE)
    assert read_checkpoint(RealDisk(), path) == WHOLE
    page = path.read_bytes()
    assert len(page) == 4096 and page[:24] == struct.pack(">qqq", 3, 1, 2)
    assert page[64:100] == b"cometmq\1" + struct.pack(">qqqI", 500, 400, 300, 77)
    assert page[100:104] == struct.pack(">I", crc32(page[:100]))


@pytest.mark.parametrize("at", [*range(24), *range(64, 104)])
def test_offsets_are_not_believed_if_any_byte_moved(tmp_path, at):
    """The original writes the first 24 bytes and leaves the rest."""
    path = tmp_path / "checkpoint"
    write_checkpoint(RealDisk(), path, WHOLE)
    page = bytearray(path.read_bytes())
    page[at] ^= 1
    path.write_bytes(page)
    found = read_checkpoint(RealDisk(), path)
    assert found == found.of_times_alone()
    assert at < 24 or found == Checkpoint(3, 1, 2)
