"""The checkpoint: up to when the log, the queues and the index are on disk.

    | log, stored ms 8 | queues, stored ms 8 | index, stored ms 8 | zeros to 4096 |

Written only after what it vouches for is durable. A torn or missing one reads as 0: recovery then
starts from the log's beginning.
"""

import struct
from pathlib import Path

import msgspec

from cometmq.seams import Disk

_PAGE = struct.Struct(">qqq")
PAGE_SIZE = 4096


class Checkpoint(msgspec.Struct, frozen=True):
    """Stored times, in ms, of the newest record that each part has on disk."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0

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
    values = _PAGE.unpack_from(page)
    return Checkpoint(*values) if min(values) >= 0 else Checkpoint()


def write_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Durable when it returns."""
    page = _PAGE.pack(checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms)
    disk.replace(path, page.ljust(PAGE_SIZE, b"\0"))
