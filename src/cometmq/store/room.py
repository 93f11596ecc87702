"""Room on the disk: how a full one is told from one that fails, and what is said of it."""

import errno

from cometmq.errors import DiskFull

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error: OSError) -> bool:
    """There may be room later; nothing is wrong with what is on disk."""
    return error.errno in _FULL


def no_room(error: OSError) -> DiskFull:
    """For another file of the log or of the index."""
    return DiskFull(f"no room for another file: {error.strerror}")
