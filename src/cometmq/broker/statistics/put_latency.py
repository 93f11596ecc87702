"""How long puts took: in the last minute or two, by milliseconds."""

_MS_MAX = 10_000
_KEPT_MS = 60_000

# The upper end of each bucket in ms, and its name.
_BUCKETS = (
    (0, "<=0ms"),
    (10, "0~10ms"),
    (50, "10~50ms"),
    (100, "50~100ms"),
    (200, "100~200ms"),
    (500, "200~500ms"),
    (1_000, "500ms~1s"),
    (2_000, "1~2s"),
    (3_000, "2~3s"),
    (4_000, "3~4s"),
    (5_000, "4~5s"),
    (_MS_MAX - 1, "5~10s"),
    (_MS_MAX, "10s~"),
)


class LatencyHistogram:
    """Times of this minute and of the last."""

    def __init__(self, now_ms: int) -> None:
        self._now: dict[int, int] = {}  # ms to how many
        self._before: dict[int, int] = {}
        self._turn_ms = now_ms + _KEPT_MS
        self.ms_max = 0  # since the start

    def add(self, took_ms: int, count: int = 1) -> None:
        """One more, or several."""
        if took_ms > self.ms_max:
            self.ms_max = took_ms
        if took_ms > _MS_MAX:
            took_ms = _MS_MAX
        elif took_ms < 0:  # the clock was set back
            took_ms = 0
        self._now[took_ms] = self._now.get(took_ms, 0) + count

    def turn(self, now_ms: int) -> None:
        """Once a minute, what is of the minute before last goes."""
        if now_ms >= self._turn_ms:
            self._turn_ms = now_ms + _KEPT_MS
            self._before, self._now = self._now, {}

    def distribution(self) -> str:
        """`[<=0ms]:5 [0~10ms]:1 ...`: 13 buckets, each with a space behind it."""
        counts = dict.fromkeys((name for _, name in _BUCKETS), 0)
        for took_ms, count in self._pairs():
            counts[next(name for end_ms, name in _BUCKETS if took_ms <= end_ms)] += count
        return "".join(f"[{name}]:{count} " for name, count in counts.items())

    def percentile(self, share: float) -> int:
        """The time in ms that this share of the puts did not exceed; 0 if there were none."""
        pairs = self._pairs()
        left = share * sum(count for _, count in pairs)
        for took_ms, count in pairs:
            left -= count
            if left <= 0:
                return took_ms
        return 0

    def _pairs(self) -> list[tuple[int, int]]:
        times = self._now.keys() | self._before.keys()
        return [(ms, self._now.get(ms, 0) + self._before.get(ms, 0)) for ms in sorted(times)]
