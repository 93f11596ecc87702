"""File descriptors: how many this process may open, and how many of them are for connections.

Every connection, every mapped file of a log or an index and every file that is being written takes
one. A reserve stays free of connections, so that the store can always roll and flush its files.
"""

import resource
from pathlib import Path

_RESERVE_MAX = 512
_RESERVE_SHARE = 4  # a quarter of the limit, if the limit is low
_LISTINGS = ("/proc/self/fd", "/dev/fd")
_UNLIMITED = 1 << 30


def limit() -> int:
    """The soft limit, `ulimit -n`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> int:
    """Raise the soft limit to the hard limit where the system allows it; returns the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # some systems refuse an unlimited soft limit
            return limit()
    return limit()


def reserve(limit_now: int) -> int:
    """How many descriptors connections must leave to files."""
    return min(_RESERVE_MAX, limit_now // _RESERVE_SHARE)


def in_use() -> int:
    """How many descriptors this process has open."""
    for listing in _LISTINGS:
        if Path(listing).is_dir():
            return len(list(Path(listing).iterdir())) - 1  # one of them is the listing's own
    return 0
