"""Which queue a message goes to: the next one, not a slow broker's, or by a key."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count, cycle
from random import Random

from cometmq.client.consumer.shared.allocate import room_of_broker
from cometmq.client.message import Message
from cometmq.errors import NoRoute
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.values import hash_code
from cometmq.seams import Clock

# After a send that took so long, its broker is left out for so long.
LATENCIES_MS = (50, 100, 550, 1000, 2000, 3000, 15000)
PENALTIES_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATED_LATENCY_MS = 30_000  # what a send counts that failed
assert len(LATENCIES_MS) == len(PENALTIES_MS)
_FAULTS_MAX = 10_000  # brokers in the table; a cluster has a few hundred
_HASHES_MAX = 4096

Selector = Callable[[Sequence[MessageQueue], Message, object], MessageQueue]


class FaultTable:
    """How brokers did lately, and until when the slow ones are left out."""

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        self._faults: dict[str, tuple[int, int]] = {}  # latency, until when
        self._turn = count()

    def observe(self, broker: str, latency_ms: int, *, failed: bool = False) -> None:
        """A send to this broker took so long; one that failed has the broker left out."""
        if len(self._faults) >= _FAULTS_MAX and broker not in self._faults:
            self._faults.clear()
        penalty_ms = penalty_of(ISOLATED_LATENCY_MS if failed else latency_ms)
        self._faults[broker] = latency_ms, self._now_ms() + penalty_ms

    def is_available(self, broker: str) -> bool:
        """It is not left out now."""
        fault = self._faults.get(broker)
        return fault is None or fault[1] <= self._now_ms()

    def least_bad(self) -> str | None:
        """One of the better half of those known, in turn; None if none is known."""
        now_ms = self._now_ms()
        ranked = sorted(
            self._faults, key=lambda name: (self._faults[name][1] > now_ms, *self._faults[name])
        )
        return ranked[next(self._turn) % max(1, len(ranked) // 2)] if ranked else None

    def forget(self, broker: str) -> None:
        """It serves us no more."""
        self._faults.pop(broker, None)


def penalty_of(latency_ms: int) -> int:
    """For how long a broker that took so long is left out."""
    rank = bisect_right(LATENCIES_MS, latency_ms)
    return PENALTIES_MS[rank - 1] if rank else 0


class TopicQueues:
    """The queues of a topic that can be written to, taken in turn from a random start."""

    def __init__(self, topic: str, queues: Sequence[MessageQueue], chance: Random) -> None:
        self.topic = topic
        self.queues = tuple(queues)
        start = chance.randrange(max(1, len(self.queues)))
        # Without a call of Python's own: most sends come by here.
        self._next = cycle(self.queues[start:] + self.queues[:start]).__next__
        self._turn = count(start)  # over the queues of one broker
        self._of_broker: dict[str, list[MessageQueue]] = {}
        for queue in self.queues:
            self._of_broker.setdefault(queue.broker_name, []).append(queue)

    def next(self, *, avoid: str | None = None, faults: FaultTable | None = None) -> MessageQueue:
        """The next queue.

        Without a fault table, not one of the broker `avoid`, which has just failed; with one, not
        of a broker that is left out. Where that leaves none, it is not asked for.
        """
        if faults is None and avoid is None and self.queues:
            return self._next()
        self.check_any()
        if faults is not None:
            return self._next_where(faults.is_available) or self._least_bad(faults)
        if avoid is not None and len(self._of_broker) > 1:
            found = self._next_where(lambda broker: broker != avoid)
            assert found is not None, "another broker has queues"
            return found
        return self._next()

    def check_any(self) -> None:
        """NoRoute, if there is none."""
        if not self.queues:
            raise NoRoute(
                f"no queue of topic {self.topic} can be written to: create the topic, or give it"
                " write permission on a broker that is up"
            )

    def _next_where(self, is_wanted: Callable[[str], bool]) -> MessageQueue | None:
        for _ in self.queues:
            queue = self._next()
            if is_wanted(queue.broker_name):
                return queue
        return None

    def _least_bad(self, faults: FaultTable) -> MessageQueue:
        broker = faults.least_bad()
        if broker is None:
            return self._next()
        of_broker = self._of_broker.get(broker)
        if of_broker is None:
            faults.forget(broker)
            return self._next()
        return of_broker[next(self._turn) % len(of_broker)]


def by_hash(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
    """By Java's hash of the key: equal keys, equal queue, while the number of queues stays.

    A text is hashed as Java's String; a number as Integer, or as Long where Integer cannot hold it;
    anything else by its text.
    """
    return queues[abs(java_hash(key)) % len(queues)]


def by_sharding_key(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
    """By the hash of the message's own sharding key, or of `key` if it has none."""
    return by_hash(queues, message, message.sharding_key or key)


def at_random(chance: Random) -> Selector:
    """Any queue."""

    def select(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
        return queues[chance.randrange(len(queues))]

    return select


def by_machine_room(rooms: frozenset[str], chance: Random) -> Selector:
    """Any queue of a broker called `room@name` in one of these rooms; NoRoute if there is none.

    Java has a selector of this name that selects nothing.
    """

    def select(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
        near = [queue for queue in queues if room_of_broker(queue) in rooms]
        if not near:
            names = ", ".join(sorted(rooms))
            raise NoRoute(f"topic {message.topic} has no queue in the machine rooms {names}")
        return near[chance.randrange(len(near))]

    return select


def java_hash(value: object) -> int:
    """`hashCode` of what stands for this value in Java."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**31) <= value < 2**31:
            folded = (value ^ (value >> 32)) & 0xFFFFFFFF
            return folded - (1 << 32) if folded >= 1 << 31 else folded
        return value
    return _text_hash(str(value))


_text_hash = lru_cache(maxsize=_HASHES_MAX)(hash_code)  # keys come again and again
