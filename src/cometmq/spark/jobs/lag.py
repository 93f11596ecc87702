"""`lag`: samples the lag of consumer groups by queue and charts it over time.

Each run appends a sample to a CSV file. The table shows the last sample, the chart shows all.
"""

import csv
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.admin.groups import progress
from cometmq.admin.session import AdminSession
from cometmq.errors import NoRoute
from cometmq.spark.jobs.sources import Options, ask
from cometmq.spark.report.charts import lines
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

_SCHEMA = (
    "at timestamp, group string, topic string, broker string, queue int,"
    " end bigint, consumed bigint, behind bigint, seconds_behind double"
)
_COLUMNS = [part.split()[0] for part in _SCHEMA.split(",")]
_POINTS_MAX = 2_000  # per line of the chart
_QUEUES_SHOWN_MAX = 8

Sample = tuple[datetime, str, str, str, int, int, int, int, float | None]


def sample(source: Options, groups: Sequence[str]) -> list[Sample]:
    """Return the current lag of each queue; NoRoute if no broker knows a group."""

    async def all_groups(admin: AdminSession) -> list[Sample]:
        now_ms = int(time.time() * 1000)
        found = []
        for group in groups:
            places = (await progress.consumed(admin, group)).offset_table
            if not places:
                raise NoRoute(f"option --group: no broker has offsets of group {group}")
            for queue, place in sorted(places.items()):
                behind = max(0, place.broker_offset - place.consumer_offset)
                waits = behind and place.last_timestamp > 0
                found.append(
                    (
                        datetime.fromtimestamp(now_ms / 1000, UTC),
                        group,
                        queue.topic,
                        queue.broker_name,
                        queue.queue_id,
                        place.broker_offset,
                        place.consumer_offset,
                        behind,
                        max(0, now_ms - place.last_timestamp) / 1000 if waits else None,
                    )
                )
        return found

    return ask(source, all_groups)


def lag(
    spark: SparkSession,
    source: Options,
    out: Path,
    groups: Sequence[str],
    fail_over: int | None = None,
) -> JobOutcome:
    """Append a sample. Raises an alarm if a group lags by more than `fail_over` messages."""
    report = Report(out)
    picture = report.file("report.png")
    samples = out / "samples.csv"
    now = sample(source, groups)
    _add(samples, now)
    history = spark.read.csv(str(samples), _SCHEMA, header=True)
    by_queue = len(groups) == 1 and len(now) <= _QUEUES_SHOWN_MAX
    queue = f.concat_ws(" ", "topic", "broker", "queue")
    name = queue if by_queue else f.col("group")
    drawn = (
        history.where(f.col("group").isin(*groups))
        .groupBy(name.alias("name"), "at")
        .agg(f.sum("behind").alias("behind"))
        .orderBy(f.desc("at"))
        .limit(_POINTS_MAX * _QUEUES_SHOWN_MAX)
    )
    lines(
        picture,
        f"Lag of {groups[0]} by queue" if by_queue else "Lag by group",
        sorted(rows_of(drawn)),
        "messages not yet consumed",
    )
    behind = {group: sum(row[7] for row in now if row[1] == group) for group in groups}
    over = [
        f"{group} lags by {count} messages"
        for group, count in behind.items()
        if fail_over is not None and count > fail_over
    ]
    files = [samples, report.table(_COLUMNS, now), picture]
    return JobOutcome("lag", _COLUMNS, now, files, "; ".join(over))


def _add(path: Path, rows: Sequence[Sample]) -> None:
    """Append samples; a new file starts with a header."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(_COLUMNS)
        writer.writerows((row[0].isoformat(), *row[1:]) for row in rows)
