"""`replay`: sends an archive to a topic, in order, exactly once, at an optional rate."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.errors import BadSetting
from cometmq.spark.jobs.sources import Options, cluster_at, finish
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report
from cometmq.spark.schema import COLUMNS, ddl

_BATCH_SIZE = str(64 << 20)  # bytes of files that one task sorts in memory
_SENT = ("body", "tags", "keys", "properties", "queueId")
_SLICES_A_SECOND = 10
_ROWS_OF_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SHOWN_MAX = 30


def replay(
    spark: SparkSession,
    lake: Path,
    server: Options,
    topic: str,
    out: Path,
    *,
    topics: tuple[str, ...] = (),
    start_ms: int | None = None,
    end_ms: int | None = None,
    rate: int | None = None,
) -> JobOutcome:
    """Resume from the checkpoint and send what was added to the archive.

    A single task sends, so that messages are sent in the order in which they were stored. A message
    goes to the queue with its old id, modulo the number of queues.
    """
    check(lake, server, topic)
    report = Report(out)
    picture = report.file("report.png")
    queues = len(cluster_at(server).route(topic).to_write)
    rows = spark.readStream.schema(f"{ddl(COLUMNS)}, day date").option(
        "maxBytesPerTrigger", _BATCH_SIZE
    )
    chosen = _chosen(rows.parquet(str(lake)), topics, start_ms, end_ms)
    prepared = (
        chosen.observe("sent", f.count(f.lit(1)).alias("messages"))
        .withColumn("queueId", f.pmod("queueId", f.lit(queues)))
        .select("storeTimestamp", "queueOffset", *_SENT)
        .coalesce(1)
    )
    paced = prepared.mapInArrow(Pace(rate), prepared.select(*_SENT).schema)
    writer = paced.writeStream.format("rocketmq").options(**server).option("topic", topic)
    with _small_batches(spark, rate):
        done = finish(writer.option("delivery", "exactly-once"), out)
    table = [
        (each.batchId, each.timestamp, sent.messages, round(each.batchDuration / 1000, 3))
        for each in done
        if (sent := each.observedMetrics.get("sent")) is not None and sent.messages
    ]
    columns = ("batch", "begun", "messages", "seconds")
    bars(
        picture,
        f"Messages sent to {topic} by batch of this run",
        [(str(number), topic, count) for number, _, count, _ in table[-_SHOWN_MAX:]],
        "messages",
        place="batch",
    )
    return JobOutcome("replay", columns, table, [report.table(columns, table), picture])


@contextmanager
def _small_batches(spark: SparkSession, rate: int | None) -> Iterator[None]:
    """Make Spark pass small Arrow batches between workers, so that a rate is not bursty."""
    if rate is None:
        yield
        return
    before = spark.conf.get(_ROWS_OF_BATCH)
    spark.conf.set(_ROWS_OF_BATCH, str(_slice(rate)))
    try:
        yield
    finally:
        spark.conf.set(_ROWS_OF_BATCH, before)


def _slice(rate: int) -> int:
    return max(1, rate // _SLICES_A_SECOND)


def check(lake: Path, server: Options, topic: str) -> None:
    """Raise an error if the archive or the topic does not exist."""
    if not lake.is_dir():
        raise BadSetting(f"argument ARCHIVE: folder {lake} does not exist")
    cluster_at(server).route(topic)


def _chosen(
    rows: DataFrame, topics: tuple[str, ...], start_ms: int | None, end_ms: int | None
) -> DataFrame:
    if topics:
        rows = rows.where(f.col("topic").isin(*topics))
    stored_ms = f.unix_millis("storeTimestamp")
    if start_ms is not None:
        rows = rows.where(stored_ms >= start_ms)
    return rows if end_ms is None else rows.where(stored_ms < end_ms)


class Pace:
    """Sorts messages by store time and limits their rate. Runs in a worker."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sort one micro-batch in memory; `maxBytesPerTrigger` bounds its size."""
        held = list(batches)
        if not held:
            return
        rows = pa.Table.from_batches(held)
        rows = rows.sort_by([("storeTimestamp", "ascending"), ("queueOffset", "ascending")])
        rows = rows.select(_SENT)
        if self._rate is None:
            yield from rows.to_batches(16_384)
            return
        begun, passed = time.monotonic(), 0
        for batch in rows.to_batches(_slice(self._rate)):
            time.sleep(max(0.0, begun + passed / self._rate - time.monotonic()))
            yield batch
            passed += batch.num_rows
