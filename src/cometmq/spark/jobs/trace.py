"""`trace`: the duration of sends and consumptions by group, from trace records."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.sources import Options
from cometmq.spark.jobs.trace_records import UNREADABLE, calls
from cometmq.spark.report.charts import cumulative, heat
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

_COLUMNS_OF_TIME = 60  # of the heat map, at most
_FINE_MS = 100  # the curve rounds longer durations to two digits


def trace(spark: SparkSession, source: Options, out: Path) -> JobOutcome:
    """Compute percentiles of the duration in ms; chart its distribution and its course."""
    report = Report(out)
    curve, map_ = report.file("cost.png"), report.file("heat.png")
    found = calls(spark, source).cache()
    try:
        table = _table(found)
        rows = rows_of(table)
        readable = found.where(f.col("kind") != UNREADABLE)
        counts = rows_of(readable.groupBy("kind", "group", _rounded().alias("costMs")).count())
        cumulative(
            curve,
            "Duration of sends and consumptions",
            [(f"{kind} {group}", cost, count) for kind, group, cost, count in sorted(counts)],
            "duration, ms",
            "share of calls up to this duration, %",
        )
        heat(map_, "Duration of calls over time", _cells(readable), "duration, ms", "calls")
    finally:
        found.unpersist()
    files = [report.table(table.columns, rows), curve, map_]
    return JobOutcome("trace", table.columns, rows, files)


def _table(found: DataFrame) -> DataFrame:
    shares = f.percentile("costMs", f.array(f.lit(0.5), f.lit(0.95), f.lit(0.99)))
    return (
        found.groupBy("kind", "group")
        .agg(
            f.count("*").alias("calls"),
            f.count_if(~f.col("success")).alias("failed"),
            shares.alias("shares"),
            f.max("costMs").alias("max_ms"),
        )
        .select(
            "kind",
            "group",
            "calls",
            "failed",
            *(
                f.round(f.col("shares")[at], 1).alias(f"p{share}_ms")
                for at, share in enumerate((50, 95, 99))
            ),
            "max_ms",
        )
        .orderBy("kind", "group")
    )


def _rounded() -> "f.Column":
    step = f.pow(f.lit(10.0), f.floor(f.log10(f.greatest("costMs", f.lit(1)))) - 1)
    rough = (f.floor(f.col("costMs") / step) * step).cast("bigint")
    return f.when(f.col("costMs") <= _FINE_MS, f.col("costMs")).otherwise(rough)


def _cells(readable: DataFrame) -> list[tuple[float, int, int]]:
    """Return (time in ms, binary logarithm of the duration, calls) for the heat map."""
    first, last = readable.agg(f.min("timeMs"), f.max("timeMs")).first() or (None, None)
    if first is None:
        return []
    step = max(1, -(-(last - first + 1) // _COLUMNS_OF_TIME))
    column = f.floor((f.col("timeMs") - first) / step) * step + first
    power = f.ceil(f.log2(f.greatest("costMs", f.lit(1))))
    counted = readable.where("timeMs is not null").groupBy(
        column.cast("bigint").alias("at"), power.cast("int").alias("power")
    )
    return [tuple(row) for row in rows_of(counted.count())]
