"""`archive`: writes topics to Parquet by day and topic, exactly once."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.sources import Options, finish, stream
from cometmq.spark.report.charts import bars
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of


def archive(spark: SparkSession, source: Options, out: Path) -> JobOutcome:
    """Resume from the checkpoint and archive all new messages.

    Read the result with Spark: its file list in the folder excludes files of failed attempts, which
    other readers would count twice.
    """
    report = Report(out)
    picture = report.file("report.png")
    stored = stream(spark, source).withColumn("day", f.to_date("storeTimestamp"))
    parts = stored.writeStream.format("parquet").partitionBy("day", "topic")
    finish(parts.option("path", str(out)), out)
    schema = stored.schema
    counted = (
        spark.read.schema(schema)  # an empty archive has no files to infer it from
        .parquet(str(out))
        .groupBy("day", "topic")
        .agg(f.count("*").alias("messages"), f.sum(f.length("body")).alias("bytes"))
        .orderBy("day", "topic")
    )
    rows = rows_of(counted)
    bars(
        picture,
        "Archived messages by day",
        [(str(day), topic, count) for day, topic, count, _ in rows],
        "messages",
        place="store day, UTC",
    )
    files = [out, report.table(counted.columns, rows), picture]
    return JobOutcome("archive", counted.columns, rows, files)
