"""Detects a busy page cache by the duration of appends.

The system blocks writes to memory while too many pages wait to be written to disk. Meanwhile the
broker serves nothing, and new requests wait in the sockets: they are older than their time of
receipt says.
"""

_REFUSED_MS = 100  # after a slow append; by then all requests that arrived during it are read


class PageCache:
    """Receives the begin and end of each append, or of each turn with appends."""

    __slots__ = ("_slow_ms", "took_ms")

    def __init__(self) -> None:
        self.took_ms = 0  # the last append
        self._slow_ms = -_REFUSED_MS  # wall time at the end of the last that was too slow

    def wrote(self, began_ms: int, now_ms: int, took_ms_max: int) -> None:
        """Messages were appended, between these two times."""
        self.took_ms = took_ms = max(now_ms - began_ms, 0)  # a clock may be set back
        if took_ms > took_ms_max:
            self._slow_ms = now_ms

    def is_busy(self, now_ms: int) -> bool:
        """Sends are refused; but not until a clock that was set back gets there again."""
        return 0 <= now_ms - self._slow_ms < _REFUSED_MS
