"""Where a read begins and ends: words, times and numbers of options, as an offset of each queue."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cometmq.errors import BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.spark.options import ReadOptions
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.offsets import EARLIEST, LATEST, Offsets
from cometmq.spark.read.pull import one_stored_ms


@dataclass(frozen=True, slots=True)
class Places:
    """Of the queues that the options name, as they are now."""

    options: ReadOptions

    @property
    def _cluster(self) -> Cluster:
        return self.options.reading.cluster

    def queues(self) -> list[MessageQueue]:
        """All there are at this moment."""
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
        """Where the first batch begins."""
        place = default if self.options.start is None else self.options.start
        return self._place("startingOffsets", place, self.options.start_ms, EARLIEST)

    def end(self) -> Offsets:
        """Where a batch read ends."""
        place = "latest" if self.options.end is None else self.options.end
        return self._place("endingOffsets", place, self.options.end_ms, LATEST)

    def latest(self) -> Offsets:
        """The ends of all queues."""
        return self._cluster.ends(self.queues())

    def _place(
        self, name: str, place: str | Offsets, times: int | Offsets | None, unnamed: int
    ) -> Offsets:
        """Queues that the numbers of an option leave out have a place too."""
        queues = self.queues()
        if times is not None:
            time_of = self._time_of(name, queues, times)
            return {queue: self.at_time(queue, time_of(queue)) for queue in queues}
        if isinstance(place, str):
            find = self._words[place]
            return {queue: find(queue) for queue in queues}
        _check_queues(name, place, queues)
        return {queue: self._numbered(queue, place.get(queue, unnamed)) for queue in queues}

    @property
    def _words(self) -> dict[str, Callable[[MessageQueue], int]]:
        return {
            "earliest": self._cluster.first,
            "latest": self._cluster.end,
            "group": self._consumed,
        }

    def _consumed(self, queue: MessageQueue) -> int:
        """What the group has; the earliest, where it has nothing."""
        assert self.options.group is not None, "checked with the options"
        found = self._cluster.of_group(self.options.group, queue)
        first = self._cluster.first(queue)
        return first if found is None else max(found, first)

    def _numbered(self, queue: MessageQueue, number: int) -> int:
        if number == EARLIEST:
            return self._cluster.first(queue)
        return self._cluster.end(queue) if number == LATEST else number

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
        """The first offset whose message was stored then or later; the end, if there is none.

        From the broker's word, which may be the message before: doubled steps, then halves.
        """
        first, end = self._cluster.first(queue), self._cluster.end(queue)
        low, high = first, end  # the one before low is older, high is not
        guess = min(max(self._cluster.near(queue, time_ms), first), max(end - 1, first))
        step = 1
        while low < high:
            stored_ms = one_stored_ms(self.options.reading, queue, guess)
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
            raise BadSetting(f"option assign: {queue} is not there; there are {list(known)[:8]}")


def _check_queues(name: str, places: Offsets, queues: list[MessageQueue]) -> None:
    strange = [queue for queue in places if queue not in queues]
    if strange:
        raise BadSetting(f"option {name}: {strange[0]} is not there; there are {queues[:8]}")
