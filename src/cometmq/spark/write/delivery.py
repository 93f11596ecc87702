"""Sends the rows of a task to brokers, in batches, and sends again what is not stored.

At most one request is in flight per queue. This preserves the order of the queue, because brokers
work on the requests of one connection concurrently.
"""

import time
from collections import deque
from functools import partial

from cometmq.client.message import SEND_STATUS_OF
from cometmq.errors import NoRoute, TimedOut, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import BUSY_CODES, BlockingLink, Links
from cometmq.spark.read.retry import retry_unreachable
from cometmq.spark.write.already_stored import StoredRows
from cometmq.spark.write.rows import Rows
from cometmq.spark.write.send_batches import SendBatch, send_batches

_IN_FLIGHT_MAX = 8  # requests
_PAUSE_S = 0.2


class RowDelivery:
    """Sends the rows of one task. With `stored_rows`, each row is stored exactly once."""

    def __init__(
        self,
        cluster: Cluster,
        links: Links,
        group: str,
        broker_timeout_ms: int,
        stored_rows: StoredRows | None,
        first_queue: int,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._group = group
        self._broker_timeout_ms = broker_timeout_ms
        self._stored_rows = stored_rows
        self._turn = first_queue
        self._pending: deque[SendBatch] = deque()
        self._in_flight: dict[MessageQueue, tuple[SendBatch, BlockingLink, int]] = {}
        self._failing_since: float | None = None
        self._avoided: set[str] = set()  # brokers that failed recently
        self.stored = 0

    def send(self, rows: Rows, stamps: list[str] | None) -> None:
        """Send rows; all of them are stored when this returns."""
        self._pending.extend(send_batches(rows, stamps, self._queue_count))
        while self._pending or self._in_flight:
            try:
                if not self._start_one():
                    self._finish_one()
            except (Unreachable, TimedOut, NoRoute) as error:
                self._retry_later(error)

    def _queue_count(self, topic: str) -> int:
        return len(retry_unreachable(partial(self._queues, topic), self._broker_timeout_ms))

    def _start_one(self) -> bool:
        """Send the next batch that has a free queue; False if no batch has one."""
        if len(self._in_flight) >= _IN_FLIGHT_MAX:
            return False
        for at, batch in enumerate(self._pending):
            if self._stored_rows is not None:
                self._stored_rows.search(batch.topic)
                left = batch.without(self._stored_rows.stored)
                if left is None:
                    del self._pending[at]
                    return True
                batch = left
            queue = self._free_queue(batch)
            if queue is not None:
                self._post(batch, queue)
                del self._pending[at]
                return True
            if at > _IN_FLIGHT_MAX:
                break
        return False

    def _post(self, batch: SendBatch, queue: MessageQueue) -> None:
        link = self._links.to(self._cluster.master_address(queue.topic, queue.broker_name))
        header = batch.header(self._group, queue.queue_id)
        self._in_flight[queue] = batch, link, link.send(batch.code, header, batch.body())

    def _finish_one(self) -> None:
        """Wait for the response to the oldest request."""
        queue, (batch, link, opaque) = next(iter(self._in_flight.items()))
        response = link.answer(opaque)
        del self._in_flight[queue]
        if response.code in BUSY_CODES:
            self._pending.appendleft(batch)
            raise TimedOut(f"{link.address} says {response.remark}")
        if response.code not in SEND_STATUS_OF:
            raise refusal_of(response, f"broker {link.address}")
        self._failing_since = None
        self._avoided.clear()
        self.stored += len(batch.entries)

    def _retry_later(self, error: Exception) -> None:
        """Queue batches again whose connection failed: it is unknown whether they are stored."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > self._broker_timeout_ms / 1000:
            waited = f"not sent, after {self._broker_timeout_ms / 1000:.0f} s of attempts"
            raise Unreachable(f"{waited}: {error}") from error
        lost = [(queue, sent) for queue, sent in self._in_flight.items() if not sent[1].is_open]
        if self._stored_rows is not None and (lost or self._links.has_broken):
            # The broker has removed this attempt from its list: another one may have started.
            self._stored_rows.restart()
            lost = list(self._in_flight.items())
        for queue, (batch, _, _) in reversed(lost):
            del self._in_flight[queue]
            self._pending.appendleft(batch)
            self._avoided.add(queue.broker_name)
        self._cluster.forget_routes()
        time.sleep(_PAUSE_S)

    def _free_queue(self, batch: SendBatch) -> MessageQueue | None:
        queues = self._queues(batch.topic)
        if batch.rank is not None:
            queue = queues[batch.rank % len(queues)]
            return None if queue in self._in_flight else queue
        for _ in queues:
            queue = queues[self._turn % len(queues)]
            self._turn += 1
            if queue not in self._in_flight and queue.broker_name not in self._avoided:
                return queue
        if self._in_flight:
            return None
        self._avoided.clear()
        return queues[self._turn % len(queues)]

    def _queues(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = self._cluster.route(topic).to_write
        if not queues:
            raise NoRoute(f"no broker accepts messages for topic {topic}")
        return queues
