"""Selects the queue of a message: round robin, without slow brokers, by a key, or as requested."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count, cycle
from random import Random
from typing import NoReturn

import msgspec

from cometmq.client.message import Message
from cometmq.errors import BadMessage, NoRoute
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.names import machine_room
from cometmq.seams import Clock

# A broker whose last send took LATENCIES_MS[i] or more is avoided for PENALTIES_MS[i].
LATENCIES_MS = (50, 100, 550, 1000, 2000, 3000, 15000)
PENALTIES_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATED_LATENCY_MS = 30_000  # assumed of a send that failed
assert len(LATENCIES_MS) == len(PENALTIES_MS)
_FAULTS_MAX = 10_000  # brokers in the table; a cluster has a few hundred
_HASHES_MAX = 4096

Selector = Callable[[Sequence[MessageQueue], Message, object], MessageQueue]


class FaultTable:
    """The last latency of each broker, and until when slow brokers are avoided."""

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        self._faults: dict[str, tuple[int, int]] = {}  # latency, end of the penalty
        self._turn = count()

    def observe(self, broker: str, latency_ms: int, *, failed: bool = False) -> None:
        """Record the latency of a send; a failed send counts as very slow."""
        if len(self._faults) >= _FAULTS_MAX and broker not in self._faults:
            self._faults.clear()
        penalty_ms = penalty_of(ISOLATED_LATENCY_MS if failed else latency_ms)
        self._faults[broker] = latency_ms, self._now_ms() + penalty_ms

    def is_available(self, broker: str) -> bool:
        """Return whether the broker has no penalty now."""
        fault = self._faults.get(broker)
        return fault is None or fault[1] <= self._now_ms()

    def least_bad(self) -> str | None:
        """The next broker of the better half, round robin; None if no broker was observed."""
        now_ms = self._now_ms()
        ranked = sorted(
            self._faults, key=lambda name: (self._faults[name][1] > now_ms, *self._faults[name])
        )
        return ranked[next(self._turn) % max(1, len(ranked) // 2)] if ranked else None

    def forget(self, broker: str) -> None:
        """Remove a broker that no longer serves the topic."""
        self._faults.pop(broker, None)


def penalty_of(latency_ms: int) -> int:
    """How long a broker with this latency is avoided."""
    rank = bisect_right(LATENCIES_MS, latency_ms)
    return PENALTIES_MS[rank - 1] if rank else 0


class TopicQueues:
    """The writable queues of a topic, round robin from a random start.

    `turn` returns the next queue, without a Python call: most sends use it. Raises NoRoute if the
    topic has no writable queue.
    """

    def __init__(self, topic: str, queues: Sequence[MessageQueue], chance: Random) -> None:
        self.topic = topic
        self.queues = tuple(queues)
        start = chance.randrange(max(1, len(self.queues)))
        self.turn: Callable[[], MessageQueue] = self._no_queue
        if self.queues:
            self.turn = cycle(self.queues[start:] + self.queues[:start]).__next__
        self._rotation = count(start)  # over the queues of one broker
        self._of_broker: dict[str, list[MessageQueue]] = {}
        for queue in self.queues:
            self._of_broker.setdefault(queue.broker_name, []).append(queue)

    def next(self, *, avoid: str | None = None, faults: FaultTable | None = None) -> MessageQueue:
        """The next queue, if possible of another broker than `avoid`, which has just failed.

        With a fault table, `avoid` is ignored and brokers with a penalty are avoided instead.
        """
        self.check_any()
        if faults is not None:
            return self._next_where(faults.is_available) or self._least_bad(faults)
        if avoid is not None and len(self._of_broker) > 1:
            found = self._next_where(lambda broker: broker != avoid)
            assert found is not None, "another broker has queues"
            return found
        return self.turn()

    def check_any(self) -> None:
        """Raise NoRoute if the topic has no writable queue."""
        if not self.queues:
            self._no_queue()

    def _no_queue(self) -> NoReturn:
        raise NoRoute(
            f"topic {self.topic} has no writable queue: create the topic, or give it write"
            " permission on a broker that is up"
        )

    def _next_where(self, is_wanted: Callable[[str], bool]) -> MessageQueue | None:
        for _ in self.queues:
            queue = self.turn()
            if is_wanted(queue.broker_name):
                return queue
        return None

    def _least_bad(self, faults: FaultTable) -> MessageQueue:
        broker = faults.least_bad()
        if broker is None:
            return self.turn()
        of_broker = self._of_broker.get(broker)
        if of_broker is None:
            faults.forget(broker)
            return self.turn()
        return of_broker[next(self._rotation) % len(of_broker)]


def by_hash(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
    """Select by Java's hash of the key: equal keys go to one queue while the queue count is stable.

    A `str` hashes like Java's String, an `int` like Integer or, outside its range, like Long, and
    any other object like the String of its `str()`.
    """
    return queues[abs(java_hash(key)) % len(queues)]


def by_sharding_key(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
    """Select by the hash of the message's sharding key, or of `key` if it has none."""
    return by_hash(queues, message, message.sharding_key or key)


def at_random(chance: Random) -> Selector:
    """A selector that returns any queue."""

    def select(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
        return queues[chance.randrange(len(queues))]

    return select


def by_machine_room(rooms: frozenset[str], chance: Random) -> Selector:
    """A selector that returns any queue of a broker whose name is `room@...` with one of the rooms.

    It raises NoRoute if the topic has no such queue. Java's selector of this name selects nothing.
    """

    def select(queues: Sequence[MessageQueue], message: Message, key: object) -> MessageQueue:
        near = [queue for queue in queues if machine_room(queue.broker_name) in rooms]
        if not near:
            names = ", ".join(sorted(rooms))
            raise NoRoute(f"topic {message.topic} has no queue in the machine rooms {names}")
        return near[chance.randrange(len(near))]

    return select


def java_hash(value: object) -> int:
    """`hashCode` of the Java value that corresponds to this one."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**31) <= value < 2**31:
            folded = (value ^ (value >> 32)) & 0xFFFFFFFF
            return folded - (1 << 32) if folded >= 1 << 31 else folded
        return value
    return _text_hash(str(value))


_text_hash = lru_cache(maxsize=_HASHES_MAX)(hash_code)  # senders reuse keys


class SendOptions(msgspec.Struct, frozen=True):
    """The optional arguments of a send. Without any, the sharding key of the message decides."""

    queue: MessageQueue | None = None
    selector: Selector | None = None  # called with the queues, the message and the key
    key: object = None  # selects by its hash if there is no selector
    timeout_ms: int | None = None

    def is_free(self, message: Message) -> bool:
        """Return whether any queue will do."""
        return (
            self.queue is None
            and self.selector is None
            and self.key is None
            and not message.sharding_key
        )

    def queue_of(
        self, queues: TopicQueues, message: Message, faults: FaultTable | None
    ) -> MessageQueue:
        """Select the queue of the first attempt. Raises what the selector raises."""
        queue, selector = self.queue, self.selector
        if queue is None:
            if self.is_free(message):
                return queues.next(faults=faults)
            queues.check_any()
            queue = (selector or by_sharding_key)(queues.queues, message, self.key)
        if not isinstance(queue, MessageQueue) or queue.topic != message.topic:
            raise BadMessage(f"{queue!r} is not a queue of topic {message.topic}")
        return queue


ANY_QUEUE = SendOptions()
