"""`reconcile`: compares sent with consumed messages, by key.

Sent messages are those in the topic. The user chooses what counts as consumed:

    the traces of a group     a listener consumed the message successfully
    another topic             it contains a message with the same key
    an archive                it contains a row with the same key

A message is late if it was first consumed longer than `late_ms` after it was stored, and double if
it was consumed more often than sent. A message that was not consumed is lost, or waiting if it is
not older than `late_ms`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.errors import BadSetting
from cometmq.spark.jobs.keys import columns_for, key_of
from cometmq.spark.jobs.sources import Options, read
from cometmq.spark.jobs.trace_records import CONSUMED, calls
from cometmq.spark.options import ReadOptions
from cometmq.spark.read.offset_bounds import OffsetBounds
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

STATES = ("consumed", "late", "double", "waiting", "lost")


@dataclass(frozen=True)
class Consumed:
    """The source of consumed messages. Exactly one of trace, topic and lake is set."""

    group: str | None = None
    trace: Options | None = None
    topic: Options | None = None
    lake: Path | None = None

    def rows(self, spark: SparkSession, by: str) -> DataFrame:
        """Return the key and the time in ms of each consumption."""
        if self.trace is not None:
            done = calls(spark, self.trace).where((f.col("kind") == CONSUMED) & f.col("success"))
            return done.where(f.col("group") == self.group).select(
                f.col("id").alias("key"), f.col("timeMs").alias("consumedMs")
            )
        if self.topic is not None:
            rows = read(spark, {**self.topic, "columns": _columns(by)})
        else:
            rows = spark.read.parquet(str(self.lake))
        return rows.select(key_of(by).alias("key"), _stored_ms().alias("consumedMs"))


def check(source: Options, by: str) -> None:
    """Raise BadSetting if consumed messages cannot be assigned to one of several topics."""
    topics = sorted({queue.topic for queue in OffsetBounds(ReadOptions.of(source)).queues()})
    if len(topics) > 1 and by != "id":
        raise BadSetting(
            f"option --topic names {len(topics)} topics ({', '.join(topics[:8])}): with --key"
            f" {by}, a message consumed from one would count for all with the same key; give one"
            " topic, or --key id"
        )


def reconcile(
    spark: SparkSession,
    source: Options,
    consumed: Consumed,
    out: Path,
    *,
    by: str,
    late_ms: int,
    now_ms: int,
) -> JobOutcome:
    """Count keys by state and write lost, late and double ones. Lost keys raise an alarm."""
    check(source, by)
    report = Report(out)
    picture = report.file("report.png")
    sent = read(spark, {**source, "columns": f"topic,{_columns(by)}"}).groupBy(
        "topic", key_of(by).alias("key")
    )
    sent = sent.agg(f.count("*").alias("sent"), f.min(_stored_ms()).alias("storedMs"))
    done = consumed.rows(spark, by).groupBy("key")
    done = done.agg(f.count("*").alias("times"), f.min("consumedMs").alias("consumedMs"))
    times = f.coalesce("times", f.lit(0))
    judged = (
        sent.where("key is not null")
        .join(done, "key", "left")
        .select(
            "topic",
            "key",
            "sent",
            times.alias("times"),
            f.timestamp_millis("storedMs").alias("stored"),
            f.timestamp_millis("consumedMs").alias("consumed"),
            f.when((times == 0) & (now_ms - f.col("storedMs") <= late_ms), "waiting")
            .when(times == 0, "lost")
            .when(times > f.col("sent"), "double")
            .when(f.col("consumedMs") - f.col("storedMs") > late_ms, "late")
            .otherwise("consumed")
            .alias("state"),
        )
    )
    judged = judged.cache()
    try:
        bad = judged.where(f.col("state").isin("lost", "double", "late"))
        bad.coalesce(1).write.mode("overwrite").parquet(str(out / "keys"))
        counted = rows_of(judged.groupBy("topic", "state").count())
    finally:
        judged.unpersist()
    columns, table = _table(counted)
    bars(
        picture,
        "Sent messages by state",
        [(state, topic, row[at]) for topic, *row in table for at, state in enumerate(STATES)],
        "messages, by key",
        place="state",
        logarithmic=True,
    )
    lost = sum(row[columns.index("lost")] for row in table)
    files = [out / "keys", report.table(columns, table), picture]
    alarm = f"{lost} messages are lost: {out / 'keys'}" if lost else ""
    return JobOutcome("reconcile", columns, table, files, alarm)


def _table(counted: list[tuple[str, str, int]]) -> tuple[list[str], list[list[Any]]]:
    found: dict[str, dict[str, int]] = {}
    for topic, state, count in counted:
        found.setdefault(topic, {})[state] = count
    rows = [
        [topic, *(states.get(state, 0) for state in STATES)]
        for topic, states in sorted(found.items())
    ]
    return ["topic", *STATES], rows


def _columns(by: str) -> str:
    return f"{columns_for(by)},storeTimestamp"


def _stored_ms() -> "f.Column":
    return f.unix_millis("storeTimestamp")
