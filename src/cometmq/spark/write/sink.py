"""The writing half of `format("rocketmq")`: a table, once or as a stream, into topics.

At least once: what a task could not be told of is sent again. Exactly once: see already_stored.py.
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
from cometmq.spark.options import Parse, cluster_of, group_name, parsed, text, topics, whole
from cometmq.spark.options import yes_or_no as flag
from cometmq.spark.read.cluster import Cluster, name_servers_of
from cometmq.spark.read.link import Links, links_of
from cometmq.spark.read.offsets import Offsets
from cometmq.spark.read.retry import patiently
from cometmq.spark.write.already_stored import Recognition, WriteAttempt
from cometmq.spark.write.delays import DELIVER_AT, LEVEL, Delays
from cometmq.spark.write.delivery import Delivery
from cometmq.spark.write.rows import Rows, check_columns, stamps_of

_GROUP = "spark-rocketmq-sink"
_ONCE = "exactly-once"
_FIRST_BATCH = "0"
_ADAPTIVE, _RECUTS = "spark.sql.adaptive.enabled", "spark.sql.adaptive.streaming.stateless.enabled"


def _topic(name: str, value: str) -> str:
    found = topics(name, value)
    if len(found) != 1:
        raise BadSetting(f"option {name} is {value!r}: one topic; use a column topic for more")
    if found[0] in CLOSED_TOPICS:
        raise BadSetting(f"option {name}: nobody may send to the system topic {found[0]}")
    return found[0]


def _delivery(name: str, value: str) -> str:
    if value not in ("at-least-once", _ONCE):
        raise BadSetting(f"option {name} is {value!r}: at-least-once, or {_ONCE}")
    return value


_OPTIONS: dict[str, Parse] = {
    "nameServer": lambda name, value: name_servers_of(value),
    "topic": _topic,
    "delivery": _delivery,
    "group": group_name,
    "accessKey": text,
    "secretKey": text,
    "tls": flag,
    "pullTimeoutMs": whole,
    "brokerTimeoutMs": whole,
}


@dataclass(frozen=True)
class WriteOptions:
    """What a writer is asked for."""

    cluster: Cluster
    topic: str | None
    once: bool
    group: str
    patience_ms: int

    @classmethod
    def of(cls, given: Mapping[str, str], types: Mapping[str, str]) -> "WriteOptions":
        """BadSetting, which names the option or the column, if it cannot be."""
        found = parsed(given, _OPTIONS, {})
        check_columns(types, found.get("topic"))
        delays = [name for name in (LEVEL, DELIVER_AT) if name in types]
        if found.get("delivery") == _ONCE and delays:
            raise BadSetting(
                f"column {delays[0]}: a message that waits is in no queue where another attempt"
                " finds it; use delivery=at-least-once"
            )
        return cls(
            cluster=cluster_of(found),
            topic=found.get("topic"),
            once=found.get("delivery") == _ONCE,
            group=found.get("group", _GROUP),
            patience_ms=found.get("brokerTimeoutMs", 30_000),
        )

    def check_topic(self) -> None:
        """NoRoute or Unreachable, before any row is worked on."""
        if self.topic is not None:
            self.cluster.route(self.topic)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has done."""

    rows: int
    group: str = ""  # which keeps where its batches began
    begins: Offsets = field(default_factory=dict)


def _write(
    options: WriteOptions, attempt: WriteAttempt, iterator: Iterator[pa.RecordBatch]
) -> Written:
    cluster, partition = options.cluster, attempt.partition
    if not options.once:
        links = links_of(cluster.access)
        delivery = Delivery(cluster, links, options.group, options.patience_ms, None, partition)
        delays = Delays(cluster, options.patience_ms)
        for batch in iterator:
            delivery.send(Rows(delays.resolved(batch, options.topic), options.topic), None)
        return Written(delivery.stored)
    links = Links(cluster.access)  # its own: that it is closed is a sign to the next attempt
    try:
        known = Recognition(cluster, links, attempt)
        delivery = Delivery(cluster, links, attempt.group, options.patience_ms, known, partition)
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
    """Of a batch. Run again by its user, it writes again: its tasks alone are told apart."""

    def __init__(self, options: WriteOptions) -> None:
        options.check_topic()
        self._options = options
        self._job = uuid4().hex
        self._began_ms = int(time.time() * 1000)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a worker."""
        # Any may be another try: a stage that is run again counts its attempts from 0 again.
        partition = TaskContext.get().partitionId()
        attempt = WriteAttempt(self._job, "batch", partition, again=True, since_ms=self._began_ms)
        return _write(self._options, attempt, iterator)


def _check_cut(context: TaskContext) -> None:
    """BadSetting where Spark may cut a batch otherwise when it runs again: stamps name partitions.

    Only a task sees settings, and of these what was set: both are on by default. For queries that
    keep state Spark sets the first one to false itself.
    """
    values = [context.getLocalProperty(name) or "" for name in (_ADAPTIVE, _RECUTS)]
    if "false" not in [value.strip().lower() for value in values]:
        raise BadSetting(
            f"delivery={_ONCE} of a stream needs the setting {_RECUTS}=false: else Spark may cut a"
            " batch that is run again into other partitions, and rows would be stored twice"
        )


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a worker."""
        context = TaskContext.get()
        if self._options.once:
            _check_cut(context)
        if context.getLocalProperty("streaming.sql.batchId") == _FIRST_BATCH:
            self._options.check_topic()  # later, one that is not there is waited for
        attempt = WriteAttempt(
            query=context.getLocalProperty("sql.streaming.queryId"),
            batch=context.getLocalProperty("streaming.sql.batchId"),
            partition=context.partitionId(),
            again=context.attemptNumber() > 0,
        )
        return _write(self._options, attempt, iterator)

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: N803
        """Keep where the batch began. It may be run again: so not where it ended."""
        begins: Offsets = {}
        for message in messages:
            if message is not None:
                for queue, offset in message.begins.items():
                    begins[queue] = min(offset, begins.get(queue, offset))
        groups = {message.group for message in messages if message is not None and message.group}
        cluster = self._options.cluster
        for group in groups:  # one, if any
            patiently(partial(cluster.commit, group, begins), self._options.patience_ms)

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: N803
        """The next attempt finds what this one has stored."""
