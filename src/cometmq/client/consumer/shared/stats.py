"""Statistics of a consumer by topic: rates of the last minute, failures of the last hour."""

from collections import deque
from dataclasses import astuple, dataclass

from cometmq.protocol.bodies.consumer import ConsumeStatus
from cometmq.seams import Clock

SAMPLE_MS = 10_000
_SAMPLES_MINUTE = 7  # six intervals of ten seconds
_SAMPLES_HOUR = 361


@dataclass(slots=True)
class _Totals:
    """Counters since the start."""

    pulls: int = 0
    pull_ms: int = 0
    pulled: int = 0
    calls: int = 0
    call_ms: int = 0
    consumed: int = 0
    failed: int = 0

    def since(self, before: "_Totals") -> "_Totals":
        """The difference to earlier counters."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return _Totals(*(now - then for now, then in pairs))


class _Topic:
    """The counters of a topic now and at the last samples."""

    def __init__(self, now_ms: int) -> None:
        self.totals = _Totals()
        self.minute = deque([(now_ms, _Totals())], maxlen=_SAMPLES_MINUTE)
        self.failed = deque([0], maxlen=_SAMPLES_HOUR)

    def status(self, now_ms: int) -> ConsumeStatus:
        """The rates that Java's consumers report."""
        begun_ms, first = self.minute[0]
        recent = self.totals.since(first)
        seconds = max(now_ms - begun_ms, 1) / 1000
        return ConsumeStatus(
            pull_rt=recent.pull_ms / max(recent.pulls, 1),
            pull_tps=recent.pulled / seconds,
            consume_rt=recent.call_ms / max(recent.calls, 1),
            consume_ok_tps=recent.consumed / seconds,
            consume_failed_tps=recent.failed / seconds,
            consume_failed_msgs=self.totals.failed - self.failed[0],
        )


class ConsumerStats:
    """Counters by topic, sampled every `SAMPLE_MS`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, _Topic] = {}

    def pulled(self, topic: str, count: int, took_ms: int) -> None:
        """Count a pull that found `count` messages."""
        totals = self._of(topic).totals
        totals.pulls += 1
        totals.pull_ms += took_ms
        totals.pulled += count

    def consumed(self, topic: str, count: int, failed: int, took_ms: int) -> None:
        """Count a listener call with `count` messages, of which `failed` failed."""
        totals = self._of(topic).totals
        totals.calls += 1
        totals.call_ms += took_ms
        totals.consumed += count - failed
        totals.failed += failed

    async def sample(self) -> None:
        """Sample the counters."""
        now_ms = self._clock.monotonic_ms()
        for topic in self._topics.values():
            topic.minute.append((now_ms, _Totals(*astuple(topic.totals))))
            topic.failed.append(topic.totals.failed)

    def forget(self, topic: str) -> None:
        """Forget a topic that was unsubscribed."""
        self._topics.pop(topic, None)

    def status(self, topic: str) -> ConsumeStatus:
        """The statistics of one topic."""
        found = self._topics.get(topic)
        return ConsumeStatus() if found is None else found.status(self._clock.monotonic_ms())

    def _of(self, topic: str) -> _Topic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(self._clock.monotonic_ms())
        return found
