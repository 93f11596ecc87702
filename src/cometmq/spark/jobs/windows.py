"""`windows`: counts messages in windows of event time, with a watermark for late ones."""

from pathlib import Path

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.errors import BadSetting
from cometmq.spark.jobs.sources import Options, finish, stream
from cometmq.spark.report.charts import lines
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

_SCHEMA = "topic string, start timestamp, count bigint"
_TIMES = ("storeTimestamp", "bornTimestamp")


def windows(
    spark: SparkSession,
    source: Options,
    out: Path,
    *,
    window_ms: int = 60_000,
    watermark_ms: int = 60_000,
    time: str = "storeTimestamp",
) -> JobOutcome:
    """Resume from the checkpoint and write the counts of closed windows by topic.

    A window closes when a message arrives whose event time is later than its end by the watermark.
    `time` is a column or a Spark SQL expression.
    """
    report = Report(out)
    picture = report.file("report.png")
    options = {**source, "columns": f"topic,{time}"} if time in _TIMES else source
    rows = stream(spark, options)
    try:
        events = rows.select("topic", f.expr(time).cast("timestamp").alias("at"))
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadSetting(f"option --time is {time!r}: {reason}") from error
    counted = (
        events.withWatermark("at", f"{watermark_ms} milliseconds")
        .groupBy("topic", f.window("at", f"{window_ms} milliseconds").alias("window"))
        .count()
        .select("topic", f.col("window.start").alias("start"), "count")
    )
    writer = counted.writeStream.format("parquet").outputMode("append")
    finish(writer.option("path", str(out)), out)
    found = spark.read.schema(_SCHEMA).parquet(str(out)).orderBy("start", "topic")
    table = rows_of(found)
    lines(picture, "Messages by event time", table, f"messages per {window_ms / 1000:g} s")
    files = [out, report.table(found.columns, table), picture]
    return JobOutcome("windows", found.columns, table, files)
