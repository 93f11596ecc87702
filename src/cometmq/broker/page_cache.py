"""How long the log's memory lets a send wait.

The system makes whoever writes to memory wait while it has too many pages to write to its disk. In
that time nothing is served here, and what comes meanwhile stands in the sockets: it is older than
it looks when it is read.
"""

_REFUSED_MS = 100  # after a wait that was too long: in it all is read that came during the wait


class PageCache:
    """Told of each append, or of each turn's, with times that its caller has read anyway."""

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
