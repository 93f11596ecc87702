"""Counters, and samples of them from which sums and rates of a period are told.

A counter is three numbers: what was counted, its bytes, and in how many calls. The samples of a
period stand side by side in one array: after a day an item costs a kilobyte, as tuples six.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cometmq.protocol.bodies.stats import StatsItem

_ITEMS_MAX = 20_000
_WIDTH = 4  # numbers of a sample: when, count, size, times


class Period(NamedTuple):
    """How often a kind of sample is taken, and how many are kept."""

    at: int  # its place among an item's samples
    every_ms: int
    keeps: int


# The oldest sample is as old as the name says, or up to a step older: the other end is always now.
MINUTE = Period(0, 10_000, 7)
HOUR = Period(1, 600_000, 7)
DAY = Period(2, 3_600_000, 25)
PERIODS = (MINUTE, HOUR, DAY)


class Item:
    """One thing that is counted."""

    __slots__ = ("_samples", "count", "size", "times")

    def __init__(self) -> None:
        self.count = self.size = self.times = 0
        self._samples = tuple(array("q") for _ in PERIODS)

    def take(self, other: "Item") -> None:
        """Count what another one counted, too."""
        self.count += other.count
        self.size += other.size
        self.times += other.times

    def sample(self, period: Period, now_ms: int) -> None:
        """Take one of this period."""
        samples = self._samples[period.at]
        if not samples:
            samples.extend((now_ms - period.every_ms, 0, 0, 0))  # it began since the last samples
        samples.extend((now_ms, self.count, self.size, self.times))
        if len(samples) > period.keeps * _WIDTH:
            del samples[:_WIDTH]

    @property
    def is_idle(self) -> bool:
        """Nothing was counted for a day."""
        samples = self._samples[DAY.at]
        return len(samples) == DAY.keeps * _WIDTH and samples[_WIDTH - 1] == self.times

    def since(self, period: Period, now_ms: int) -> tuple[int, int, int, int]:
        """What was counted in the period, its bytes, in how many calls, and in how many ms."""
        samples = self._samples[period.at]
        if not samples:
            return self.count, self.size, self.times, period.every_ms
        begin_ms, count, size, times = samples[:_WIDTH]
        # Over less than a step, a rate would be of a moment.
        elapsed_ms = max(now_ms - begin_ms, period.every_ms)
        return self.count - count, self.size - size, self.times - times, elapsed_ms


def summed(
    items: Sequence[Item], period: Period, now_ms: int, *, of_size: bool = False
) -> StatsItem:
    """What they counted together, as it is shown."""
    counts, sizes, times, spans_ms = zip(
        *(item.since(period, now_ms) for item in items), strict=True
    )
    value = sum(sizes if of_size else counts)
    return StatsItem(
        avgpt=value / sum(times) if any(times) else 0.0, sum=value, tps=value * 1000 / max(spans_ms)
    )


class Items:
    """Items by a name and the id of a queue. Past a number of them, all others are one."""

    def __init__(self, count_max: int = _ITEMS_MAX) -> None:
        self.by_name: dict[str, dict[int, Item]] = {}
        self._total = Item()
        self._others = Item()
        self._count_max = count_max
        self._count = 0

    def add(self, name: str, queue_id: int) -> Item:
        """The item to count with from now on."""
        if self._count >= self._count_max:
            return self._others
        self._count += 1
        item = self.by_name.setdefault(name, {})[queue_id] = Item()
        return item

    def find(self, name: str, queue_id: int | None = None) -> list[Item]:
        """That of a queue, or those of all queues of a name."""
        queues = self.by_name.get(name, {})
        return [item for each, item in queues.items() if queue_id in (None, each)]

    @property
    def total(self) -> Item:
        """Of all that was ever counted. Summed here, so that the hot path need not count twice."""
        total = self._total
        total.count = total.size = total.times = 0
        for item in self._all():
            total.take(item)
        return total

    def sample(self, period: Period, now_ms: int) -> None:
        self.total.sample(period, now_ms)
        for item in self._all():
            item.sample(period, now_ms)

    def forget_idle(self) -> None:
        """Drop those of which nothing was heard for a day; in the total they stay."""
        for name, queues in list(self.by_name.items()):
            for queue_id in [queue_id for queue_id, item in queues.items() if item.is_idle]:
                self._others.take(queues.pop(queue_id))
                self._count -= 1
            if not queues:
                del self.by_name[name]

    def _all(self) -> Iterator[Item]:
        yield self._others
        for queues in self.by_name.values():
            yield from queues.values()


class Rate:
    """A total that only grows, told as its rates over the last 10, 60 and 600 seconds."""

    _WINDOWS_S = (10, 60, 600)

    def __init__(self, now_ms: int) -> None:
        self._totals = deque([(now_ms, 0)], max(self._WINDOWS_S) + 1)

    def sample(self, now_ms: int, total: int) -> None:
        self._totals.append((now_ms, total))

    def text(self, now_ms: int, total: int) -> str:
        """Per second, as far back as there are samples: `1.5 0.25 0.025`."""
        return " ".join(str(self._over(window, now_ms, total)) for window in self._WINDOWS_S)

    def _over(self, window_s: int, now_ms: int, total: int) -> float:
        begin_ms, before = self._totals[max(len(self._totals) - 1 - window_s, 0)]
        return (total - before) * 1000 / max(now_ms - begin_ms, 1_000)
