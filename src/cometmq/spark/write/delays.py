"""The column deliverAt of a sink: a time for each row, as a level of the brokers.

A broker delays by levels alone, 18 in its stock settings, from a second to two hours. A row gets
the shortest one that does not deliver it before its time: so it comes at that time or later, never
before. One further off than the longest level is refused, as nothing would keep its time.
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
from cometmq.spark.read.retry import patiently

DELIVER_AT = "deliverAt"
LEVEL = "delayLevel"
_SETTING = "messageDelayLevel"


class Delays:
    """Of one task: what the brokers of its topics have is asked once."""

    def __init__(self, cluster: Cluster, patience_ms: int) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms
        self._levels: dict[str, Ints] = {}  # by topic: milliseconds of each level, from level 1 on

    def resolved(self, batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
        """The batch with levels in the place of times, if it has times."""
        at = batch.schema.get_field_index(DELIVER_AT)
        if at < 0:
            return batch
        times = batch.column(at).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        now_us = int(time.time() * 1_000_000)
        waits_ms = -((now_us - np.asarray(pc.fill_null(times, 0))) // 1000)  # up, not down
        levels = np.zeros(len(waits_ms), np.int64)
        for name, rows in _of_topics(batch, topic):
            levels[rows] = self._level(name, waits_ms[rows])
        return batch.set_column(at, LEVEL, pa.array(levels))

    def _level(self, topic: str, waits_ms: Ints) -> Ints:
        """0 for what is due."""
        lengths = self._lengths(topic)
        longest = int(lengths.max())
        if (waits_ms > longest).any():
            furthest = int(waits_ms.max()) // 1000
            raise BadMessage(
                f"column {DELIVER_AT} is {furthest} s from now in a row for topic {topic}: brokers"
                f" delay by {longest // 1000} s at the most ({_SETTING})"
            )
        order = np.argsort(lengths, kind="stable")  # levels need not be in order
        found = order[np.searchsorted(lengths[order], np.minimum(waits_ms, longest))] + 1
        return np.where(waits_ms > 0, found, 0)

    def _lengths(self, topic: str) -> Ints:
        if topic not in self._levels:
            self._levels[topic] = patiently(partial(self._asked, topic), self._patience_ms)
        return self._levels[topic]

    def _asked(self, topic: str) -> Ints:
        """BadMessage if brokers do not have the same: a row may go to any of them."""
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
    """Each topic, and which rows are its own."""
    if topic is not None:
        return [(topic, np.arange(batch.num_rows))]
    names = batch["topic"]
    return [
        (name, np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, name), False))))
        for name in names.drop_null().unique().to_pylist()
    ]
