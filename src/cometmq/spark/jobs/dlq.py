"""`dlq`: counts the messages in retry and dead-letter topics."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.admin import topic as topics
from cometmq.errors import NoRoute
from cometmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, dlq_topic, retry_topic
from cometmq.protocol.records.properties import RETRY_TOPIC
from cometmq.spark.jobs.sources import Options, ask, cluster_at, read
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

_READ = "topic,tags,properties,reconsumeTimes,storeTimestamp"
_COLUMNS = ("kind", "group", "topic", "tag", "times", "messages", "first", "last")
_SHOWN_MAX = 20
_KINDS = {"dead": "dead letters", "retry": "retries"}


def left_over(source: Options, groups: tuple[str, ...] = ()) -> list[str]:
    """Return the existing retry and dead-letter topics; NoRoute if there are none."""
    known = ask(source, topics.names)
    wanted = {make(group) for group in groups for make in (retry_topic, dlq_topic)}
    found = [
        name
        for name in known
        if (name in wanted if groups else name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
    ]
    if not found:
        whose = f"of the groups {', '.join(groups)}" if groups else "of any group"
        raise NoRoute(f"no retry or dead-letter topic {whose} exists at {source['nameServer']}")
    return found


def dlq(
    spark: SparkSession, source: Options, out: Path, groups: tuple[str, ...] = ()
) -> JobOutcome:
    """Count messages by group, topic, tag and number of attempts."""
    report = Report(out)
    picture = report.file("report.png")
    names = left_over(source, groups)
    cluster = cluster_at(source)
    closed = [name for name in names if not cluster.route(name).to_read]
    table = _counted(spark, source, [name for name in names if name not in closed])
    table += [_unread(source, name) for name in closed]
    counts: dict[tuple[str, str], int] = {}
    for kind, group, topic, _, _, messages, *_ in table:
        place = f"{group}: {topic}", _KINDS[kind]
        counts[place] = counts.get(place, 0) + messages
    largest = sorted({place for place, _ in counts}, key=lambda place: -_total(counts, place))
    bars(
        picture,
        "Messages in dead-letter and retry topics, by group and topic",
        [
            (place, kind, counts.get((place, kind), 0))
            for place in largest[:_SHOWN_MAX]
            for kind in _KINDS.values()
        ],
        "messages",
        place="group: original topic",
        across=True,
    )
    return JobOutcome("dlq", _COLUMNS, table, [report.table(_COLUMNS, table), picture])


def _counted(spark: SparkSession, source: Options, names: list[str]) -> list[tuple[Any, ...]]:
    if not names:
        return []
    rows = read(spark, {**source, "subscribe": ",".join(names), "columns": _READ})
    counted = (
        rows.select(
            f.when(f.col("topic").startswith(DLQ_PREFIX), "dead").otherwise("retry").alias("kind"),
            f.regexp_replace("topic", f"^({DLQ_PREFIX}|{RETRY_PREFIX})", "").alias("group"),
            f.coalesce(f.col("properties")[RETRY_TOPIC], f.lit("?")).alias("topic"),
            f.coalesce("tags", f.lit("")).alias("tag"),
            f.col("reconsumeTimes").alias("times"),
            "storeTimestamp",
        )
        .groupBy("kind", "group", "topic", "tag", "times")
        .agg(
            f.count("*").alias("messages"),
            f.min("storeTimestamp").alias("first"),
            f.max("storeTimestamp").alias("last"),
        )
    )
    return rows_of(counted.orderBy("kind", f.desc("messages"), "group", "topic", "tag", "times"))


def _unread(source: Options, name: str) -> tuple[Any, ...]:
    """Count the messages of a topic that is not readable by its offsets."""
    bounds = ask(source, lambda admin: topics.offsets(admin, name)).values()
    kind, prefix = ("dead", DLQ_PREFIX) if name.startswith(DLQ_PREFIX) else ("retry", RETRY_PREFIX)
    count = sum(each.max_offset - each.min_offset for each in bounds)
    return kind, name.removeprefix(prefix), "? (not readable)", "?", None, count, None, None


def _total(counts: dict[tuple[str, str], int], place: str) -> int:
    return sum(count for (other, _), count in counts.items() if other == place)
