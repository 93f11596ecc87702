"""`format("rocketmq")`: writes a table to topics, as a batch or as a stream.

At-least-once delivery sends a row again whose result is unknown. For exactly-once delivery see
already_stored.py.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from cometmq.errors import BadSetting
from cometmq.protocol.names import CLOSED_TOPICS
from cometmq.spark.options import (
    Parse,
    boolean,
    cluster_of,
    group_name,
    parsed,
    text,
    topics,
    whole,
)
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Links, links_of
from cometmq.spark.read.name_servers import parse_name_servers
from cometmq.spark.read.offsets import Offsets
from cometmq.spark.read.retry import retry_unreachable
from cometmq.spark.write.already_stored import StoredRows, WriteAttempt
from cometmq.spark.write.delays import DELIVER_AT, LEVEL, Delays
from cometmq.spark.write.delivery import RowDelivery
from cometmq.spark.write.rows import Rows, check_columns, stamps_of

_GROUP = "spark-rocketmq-sink"
_ONCE = "exactly-once"
_FIRST_BATCH = "0"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_ADAPTIVE_STREAMS = "spark.sql.adaptive.streaming.stateless.enabled"


def _topic(name: str, value: str) -> str:
    found = topics(name, value)
    if len(found) != 1:
        raise BadSetting(
            f"option {name} is {value!r}: expected one topic; for several, use a column topic"
        )
    if found[0] in CLOSED_TOPICS:
        raise BadSetting(f"option {name}: clients cannot send to the system topic {found[0]}")
    return found[0]


def _delivery(name: str, value: str) -> str:
    if value not in ("at-least-once", _ONCE):
        raise BadSetting(f"option {name} is {value!r}: expected at-least-once or {_ONCE}")
    return value


_OPTIONS: dict[str, Parse] = {
    "nameServer": lambda name, value: parse_name_servers(value),
    "topic": _topic,
    "delivery": _delivery,
    "group": group_name,
    "accessKey": text,
    "secretKey": text,
    "tls": boolean,
    "pullTimeoutMs": whole,
    "brokerTimeoutMs": whole,
}


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options of a writer."""

    cluster: Cluster
    topic: str | None
    once: bool
    group: str
    broker_timeout_ms: int

    @classmethod
    def of(cls, given: Mapping[str, str], types: Mapping[str, str]) -> "WriteOptions":
        """Parse the options that Spark passes; BadSetting names the wrong option or column."""
        found = parsed(given, _OPTIONS, {})
        check_columns(types, found.get("topic"))
        delays = [name for name in (LEVEL, DELIVER_AT) if name in types]
        if found.get("delivery") == _ONCE and delays:
            raise BadSetting(
                f"column {delays[0]} needs delivery=at-least-once: a delayed message is in no"
                " queue where another attempt could find it"
            )
        return cls(
            cluster=cluster_of(found),
            topic=found.get("topic"),
            once=found.get("delivery") == _ONCE,
            group=found.get("group", _GROUP),
            broker_timeout_ms=found.get("brokerTimeoutMs", 30_000),
        )

    def check_topic(self) -> None:
        """Raise NoRoute or Unreachable before any row is processed."""
        if self.topic is not None:
            self.cluster.route(self.topic)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a task."""

    rows: int
    group: str = ""  # the group whose offsets record where batches began
    begins: Offsets = field(default_factory=dict)


def _write(
    options: WriteOptions, attempt: WriteAttempt, iterator: Iterator[pa.RecordBatch]
) -> Written:
    cluster, partition = options.cluster, attempt.partition
    if not options.once:
        links = links_of(cluster.access)
        delivery = RowDelivery(
            cluster, links, options.group, options.broker_timeout_ms, None, partition
        )
        delays = Delays(cluster, options.broker_timeout_ms)
        for batch in iterator:
            delivery.send(Rows(delays.resolved(batch, options.topic), options.topic), None)
        return Written(delivery.stored)
    links = Links(cluster.access)  # not shared: the next attempt waits until they are closed
    try:
        known = StoredRows(cluster, links, attempt)
        delivery = RowDelivery(
            cluster, links, attempt.group, options.broker_timeout_ms, known, partition
        )
        seen: dict[str, int] = {}
        count = 0
        for batch in iterator:
            rows = Rows(batch, options.topic)
            count += len(rows)
            delivery.send(rows, stamps_of(attempt.prefix, rows, seen))
        return Written(count, attempt.group, known.begins)
    finally:
        links.close()


class RocketMQWriter(DataSourceArrowWriter):
    """Writes a batch. Only attempts of its own tasks are recognized; a second write adds rows."""

    def __init__(self, options: WriteOptions) -> None:
        options.check_topic()
        self._options = options
        self._job = uuid4().hex
        self._began_ms = int(time.time() * 1000)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a partition; runs in a worker."""
        # Any attempt may be a repetition: a stage that runs again counts its attempts from 0.
        partition = TaskContext.get().partitionId()
        attempt = WriteAttempt(self._job, "batch", partition, again=True, since_ms=self._began_ms)
        return _write(self._options, attempt, iterator)


def _check_partitioning(context: TaskContext) -> None:
    """Raise BadSetting if Spark may partition a batch differently when it runs again.

    Stamps contain the partition. A task sees only settings that were set explicitly; both are on by
    default. Spark itself sets the first one to false for stateful queries.
    """
    values = [context.getLocalProperty(name) or "" for name in (_ADAPTIVE, _ADAPTIVE_STREAMS)]
    if "false" not in [value.strip().lower() for value in values]:
        raise BadSetting(
            f"delivery={_ONCE} of a stream needs the setting {_ADAPTIVE_STREAMS}=false: otherwise"
            " Spark may partition a repeated batch differently, and rows would be stored twice"
        )


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a partition; runs in a worker."""
        context = TaskContext.get()
        if self._options.once:
            _check_partitioning(context)
        if context.getLocalProperty("streaming.sql.batchId") == _FIRST_BATCH:
            self._options.check_topic()  # later batches wait for a missing topic
        attempt = WriteAttempt(
            query=context.getLocalProperty("sql.streaming.queryId"),
            batch=context.getLocalProperty("streaming.sql.batchId"),
            partition=context.partitionId(),
            again=context.attemptNumber() > 0,
        )
        return _write(self._options, attempt, iterator)

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: N803
        """Commit where the batch began, not where it ended, because it may run again."""
        begins: Offsets = {}
        for message in messages:
            if message is not None:
                for queue, offset in message.begins.items():
                    begins[queue] = min(offset, begins.get(queue, offset))
        groups = {message.group for message in messages if message is not None and message.group}
        cluster = self._options.cluster
        for group in groups:  # at most one
            retry_unreachable(
                partial(cluster.commit, group, begins), self._options.broker_timeout_ms
            )

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: the next attempt finds the rows that this one has stored."""
