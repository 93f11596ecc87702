"""The checkpoint: up to when the log, the queues and the index are on disk.

    | log, stored ms 8 | queues, stored ms 8 | index, stored ms 8 | zeros to 64 |
    | "cometmq" 8 | log, offset 8 | queues, offset 8 | log, stored ms, again 8 | zeros to 4096 |

Written only after what it vouches for is durable. A torn or missing one reads as 0: recovery then
starts from the log's beginning. The second line is ours alone: times say little when clocks are set
back. The original leaves it as it is and moves the times, by which it is known to be out of date.
"""

import struct
from pathlib import Path

import msgspec

from cometmq.seams import Disk

_PAGE = struct.Struct(">qqq")
_ENDS = struct.Struct(">8sqqq")
_ENDS_AT = 64
_ENDS_MAGIC = b"cometmq\0"
PAGE_SIZE = 4096


class Checkpoint(msgspec.Struct, frozen=True):
    """Stored times, in ms, of the newest record that each part has on disk."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    log_end: int = -1  # records before this offset are on disk; -1: the times alone are known
    queues_end: int = -1  # and their units too

    def of_log_alone(self) -> "Checkpoint":
        """What is left of it while queues and index are made again."""
        return Checkpoint(log_ms=self.log_ms, log_end=self.log_end)

    @property
    def safe_ms(self) -> int:
        """Records stored before this are in log, queues and index."""
        return min(self.log_ms, self.queues_ms, self.index_ms)


def read_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """What the file says; nothing is safe if there is none, or half of one."""
    try:
        page = disk.read(path)
    except FileNotFoundError:
        return Checkpoint()
    if len(page) < _PAGE.size:
        return Checkpoint()
    times = _PAGE.unpack_from(page)
    if min(times) < 0:
        return Checkpoint()
    if len(page) >= _ENDS_AT + _ENDS.size:
        magic, log_end, queues_end, log_ms = _ENDS.unpack_from(page, _ENDS_AT)
        if magic == _ENDS_MAGIC and log_ms == times[0] and queues_end <= log_end:
            return Checkpoint(times[0], times[1], times[2], log_end, queues_end)
    return Checkpoint(*times)


def write_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Durable when it returns."""
    page = _PAGE.pack(checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms)
    if checkpoint.log_end >= 0:
        ends = checkpoint.log_end, checkpoint.queues_end, checkpoint.log_ms
        page = page.ljust(_ENDS_AT, b"\0") + _ENDS.pack(_ENDS_MAGIC, *ends)
    disk.replace(path, page.ljust(PAGE_SIZE, b"\0"))
