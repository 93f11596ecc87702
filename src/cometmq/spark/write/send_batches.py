"""Groups rows into send requests by topic and, if rows choose a queue, by queue."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cometmq.errors import BadMessage
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.base import Header
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.names import DEFAULT_TOPIC
from cometmq.spark.read.property_table import Ints
from cometmq.spark.write.rows import Rows, select_rows, unique_keys

_ROWS_MAX = 1000
_SIZE_MAX = 512 << 10  # bytes of entries

QueueCount = Callable[[str], int]  # the number of queues of a topic


@dataclass(frozen=True)
class SendBatch:
    """The entries of one request. A delayed message is sent alone."""

    topic: str
    rank: int | None  # of the queue among those of the topic; None: any queue
    entries: pa.Array
    stamps: list[str] | None
    delayed: tuple[bytes, str] | None = None  # body and properties

    def without(self, stored: set[str]) -> "SendBatch | None":
        """Return the batch without stored rows; None if all rows are stored."""
        assert self.stamps is not None
        left = [at for at, stamp in enumerate(self.stamps) if stamp not in stored]
        if len(left) == len(self.stamps):
            return self
        stamps = [self.stamps[at] for at in left]
        entries = self.entries.take(pa.array(left, pa.int64()))
        return SendBatch(self.topic, self.rank, entries, stamps, self.delayed) if left else None

    @property
    def code(self) -> RequestCode:
        """The code of the request."""
        is_batch = self.delayed is None
        return RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2

    def header(self, group: str, queue_id: int) -> Header:
        """Return the header of the request."""
        return SendHeaderV2(
            producer_group=group,
            topic=self.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties="" if self.delayed is None else self.delayed[1],
            reconsume_times=0,
            batch=self.delayed is None,
        )

    def body(self) -> bytes:
        """Return the body of the request."""
        if self.delayed is not None:
            return self.delayed[0]
        bounds = np.frombuffer(self.entries.buffers()[1], np.int32)
        first = self.entries.offset
        start, end = bounds[first], bounds[first + len(self.entries)]
        return bytes(memoryview(self.entries.buffers()[2])[start:end])


def send_batches(
    rows: Rows, stamps: list[str] | None, queue_count: QueueCount
) -> Iterator[SendBatch]:
    """Yield the requests that send all rows. `stamps` has one stamp per row."""
    for topic, rank, indexes in _groups(rows, queue_count):
        some = rows if len(indexes) == len(rows) else select_rows(rows, indexes)
        some_stamps = None if stamps is None else [stamps[at] for at in indexes.tolist()]
        keys = unique_keys(len(some))
        stamp_array = None if some_stamps is None else pa.array(some_stamps, pa.string())
        if some.delay_levels.any():
            yield from _delayed_batches(some, topic, rank, keys, stamp_array)
            continue
        entries = some.entries(keys, stamp_array)
        for start, stop in entry_slices(entries):
            part = None if some_stamps is None else some_stamps[start:stop]
            yield SendBatch(topic, rank, entries.slice(start, stop - start), part)


def _groups(rows: Rows, queue_count: QueueCount) -> Iterator[tuple[str, int | None, Ints]]:
    """Yield topic, queue rank and row indexes; delayed rows form groups of their own."""
    encoded = rows.topics.dictionary_encode()
    codes = np.asarray(encoded.indices)
    delayed = rows.delay_levels > 0
    for code, topic in enumerate(encoded.dictionary.to_pylist()):
        ranks = _ranks(rows, topic, queue_count)
        for rank in [None] if ranks is None else np.unique(ranks[codes == code]).tolist():
            mine = codes == code if rank is None else (codes == code) & (ranks == rank)
            for chosen in (mine & ~delayed, mine & delayed):
                if chosen.any():
                    yield topic, rank, np.flatnonzero(chosen)


def _ranks(rows: Rows, topic: str, queue_count: QueueCount) -> Ints | None:
    """Return the queue rank of each row; None if rows may go to any queue."""
    numbers, keys = rows.column("queueId"), rows.column("shardingKey")
    if numbers is not None:
        count = queue_count(topic)
        found = np.asarray(numbers.cast(pa.int64()).fill_null(-1))
        if ((found < 0) | (found >= count)).any():
            raise BadMessage(f"column queueId: topic {topic} has the queues 0 to {count - 1}")
        return found
    if keys is None:
        return None
    count = queue_count(topic)
    encoded = keys.cast(pa.string()).fill_null("").dictionary_encode()
    hashed = [abs(hash_code(key)) % count for key in encoded.dictionary.to_pylist()]
    ranks: Ints = np.array(hashed, np.int64)[np.asarray(encoded.indices)]
    return ranks


def entry_slices(entries: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield start and end of slices that fit into one request each."""
    bounds = np.frombuffer(entries.buffers()[1], np.int32)[: len(entries) + 1]
    start = 0
    while start < len(entries):
        fits = int(np.searchsorted(bounds, bounds[start] + _SIZE_MAX, "right")) - 1
        stop = min(max(fits, start + 1), start + _ROWS_MAX, len(entries))
        yield start, stop
        start = stop


def _delayed_batches(
    rows: Rows, topic: str, rank: int | None, keys: pa.Array, stamps: pa.Array | None
) -> Iterator[SendBatch]:
    """Yield one request per row: brokers reject batches of delayed messages."""
    texts = rows.properties_texts(keys, stamps).to_pylist()
    bodies = rows.bodies.to_pylist()
    known = [None] * len(rows) if stamps is None else stamps.to_pylist()
    for body, text, stamp in zip(bodies, texts, known, strict=True):
        entry = pa.array([body], pa.binary())
        yield SendBatch(topic, rank, entry, None if stamp is None else [stamp], (body, text))
