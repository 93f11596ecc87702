"""`scan`: summarizes the files of a store by topic, with gaps and damage."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.sources import Options
from cometmq.spark.report.charts import treemap
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.report.report_folder import Report, rows_of

_PLACES = "topic,queueId,queueOffset"


def scan(spark: SparkSession, store: Options, out: Path, *, verify: bool = False) -> JobOutcome:
    """Count messages, body bytes and missing offsets of each topic.

    With `verify`, also count bodies with a wrong checksum: the store is read with and without
    verification, and the difference is the number of damaged bodies.
    """
    report = Report(out)
    picture = report.file("report.png")
    good = _queues(_load(spark, store, f"{_PLACES},body,storeTimestamp", verify))
    queues = good
    if verify:
        there = _load(spark, store, _PLACES, False).groupBy("topic", "queueId")
        found = there.agg(
            f.count("*").alias("there"),
            f.min("queueOffset").alias("low"),
            f.max("queueOffset").alias("high"),
        )
        queues = (
            found.join(good.drop("low", "high"), ["topic", "queueId"], "left")
            .fillna(0, ["messages", "bytes"])
            .withColumn("damaged", f.col("there") - f.col("messages"))
            .drop("there")
        )
    topics = _topics(queues)
    rows = rows_of(topics)
    treemap(
        picture,
        "Bytes of message bodies by topic",
        [(topic, count) for topic, _, _, count, *_ in rows],
        {topic for topic, _, _, _, missing, damaged, *_ in rows if missing or damaged},
    )
    files = [report.table(topics.columns, rows), picture]
    return JobOutcome("scan", topics.columns, rows, files)


def _load(spark: SparkSession, store: Options, columns: str, verify: bool) -> DataFrame:
    options = {"failOnDataLoss": "false", **store, "columns": columns}
    reader = spark.read.format("rocketmq-store").options(**options)
    return reader.option("verifyCrc", str(verify).lower()).load()


def _queues(rows: DataFrame) -> DataFrame:
    return rows.groupBy("topic", "queueId").agg(
        f.count("*").alias("messages"),
        f.sum(f.length("body")).alias("bytes"),
        f.min("queueOffset").alias("low"),
        f.max("queueOffset").alias("high"),
        f.min("storeTimestamp").alias("first"),
        f.max("storeTimestamp").alias("last"),
        f.lit(0).cast("bigint").alias("damaged"),
    )


def _topics(queues: DataFrame) -> DataFrame:
    between = f.col("high") - f.col("low") + 1 - f.col("messages") - f.col("damaged")
    return (
        queues.groupBy("topic")
        .agg(
            f.count("*").alias("queues"),
            f.sum("messages").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.sum(between).alias("missing"),
            f.sum("damaged").alias("damaged"),
            f.min("first").alias("first"),
            f.max("last").alias("last"),
        )
        .orderBy(f.desc("bytes"), "topic")
    )
