"""Where a read begins and ends: resolves words, times and numbers of options to queue offsets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cometmq.errors import BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.spark.options import ReadOptions
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.offsets import EARLIEST, LATEST, Offsets
from cometmq.spark.read.probes import store_time_ms


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """Start and end offsets of the queues that the options select, as of now."""

    options: ReadOptions

    @property
    def _cluster(self) -> Cluster:
        return self.options.reading.cluster

    def queues(self) -> list[MessageQueue]:
        """Return the selected queues that exist now."""
        if self.options.assigned:
            for queue in self.options.assigned:
                self._check_assigned(queue)
            return list(self.options.assigned)
        names: Iterable[str] = self.options.topics
        if self.options.pattern is not None:
            names = self._cluster.topics_like(self.options.pattern)
        found: list[MessageQueue] = []
        for name in names:
            found += self._cluster.route(name, fresh=True).to_read
        return sorted(found)

    def start(self, default: str) -> Offsets:
        """Return where the first batch begins."""
        bound = default if self.options.start is None else self.options.start
        return self._resolve("startingOffsets", bound, self.options.start_ms, EARLIEST)

    def end(self) -> Offsets:
        """Return where a batch read ends."""
        bound = "latest" if self.options.end is None else self.options.end
        return self._resolve("endingOffsets", bound, self.options.end_ms, LATEST)

    def latest(self) -> Offsets:
        """Return the maximum offset of every queue."""
        return self._cluster.max_offsets(self.queues())

    def _resolve(
        self, name: str, bound: str | Offsets, times: int | Offsets | None, unnamed: int
    ) -> Offsets:
        """Return an offset for every queue; `unnamed` applies to queues missing in the option."""
        queues = self.queues()
        if times is not None:
            time_of = self._time_of(name, queues, times)
            return {queue: self.at_time(queue, time_of(queue)) for queue in queues}
        if isinstance(bound, str):
            find = self._words[bound]
            return {queue: find(queue) for queue in queues}
        _check_queues(name, bound, queues)
        return {queue: self._numbered(queue, bound.get(queue, unnamed)) for queue in queues}

    @property
    def _words(self) -> dict[str, Callable[[MessageQueue], int]]:
        return {
            "earliest": self._cluster.min_offset,
            "latest": self._cluster.max_offset,
            "group": self._consumed,
        }

    def _consumed(self, queue: MessageQueue) -> int:
        """Return the group's offset; the earliest one if it has none."""
        assert self.options.group is not None, "checked with the options"
        found = self._cluster.consumer_offset(self.options.group, queue)
        first = self._cluster.min_offset(queue)
        return first if found is None else max(found, first)

    def _numbered(self, queue: MessageQueue, number: int) -> int:
        if number == EARLIEST:
            return self._cluster.min_offset(queue)
        return self._cluster.max_offset(queue) if number == LATEST else number

    def _time_of(
        self, name: str, queues: list[MessageQueue], times: int | Offsets
    ) -> Callable[[MessageQueue], int]:
        if isinstance(times, int):
            return lambda queue: times
        _check_queues(f"{name}ByTimestamp", times, queues)
        missing = [queue for queue in queues if queue not in times]
        if missing:
            raise BadSetting(f"option {name}ByTimestamp has no time for {missing[0]}")
        return lambda queue: times[queue]

    def at_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the first offset stored at that time or later; the maximum offset if none is.

        Starts at the broker's answer, which may be a message before that time. Steps double until
        the offset is enclosed; a binary search follows.
        """
        first, end = self._cluster.min_offset(queue), self._cluster.max_offset(queue)
        low, high = first, end  # invariant: low - 1 is older, high is not
        guess = min(max(self._cluster.offset_near(queue, time_ms), first), max(end - 1, first))
        step = 1
        while low < high:
            stored_ms = store_time_ms(self.options.reading, queue, guess)
            if stored_ms is not None and stored_ms < time_ms:
                low = guess + 1
                guess += step
            else:
                high = guess
                guess -= step
            step *= 2
            if not low <= guess < high:
                guess = (low + high) // 2
        return low

    def _check_assigned(self, queue: MessageQueue) -> None:
        known = self._cluster.route(queue.topic).to_read
        if queue not in known:
            raise BadSetting(f"option assign: {queue} does not exist; known: {list(known)[:8]}")


def _check_queues(name: str, offsets: Offsets, queues: list[MessageQueue]) -> None:
    unknown = [queue for queue in offsets if queue not in queues]
    if unknown:
        raise BadSetting(f"option {name}: {unknown[0]} does not exist; known: {queues[:8]}")
