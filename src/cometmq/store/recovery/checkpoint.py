"""The checkpoint: up to where the log, the queues and the index are on disk.

    | log, stored ms 8 | queues, stored ms 8 | index, stored ms 8 | zeros to 64 |
    | "cometmq" 8 | log, offset 8 | queues, offset 8 | index, offset 8 | crc of the log's end 4 |
    | crc of all the above 4 | zeros to 4096 |

It is written only after the data that it vouches for is durable. A torn or missing checkpoint reads
as 0: recovery then starts at the beginning of the log. Bytes from 64 on are an extension, because
times are not reliable when clocks are set back. Apache's broker leaves the extension as it is and
changes the times, which makes the second crc wrong. If it changed the log before the offset, the
first crc is wrong. In both cases the offsets are not trusted.
"""

import struct
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec.structs import replace

from cometmq.seams import Disk
from cometmq.store.disk_full import is_full

_PAGE = struct.Struct(">qqq")
_ENDS = struct.Struct(">8sqqqI")
_CRC = struct.Struct(">I")
_ENDS_AT = 64
_CRC_AT = _ENDS_AT + _ENDS.size
_ENDS_MAGIC = b"cometmq\1"
PAGE_SIZE = 4096


class Checkpoint(msgspec.Struct, frozen=True):
    """Stored times, in ms, of the newest record that each part has on disk."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    log_end: int = -1  # records before this offset are on disk; -1: the times alone are known
    queues_end: int = -1  # and their units too
    index_end: int = -1  # and their keys
    tail_crc: int = 0  # of the bytes right before `log_end`

    def of_log_alone(self) -> "Checkpoint":
        """The checkpoint while queues and index are rebuilt."""
        return Checkpoint(log_ms=self.log_ms, log_end=self.log_end, tail_crc=self.tail_crc)

    def without_queues(self) -> "Checkpoint":
        """The checkpoint while a queue is rebuilt."""
        return replace(self, queues_ms=0, queues_end=-1)

    def without_index(self) -> "Checkpoint":
        """The checkpoint while the index is rebuilt.

        Apache's broker rebuilds an index from the time of the queues, so that is reset too.
        """
        return replace(self, queues_ms=0, index_ms=0, index_end=-1)

    def of_times_alone(self) -> "Checkpoint":
        """The checkpoint if the log is not the one that it vouched for."""
        return Checkpoint(self.log_ms, self.queues_ms, self.index_ms)


def read_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """Read the file; a missing or torn one vouches for nothing."""
    try:
        page = disk.read(path)
    except FileNotFoundError:
        return Checkpoint()
    if len(page) < _PAGE.size:
        return Checkpoint()
    times = _PAGE.unpack_from(page)
    if min(times) < 0:
        return Checkpoint()
    if len(page) >= _CRC_AT + _CRC.size:
        magic, *ends = _ENDS.unpack_from(page, _ENDS_AT)
        (crc,) = _CRC.unpack_from(page, _CRC_AT)
        if magic == _ENDS_MAGIC and crc == crc32(page[:_CRC_AT]):
            return Checkpoint(*times, *ends)
    return Checkpoint(*times)


def write_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Durable when it returns.

    On a full disk in the place of the old one, which needs no room: it is in one sector, and if
    that is torn a crc says so.
    """
    page = _PAGE.pack(checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms)
    if checkpoint.log_end >= 0:
        ends = checkpoint.log_end, checkpoint.queues_end, checkpoint.index_end
        page = page.ljust(_ENDS_AT, b"\0") + _ENDS.pack(_ENDS_MAGIC, *ends, checkpoint.tail_crc)
        page += _CRC.pack(crc32(page))
    page = page.ljust(PAGE_SIZE, b"\0")
    try:
        disk.replace(path, page)
    except OSError as error:
        if not is_full(error):
            raise
        disk.write_at(path, 0, page, PAGE_SIZE)
