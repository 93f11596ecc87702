"""Which rows of a batch are stored already: what makes a sink exactly-once.

Every message carries a stamp: query, batch, partition, and which row of it (rows.py). A task that
writes a partition first finds out what an earlier attempt at it has stored, and leaves that out:

1. No earlier attempt sends any more. A sender has told the broker that it is there before it sends;
   once its connection is off the broker's list, all that came by it was taken or never will be.
2. The broker has put what it took into its queues.
3. The queues are read for our stamps, from where the batch began.

Where a batch began is kept as a group's offset at the broker. It is where the batch before the last
began at the least: an old one costs a longer read, and nothing else.
"""

import time
from dataclasses import dataclass
from uuid import uuid4

import pyarrow.compute as pc

from cometmq.errors import TimedOut, WorldError
from cometmq.protocol.bodies.consumer import ProducerConnection
from cometmq.protocol.bodies.heartbeat import Heartbeat, ProducerData
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.tables import KeyValues
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.client import ProducerGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import BlockingLink, Links
from cometmq.spark.read.offsets import Offsets, Range
from cometmq.spark.read.pull import RangePull, Reading
from cometmq.spark.write.rows import STAMP

_POLL_S = 0.05
_WAIT_S_MAX = 60
_RENEW_S = 5
_CLOCKS_MS = 60_000  # by which a broker's clock may be behind ours
# What waits in a broker for longer than this is dropped there: its waitTimeMillsInSendQueue.
_QUEUED_S = 0.25


class Superseded(WorldError):
    """Another attempt has done the work of this one."""


@dataclass(frozen=True)
class WriteAttempt:
    """Which try at which partition of which batch a task is."""

    query: str
    batch: str
    partition: int
    again: bool  # a try before this one may have just ended
    since_ms: int | None = None  # of a batch that has no query: when it began

    @property
    def group(self) -> str:
        """Of the query: its offsets say where its batches began."""
        return f"spark-{self.query}"

    @property
    def prefix(self) -> str:
        """Of the stamps of this partition."""
        return f"{self.query}/{self.batch}/{self.partition}/"

    @property
    def client_prefix(self) -> str:
        """Of the names under which its senders are known to brokers."""
        return f"{self.partition}@"


class Recognition:
    """Of one partition of one batch."""

    def __init__(self, cluster: Cluster, links: Links, attempt: WriteAttempt) -> None:
        self._cluster = cluster
        self._links = links
        self._attempt = attempt
        self._again = attempt.again
        self._life = ""
        self._looked: set[str] = set()
        self._renewed = 0.0
        self._known: Offsets = {}  # where the group said that batches began
        self.stored: set[str] = set()
        self.begins: Offsets = {}  # of this batch, in each queue

    def look_at(self, topic: str) -> None:
        """Before anything is sent to a topic: find out what it has."""
        if topic in self._looked:
            self._renew()
            return
        if not self._life:
            self._life = self._attempt.client_prefix + uuid4().hex
        queues = self._cluster.route(topic, fresh=True).to_write
        for address in sorted({self._address(queue) for queue in queues}):
            self._fence(self._links.to(address))
        for queue in queues:
            self._read(queue)
        self._looked.add(topic)
        self._renewed = time.monotonic()

    def forget(self) -> None:
        """A connection broke: what was on its way may be stored. All of them end."""
        self._links.close()
        self._looked.clear()
        self._life = ""
        self._again = True

    def _renew(self) -> None:
        """Brokers forget who is silent. And one that was held up is told that its time is over."""
        if time.monotonic() - self._renewed < _RENEW_S:
            return
        for queue, begin in self._known.items():
            if (self._cluster.of_group(self._attempt.group, queue) or 0) > begin:
                raise Superseded(
                    f"batch {self._attempt.batch} of query {self._attempt.query} was finished by"
                    " another attempt while this one was held up"
                )
        for queue in self.begins:
            self._beat(self._links.to(self._address(queue)))
        self._renewed = time.monotonic()

    def _beat(self, link: BlockingLink) -> None:
        us = ProducerData(group_name=self._attempt.group)
        beat = Heartbeat(client_id=self._life, producer_data_set=[us])
        link.granted(link.ask(RequestCode.HEART_BEAT, None, dumps(beat)))

    def _address(self, queue: MessageQueue) -> str:
        return self._cluster.master_address(queue.topic, queue.broker_name)

    def _fence(self, link: BlockingLink) -> None:
        """Step 1 and 2 of the top of the file, on one broker."""
        self._beat(link)
        deadline = time.monotonic() + _WAIT_S_MAX
        waited = self._again
        while self._others(link):
            waited = True
            self._wait(deadline, f"another attempt at this partition still sends to {link.address}")
        if waited:
            time.sleep(_QUEUED_S)
        log_end: int | None = None
        while True:
            found = dispatched(link)
            if found is not None:
                log_end = found[0] if log_end is None else log_end
                if found[1] >= log_end:
                    return
            self._wait(deadline, f"{link.address} is behind with its queues")

    def _others(self, link: BlockingLink) -> bool:
        header = ProducerGroupHeader(producer_group=self._attempt.group)
        response = link.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        known = loads(bytes(link.granted(response).body), ProducerConnection).connection_set
        return any(
            each.client_id.startswith(self._attempt.client_prefix) and each.client_id != self._life
            for each in known
        )

    def _wait(self, deadline: float, why: str) -> None:
        if time.monotonic() > deadline:
            raise TimedOut(f"waited {_WAIT_S_MAX} s: {why}")
        time.sleep(_POLL_S)

    def _read(self, queue: MessageQueue) -> None:
        """Step 3: stamps of ours, from where the batch began to the end."""
        first, end = self._cluster.first(queue), self._cluster.end(queue)
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
        """Before any row of this batch."""
        since_ms = self._attempt.since_ms
        if since_ms is None:
            begin = self._cluster.of_group(self._attempt.group, queue) or 0
            return self._known.setdefault(queue, begin)
        return self._cluster.near(queue, since_ms - _CLOCKS_MS)


def dispatched(link: BlockingLink) -> tuple[int, int] | None:
    """Where the log ends, and how far of it is in the queues.

    None if the broker cannot tell: Apache's fail to in the first second after their start.
    """
    response = link.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    if response.code == ResponseCode.SYSTEM_ERROR:
        return None
    table = loads(bytes(link.granted(response).body), KeyValues).table
    log_end = int(table.get("commitLogMaxOffset", 0))
    return log_end, log_end - int(table.get("dispatchBehindBytes", 0))
