"""`archive`: topics to Parquet, by day and topic, each message once."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.sources import Options, finish, stream
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of


def archive(spark: SparkSession, source: Options, out: Path) -> JobOutcome:
    """Goes on where it was.

    Spark's own list of files in the folder makes each message be there once: read it with Spark.
    """
    report = Report(out)
    picture = report.file("report.png")
    stored = stream(spark, source).withColumn("day", f.to_date("storeTimestamp"))
    parts = stored.writeStream.format("parquet").partitionBy("day", "topic")
    finish(parts.option("path", str(out)), out)
    schema = stored.schema
    counted = (
        spark.read.schema(schema)  # which an archive of no messages cannot tell
        .parquet(str(out))
        .groupBy("day", "topic")
        .agg(f.count("*").alias("messages"), f.sum(f.length("body")).alias("bytes"))
        .orderBy("day", "topic")
    )
    rows = rows_of(counted)
    bars(
        picture,
        "Messages archived, by day",
        [(str(day), topic, count) for day, topic, count, _ in rows],
        "messages",
        place="day stored, UTC",
    )
    files = [out, report.table(counted.columns, rows), picture]
    return JobOutcome("archive", counted.columns, rows, files)
