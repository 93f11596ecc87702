"""`trace`: how long sends and consumptions took, by group, as clients' traces tell."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.sources import Options
from cometmq.spark.jobs.trace_records import UNREADABLE, calls
from cometmq.spark.report.charts import cumulative, heat
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

_COLUMNS_OF_TIME = 60  # of the heat map
_FINE_MS = 100  # costs up to here are drawn as they are, those above by two digits


def trace(spark: SparkSession, source: Options, out: Path) -> JobOutcome:
    """Percentiles of the cost in ms; their distribution, and how it changed over time."""
    report = Report(out)
    curve, map_ = report.file("cost.png"), report.file("heat.png")
    found = calls(spark, source).cache()
    try:
        table = _table(found)
        rows = rows_of(table)
        told = found.where(f.col("kind") != UNREADABLE)
        counts = sorted(rows_of(told.groupBy("kind", "group", _rounded().alias("costMs")).count()))
        cumulative(
            curve,
            "How long sends and consumptions took",
            [(f"{kind} {group}", cost, count) for kind, group, cost, count in counts],
            "cost, ms",
            "share of calls that took no longer, %",
        )
        heat(map_, "Cost of calls over time", _cells(told), "cost, ms", "calls")
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


def _cells(told: DataFrame) -> list[tuple[float, int, int]]:
    """Of (time in ms, cost as a power of 2, calls): so many columns of time at most."""
    first, last = told.agg(f.min("timeMs"), f.max("timeMs")).first() or (None, None)
    if first is None:
        return []
    step = max(1, -(-(last - first + 1) // _COLUMNS_OF_TIME))
    column = f.floor((f.col("timeMs") - first) / step) * step + first
    power = f.ceil(f.log2(f.greatest("costMs", f.lit(1))))
    counted = told.where("timeMs is not null").groupBy(
        column.cast("bigint").alias("at"), power.cast("int").alias("power")
    )
    return [tuple(row) for row in rows_of(counted.count())]
