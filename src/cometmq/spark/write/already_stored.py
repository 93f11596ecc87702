"""Finds the rows of a partition that an earlier attempt has stored: the basis of exactly-once.

Every message carries a stamp: query, batch, partition and row (rows.py). Before a task sends to a
topic, it finds the stored rows of its partition and leaves them out:

1. It waits until earlier attempts cannot store messages any more (fence.py).
2. It reads the queues for its stamps, from the offsets where the batch began.

These start offsets are committed as offsets of the consumer group `spark-QUERY`. They may be older
than the batch, but never newer; old ones only cost a longer read.
"""

import time
from dataclasses import dataclass
from uuid import uuid4

import pyarrow.compute as pc

from cometmq.errors import WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Links
from cometmq.spark.read.offsets import Offsets, Range
from cometmq.spark.read.pull import RangePull
from cometmq.spark.read.reading import Reading
from cometmq.spark.write import fence
from cometmq.spark.write.rows import STAMP

_RENEW_S = 5
_CLOCK_SKEW_MS = 60_000  # how far a broker's clock may be behind ours


class Superseded(WorldError):
    """Another attempt has finished the batch of this one."""


@dataclass(frozen=True)
class WriteAttempt:
    """Identifies an attempt at a partition of a batch."""

    query: str
    batch: str
    partition: int
    again: bool  # whether an earlier attempt may have ended just now
    since_ms: int | None = None  # start of a batch write, which has no query

    @property
    def group(self) -> str:
        """The group whose offsets record where batches of the query began."""
        return f"spark-{self.query}"

    @property
    def prefix(self) -> str:
        """The prefix of all stamps of this partition."""
        return f"{self.query}/{self.batch}/{self.partition}/"

    @property
    def client_prefix(self) -> str:
        """The prefix of the client ids of all attempts at this partition."""
        return f"{self.partition}@"


class StoredRows:
    """The stamps of one partition that are already in its topics."""

    def __init__(self, cluster: Cluster, links: Links, attempt: WriteAttempt) -> None:
        self._cluster = cluster
        self._links = links
        self._attempt = attempt
        self._again = attempt.again
        self._client_id = ""
        self._searched: set[str] = set()
        self._renewed = 0.0
        self._committed: Offsets = {}  # the group's offsets when they were first read
        self.stored: set[str] = set()
        self.begins: Offsets = {}  # where this batch begins, in each queue

    def search(self, topic: str) -> None:
        """Find the stored rows of a topic. Call it before each send to the topic."""
        if topic in self._searched:
            self._renew()
            return
        if not self._client_id:
            self._client_id = self._attempt.client_prefix + uuid4().hex
        queues = self._cluster.route(topic, fresh=True).to_write
        for address in sorted({self._address(queue) for queue in queues}):
            fence.wait_for_others(
                self._links.to(address),
                self._attempt.group,
                self._client_id,
                self._attempt.client_prefix,
                drain=self._again,
            )
        for queue in queues:
            self._read(queue)
        self._searched.add(topic)
        self._renewed = time.monotonic()

    def restart(self) -> None:
        """Close all connections and search again: requests in flight may be stored."""
        self._links.close()
        self._searched.clear()
        self._client_id = ""
        self._again = True

    def _renew(self) -> None:
        """Renew the registration, which brokers expire, and check that the batch is still open."""
        if time.monotonic() - self._renewed < _RENEW_S:
            return
        for queue, begin in self._committed.items():
            if (self._cluster.consumer_offset(self._attempt.group, queue) or 0) > begin:
                raise Superseded(
                    f"batch {self._attempt.batch} of query {self._attempt.query} was finished by"
                    " another attempt while this one was delayed"
                )
        for queue in self.begins:
            link = self._links.to(self._address(queue))
            fence.register_producer(link, self._attempt.group, self._client_id)
        self._renewed = time.monotonic()

    def _address(self, queue: MessageQueue) -> str:
        return self._cluster.master_address(queue.topic, queue.broker_name)

    def _read(self, queue: MessageQueue) -> None:
        """Collect our stamps from the start of the batch to the end of the queue."""
        first, end = self._cluster.min_offset(queue), self._cluster.max_offset(queue)
        begin = min(max(self._begin(queue), first), end)
        reading = Reading(self._cluster, self._attempt.group, fail_on_data_loss=False)
        lowest = end
        for records in RangePull(reading, Range(queue, begin, end)).records():
            if not len(records):
                continue
            stamps = records.properties.column(STAMP)
            mine = pc.fill_null(pc.starts_with(stamps, self._attempt.prefix), False)
            if mine.true_count:
                self.stored.update(stamps.filter(mine).to_pylist())
                lowest = min(lowest, int(records.queue_offsets[pc.index(mine, True).as_py()]))
        self.begins[queue] = min(lowest, self.begins.get(queue, lowest))

    def _begin(self, queue: MessageQueue) -> int:
        """Return an offset before all rows of this batch."""
        since_ms = self._attempt.since_ms
        if since_ms is None:
            begin = self._cluster.consumer_offset(self._attempt.group, queue) or 0
            return self._committed.setdefault(queue, begin)
        return self._cluster.offset_near(queue, since_ms - _CLOCK_SKEW_MS)
