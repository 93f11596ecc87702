"""`reconcile`: what was sent against what was consumed, message by message.

Sent is what is in the topic. Consumed is what one of these says, the choice being the user's:

    the traces of a group     a listener took it with success, under the sender's unique key
    another topic             a message with the same key is there: of a consumer that passes on
    an archive                a row with the same key is there

A message is lost if nobody consumed it, unless it is younger than the time it is given; it is late
if the first consumption came longer after it was stored than that; and double if there were two.
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
from cometmq.spark.read.offset_bounds import Places
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

STATES = ("consumed", "late", "double", "waiting", "lost")


@dataclass(frozen=True)
class Consumed:
    """Where to look for what was consumed: one of them is given."""

    group: str | None = None
    trace: Options | None = None
    topic: Options | None = None
    lake: Path | None = None

    def rows(self, spark: SparkSession, by: str) -> DataFrame:
        """Keys, with the time of each consumption in ms."""
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
    """BadSetting if what was consumed cannot be told apart by topic."""
    topics = sorted({queue.topic for queue in Places(ReadOptions.of(source)).queues()})
    if len(topics) > 1 and by != "id":
        raise BadSetting(
            f"option --topic names {len(topics)} topics ({', '.join(topics[:8])}): with --key"
            f" {by}, what was consumed of one would count for all that have the key; give one of"
            " them, or --key id"
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
    """The states of all keys, those that are not well as Parquet; an alarm if any is lost."""
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
        "Messages sent, by what became of them",
        [(state, topic, row[at]) for topic, *row in table for at, state in enumerate(STATES)],
        "messages, by key",
        place="what became of them",
        logarithmic=True,
    )
    lost = sum(row[columns.index("lost")] for row in table)
    files = [out / "keys", report.table(columns, table), picture]
    alarm = f"{lost} of the messages are lost: {out / 'keys'}" if lost else ""
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
