"""Rows on their way to brokers: in batches, one at a time to each queue, sent again if need be.

One at a time keeps the order of a queue: brokers work on what one connection sends at once.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from cometmq.errors import BadMessage, NoRoute, TimedOut, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.names import DEFAULT_TOPIC
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import BlockingLink, Links
from cometmq.spark.read.property_table import Ints
from cometmq.spark.read.retry import patiently
from cometmq.spark.write.already_stored import Recognition
from cometmq.spark.write.rows import Rows, taken, unique_keys

_PARCEL_ROWS = 1000
_PARCEL_SIZE = 512 << 10
_WINDOW = 8  # parcels on their way
_PAUSE_S = 0.2
_STORED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
# The broker has not taken it, and may do so later.
_BUSY = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL}
)


@dataclass(frozen=True)
class Parcel:
    """Entries of one batch; one that is delayed goes alone."""

    topic: str
    rank: int | None  # of its queue among those of the topic; None: any
    entries: pa.Array
    stamps: list[str] | None
    delayed: tuple[bytes, str] | None = None  # body and properties

    def without(self, stored: set[str]) -> "Parcel | None":
        """What of it is not stored yet."""
        assert self.stamps is not None
        left = [at for at, stamp in enumerate(self.stamps) if stamp not in stored]
        if len(left) == len(self.stamps):
            return self
        stamps = [self.stamps[at] for at in left]
        entries = self.entries.take(pa.array(left, pa.int64()))
        return Parcel(self.topic, self.rank, entries, stamps, self.delayed) if left else None

    def body(self) -> bytes:
        """As a request carries it."""
        if self.delayed is not None:
            return self.delayed[0]
        bounds = np.frombuffer(self.entries.buffers()[1], np.int32)
        first = self.entries.offset
        start, end = bounds[first], bounds[first + len(self.entries)]
        return bytes(memoryview(self.entries.buffers()[2])[start:end])


class Delivery:
    """Of one task."""

    def __init__(
        self,
        cluster: Cluster,
        links: Links,
        group: str,
        patience_ms: int,
        recognition: Recognition | None,
        first_queue: int,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._group = group
        self._patience_ms = patience_ms
        self._recognition = recognition
        self._turn = first_queue
        self._pending: deque[Parcel] = deque()
        self._on_way: dict[MessageQueue, tuple[Parcel, BlockingLink, int]] = {}
        self._failing_since: float | None = None
        self._avoided: set[str] = set()  # brokers that have just failed
        self.stored = 0

    def send(self, rows: Rows, stamps: list[str] | None) -> None:
        """All of them are stored when it returns."""
        self._pending.extend(self._parcels(rows, stamps))
        while self._pending or self._on_way:
            try:
                if not self._start_one():
                    self._finish_one()
            except (Unreachable, TimedOut, NoRoute) as error:
                self._retry_later(error)

    # Rows to parcels

    def _parcels(self, rows: Rows, stamps: list[str] | None) -> Iterator[Parcel]:
        for topic, rank, places in self._groups(rows):
            some = rows if len(places) == len(rows) else taken(rows, places)
            some_stamps = None if stamps is None else [stamps[at] for at in places.tolist()]
            keys = unique_keys(len(some))
            stamp_array = None if some_stamps is None else pa.array(some_stamps, pa.string())
            delayed = np.flatnonzero(some.delay_levels)
            if len(delayed):
                yield from _single(some, topic, rank, keys, stamp_array)
                continue
            entries = some.entries(keys, stamp_array)
            for start, stop in _cuts(entries):
                part = None if some_stamps is None else some_stamps[start:stop]
                yield Parcel(topic, rank, entries.slice(start, stop - start), part)

    def _groups(self, rows: Rows) -> Iterator[tuple[str, int | None, Ints]]:
        """Rows of one topic and, if they have a place, of one queue; delayed ones apart."""
        encoded = rows.topics.dictionary_encode()
        codes = np.asarray(encoded.indices)
        delayed = rows.delay_levels > 0
        for code, topic in enumerate(encoded.dictionary.to_pylist()):
            ranks = self._ranks(rows, topic)
            for rank in [None] if ranks is None else np.unique(ranks[codes == code]).tolist():
                mine = codes == code if rank is None else (codes == code) & (ranks == rank)
                for chosen in (mine & ~delayed, mine & delayed):
                    if chosen.any():
                        yield topic, rank, np.flatnonzero(chosen)

    def _ranks(self, rows: Rows, topic: str) -> Ints | None:
        """Of the queue of each row; None if any will do."""
        numbers, keys = rows.column("queueId"), rows.column("shardingKey")
        if numbers is not None:
            count = self._queue_count(topic)
            found = np.asarray(numbers.cast(pa.int64()).fill_null(-1))
            if ((found < 0) | (found >= count)).any():
                raise BadMessage(f"column queueId: topic {topic} has the queues 0 to {count - 1}")
            return found
        if keys is None:
            return None
        count = self._queue_count(topic)
        encoded = keys.cast(pa.string()).fill_null("").dictionary_encode()
        places = [abs(hash_code(key)) % count for key in encoded.dictionary.to_pylist()]
        ranks: Ints = np.array(places, np.int64)[np.asarray(encoded.indices)]
        return ranks

    def _queue_count(self, topic: str) -> int:
        return len(patiently(partial(self._queues, topic), self._patience_ms))

    # Parcels to brokers

    def _start_one(self) -> bool:
        """Send the next that may go; False if none may."""
        if len(self._on_way) >= _WINDOW:
            return False
        for at, parcel in enumerate(self._pending):
            if self._recognition is not None:
                self._recognition.look_at(parcel.topic)
                left = parcel.without(self._recognition.stored)
                if left is None:
                    del self._pending[at]
                    return True
                parcel = left
            queue = self._free_queue(parcel)
            if queue is not None:
                self._post(parcel, queue)
                del self._pending[at]
                return True
            if at > _WINDOW:
                break
        return False

    def _post(self, parcel: Parcel, queue: MessageQueue) -> None:
        address = self._cluster.master_address(queue.topic, queue.broker_name)
        code = RequestCode.SEND_BATCH_MESSAGE
        properties = ""
        if parcel.delayed is not None:
            code, properties = RequestCode.SEND_MESSAGE_V2, parcel.delayed[1]
        header = SendHeaderV2(
            producer_group=self._group,
            topic=queue.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=properties,
            reconsume_times=0,
            batch=parcel.delayed is None,
        )
        link = self._links.to(address)
        self._on_way[queue] = parcel, link, link.send(code, header, parcel.body())

    def _finish_one(self) -> None:
        """Wait for the oldest."""
        queue, (parcel, link, opaque) = next(iter(self._on_way.items()))
        response = link.answer(opaque)
        del self._on_way[queue]
        if response.code in _BUSY:
            self._pending.appendleft(parcel)
            raise TimedOut(f"{link.address} says {response.remark}")
        if response.code not in _STORED:
            raise refusal_of(response, f"broker {link.address}")
        self._failing_since = None
        self._avoided.clear()
        self.stored += len(parcel.entries)

    def _retry_later(self, error: Exception) -> None:
        """What was on its way may be stored or not."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > self._patience_ms / 1000:
            waited = f"not sent, after {self._patience_ms / 1000:.0f} s of attempts"
            raise Unreachable(f"{waited}: {error}") from error
        lost = [(queue, on_way) for queue, on_way in self._on_way.items() if not on_way[1].is_open]
        if self._recognition is not None and (lost or self._links.has_broken):
            self._recognition.forget()  # off the broker's list: another attempt may have gone on
            lost = list(self._on_way.items())
        for queue, (parcel, _, _) in reversed(lost):
            del self._on_way[queue]
            self._pending.appendleft(parcel)
            self._avoided.add(queue.broker_name)
        self._cluster.forget_routes()
        time.sleep(_PAUSE_S)

    def _free_queue(self, parcel: Parcel) -> MessageQueue | None:
        queues = self._queues(parcel.topic)
        if parcel.rank is not None:
            queue = queues[parcel.rank % len(queues)]
            return None if queue in self._on_way else queue
        for _ in queues:
            queue = queues[self._turn % len(queues)]
            self._turn += 1
            if queue not in self._on_way and queue.broker_name not in self._avoided:
                return queue
        if self._on_way:
            return None
        self._avoided.clear()
        return queues[self._turn % len(queues)]

    def _queues(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = self._cluster.route(topic).to_write
        if not queues:
            raise NoRoute(f"no broker takes messages of topic {topic}")
        return queues


def _cuts(entries: pa.Array) -> Iterator[tuple[int, int]]:
    """Stretches that make a batch each."""
    bounds = np.frombuffer(entries.buffers()[1], np.int32)[: len(entries) + 1]
    start = 0
    while start < len(entries):
        fits = int(np.searchsorted(bounds, bounds[start] + _PARCEL_SIZE, "right")) - 1
        stop = min(max(fits, start + 1), start + _PARCEL_ROWS, len(entries))
        yield start, stop
        start = stop


def _single(
    rows: Rows, topic: str, rank: int | None, keys: pa.Array, stamps: pa.Array | None
) -> Iterator[Parcel]:
    """Delayed ones: no batch takes them."""
    texts = rows.properties_texts(keys, stamps).to_pylist()
    bodies = rows.bodies.to_pylist()
    known = [None] * len(rows) if stamps is None else stamps.to_pylist()
    for body, text, stamp in zip(bodies, texts, known, strict=True):
        entry = pa.array([body], pa.binary())
        yield Parcel(topic, rank, entry, None if stamp is None else [stamp], (body, text))
