"""`replay`: an archive back into a topic, each message once, as fast as is asked for."""

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

_TOGETHER = str(64 << 20)  # bytes of files: sorted in memory by one task
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
    """Goes on where it was, and on with what the archive gets.

    One task sends, so that messages leave in the order in which they were stored. Queues keep
    their numbers where the topic has as many.
    """
    check(lake, server, topic)
    report = Report(out)
    picture = report.file("report.png")
    queues = len(cluster_at(server).route(topic).to_write)
    rows = spark.readStream.schema(f"{ddl(COLUMNS)}, day date").option(
        "maxBytesPerTrigger", _TOGETHER
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
        f"Messages sent to {topic}, by batch of this run",
        [(str(number), topic, count) for number, _, count, _ in table[-_SHOWN_MAX:]],
        "messages",
        place="batch",
    )
    return JobOutcome("replay", columns, table, [report.table(columns, table), picture])


@contextmanager
def _small_batches(spark: SparkSession, rate: int | None) -> Iterator[None]:
    """Rows go from one worker to the next in batches, which would let them pass in bursts."""
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
    """An error that says what is not there."""
    if not lake.is_dir():
        raise BadSetting(f"argument ARCHIVE: there is no folder {lake}")
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
    """Puts messages in order, and lets so many a second pass. Runs in a worker."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of one micro-batch, which is held: its size is bounded."""
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
