"""The column deliverAt of a sink: converts the time of each row to a delay level of the brokers.

A broker delays messages by levels only: 18 by default, from one second to two hours. A row gets the
shortest level that does not deliver it early, so that it arrives at its time or later. A time
beyond the longest level is rejected.
"""

import time
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.errors import BadMessage
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.values import parse_properties
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.property_table import Ints
from cometmq.spark.read.retry import retry_unreachable

DELIVER_AT = "deliverAt"
LEVEL = "delayLevel"
_SETTING = "messageDelayLevel"


class Delays:
    """Converts times to levels. Requests the levels of the brokers once per topic."""

    def __init__(self, cluster: Cluster, broker_timeout_ms: int) -> None:
        self._cluster = cluster
        self._patience_ms = broker_timeout_ms
        self._levels: dict[str, Ints] = {}  # by topic: the delay of each level in ms, from level 1

    def resolved(self, batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
        """Return the batch with the column deliverAt replaced by delayLevel."""
        at = batch.schema.get_field_index(DELIVER_AT)
        if at < 0:
            return batch
        times = batch.column(at).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        now_us = int(time.time() * 1_000_000)
        waits_ms = -((now_us - np.asarray(pc.fill_null(times, 0))) // 1000)  # rounded up
        levels = np.zeros(len(waits_ms), np.int64)
        for name, rows in _of_topics(batch, topic):
            levels[rows] = self._level(name, waits_ms[rows])
        return batch.set_column(at, LEVEL, pa.array(levels))

    def _level(self, topic: str, waits_ms: Ints) -> Ints:
        """Return the level of each row; 0 if it is due."""
        lengths = self._lengths(topic)
        longest = int(lengths.max())
        if (waits_ms > longest).any():
            furthest = int(waits_ms.max()) // 1000
            raise BadMessage(
                f"column {DELIVER_AT} is {furthest} s from now in a row for topic {topic}: the"
                f" longest delay of its brokers is {longest // 1000} s ({_SETTING})"
            )
        order = np.argsort(lengths, kind="stable")  # levels may be in any order
        found = order[np.searchsorted(lengths[order], np.minimum(waits_ms, longest))] + 1
        return np.where(waits_ms > 0, found, 0)

    def _lengths(self, topic: str) -> Ints:
        if topic not in self._levels:
            self._levels[topic] = retry_unreachable(partial(self._asked, topic), self._patience_ms)
        return self._levels[topic]

    def _asked(self, topic: str) -> Ints:
        """Request the levels; BadMessage if brokers differ, because a row may go to any of them."""
        found: dict[str, str] = {}
        for queue in self._cluster.route(topic).to_write:
            if queue.broker_name not in found:
                answer = self._cluster.ask_master(queue, RequestCode.GET_BROKER_CONFIG, None)
                found[queue.broker_name] = parse_properties(bytes(answer.body).decode())[_SETTING]
        if len(set(found.values())) != 1:
            raise BadMessage(
                f"column {DELIVER_AT}: brokers of topic {topic} differ in {_SETTING}: {found}"
            )
        levels = DelayLevels(next(iter(found.values())))
        return np.array([levels.delay_ms(each + 1) for each in range(levels.count)], np.int64)


def _of_topics(batch: pa.RecordBatch, topic: str | None) -> list[tuple[str, Ints]]:
    """Return each topic with the indexes of its rows."""
    if topic is not None:
        return [(topic, np.arange(batch.num_rows))]
    names = batch["topic"]
    return [
        (name, np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, name), False))))
        for name in names.drop_null().unique().to_pylist()
    ]
