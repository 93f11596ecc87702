"""Room on the disk: how a full disk differs from one that fails, and what is logged about it.

Messages of producers may not use the last room of a full disk: it is reserved for internal writes,
which complete acknowledged work (deliveries of delayed messages, ends of transactions). Otherwise
producers, which are many and retry immediately, would take whatever cleaning frees.
"""

import errno
import logging
import os
from pathlib import Path

from cometmq.errors import DiskFull
from cometmq.seams import Disk

log = logging.getLogger(__name__)

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error: BaseException | None) -> bool:
    """There may be room later; nothing is wrong with what is on disk."""
    return isinstance(error, OSError) and error.errno in _FULL


def no_room(error: OSError) -> DiskFull:
    """For another file of the log or of the index."""
    return DiskFull(f"no room for another file: {error.strerror}")


class RoomFor:
    """Room for the files of one folder, all of one size. Logs when it is gone and when it is back.

    `what` names such a file in the log line.
    """

    def __init__(self, disk: Disk, folder: Path, file_size: int, what: str) -> None:
        self._disk = disk
        self._folder = folder
        self._file_size = file_size
        self._what = what
        self._is_refusing = False

    def is_likely(self) -> bool:
        """Enough bytes are free for another file; a quota, or another process, may still refuse."""
        return self._disk.capacity(self._folder)[1] >= self._file_size

    def missing(self) -> OSError:
        """The error of a file that is not even tried."""
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def refused(self, error: OSError) -> None:
        """A message was refused for want of a file. The first one since `made` is logged."""
        if not self._is_refusing and is_full(error):
            self._is_refusing = True
            log.error(
                "messages of producers are refused: no room in %s for another %s of %d bytes, "
                "%d are free (%s); free space there, or lower fileReservedTime",
                self._folder,
                self._what,
                self._file_size,
                self._disk.capacity(self._folder)[1],
                error.strerror,
            )

    def made(self) -> None:
        """There is another file."""
        if self._is_refusing:
            self._is_refusing = False
            log.warning(
                "messages of producers are accepted again: there is room in %s for another %s",
                self._folder,
                self._what,
            )
