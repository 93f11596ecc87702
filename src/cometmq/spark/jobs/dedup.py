"""`dedup`: writes the first message of each key to Parquet or to a topic, exactly once."""

import csv
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.keys import key_of
from cometmq.spark.jobs.sources import Options, finish, server_options, stream
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report

_COLUMNS = ("run", "read", "kept", "dropped", "late")
_SHOWN_MAX = 20
_SENT = ("body", "tags", "keys", "properties")
# Identifies a message that has no key.
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")


def dedup(
    spark: SparkSession,
    source: Options,
    out: Path,
    *,
    by: str = "id",
    within_ms: int = 86_400_000,
    to_topic: str | None = None,
) -> JobOutcome:
    """Resume from the checkpoint. A key is remembered for `within_ms` of store time.

    A message that arrives after its key may have expired is late: Spark drops it, even if it is the
    first one of its key. Late messages raise an alarm. The table has one row per run that read
    messages.
    """
    report = Report(out)
    picture, runs = report.file("report.png"), report.file("runs.csv")
    rows = stream(spark, source).withColumn("key", _key(by))
    watched = rows.withWatermark("storeTimestamp", f"{within_ms} milliseconds")
    first = watched.observe("seen", f.count(f.lit(1)).alias("messages"))
    kept = first.dropDuplicatesWithinWatermark(["key"])
    kept = kept.observe("kept", f.count(f.lit(1)).alias("messages"))
    done = finish(_writer(kept.drop("key"), source, out, to_topic), out)
    late = sum(each.numRowsDroppedByWatermark for one in done for each in one.stateOperators)
    table = _with_run(runs, _observed(done, "seen"), _observed(done, "kept"), late)
    bars(
        picture,
        f"Messages kept, dropped as duplicates (key: {by}), and dropped as late",
        [
            (str(run), name, count)
            for run, _, *counts in table[-_SHOWN_MAX:]
            for name, count in zip(_COLUMNS[2:], counts, strict=True)
        ],
        "messages",
        place="run",
    )
    files = [*([] if to_topic else [out]), report.table(_COLUMNS, table), picture]
    alarm = ""
    if late:
        alarm = f"{late} messages arrived later than --within allows and are not in the result"
    return JobOutcome("dedup", _COLUMNS, table, files, alarm)


def _key(by: str) -> "f.Column":
    return f.coalesce(key_of(by), f.concat_ws("\x01", *_PLACE))


def _writer(rows: DataFrame, source: Options, out: Path, to_topic: str | None) -> Any:
    if to_topic is None:
        return rows.writeStream.format("parquet").option("path", str(out))
    writer = rows.select(*_SENT).writeStream.format("rocketmq").options(**server_options(source))
    return writer.option("topic", to_topic).option("delivery", "exactly-once")


def _observed(done: list[Any], name: str) -> int:
    found = (each.observedMetrics.get(name) for each in done)
    return sum(each.messages for each in found if each is not None)


def _with_run(path: Path, seen: int, kept: int, late: int) -> list[tuple[int, ...]]:
    """Return the rows of earlier runs and append the row of this run."""
    rows: list[tuple[int, ...]] = []
    if path.exists():
        with path.open(newline="") as file:
            # Older files lack the last column.
            rows = [(*map(int, row), 0)[: len(_COLUMNS)] for row in csv.reader(file)]
    if seen or not rows:
        rows.append((len(rows) + 1, seen, kept, seen - kept - late, late))
        with path.open("a", newline="") as file:
            csv.writer(file).writerow(rows[-1])
    return rows
