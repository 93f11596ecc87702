"""A Spark application to be killed: a topic to topics, exactly and at least once, and an archive.

    python app.py SERVER SOURCE ONCE LEAST FOLDER

It runs on while its stdin is open, and tells each micro-batch in a line; then it works off what is
there, and ends. If a query fails, it ends at once: whoever started it starts it again.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from cometmq.spark.jobs.archive import archive
from cometmq.spark.setup.interpreter import use_python
from spark.streams import NO_WORKER

ROWS_A_BATCH = 200


class Told(StreamingQueryListener):
    """A line for each batch that had rows."""

    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        if event.progress.numInputRows:
            name = event.progress.name or "archive"
            print(f"batch {name} {event.progress.batchId}", flush=True)

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        pass


def session() -> SparkSession:
    use_python()
    spark = (
        # A task is tried four times: the death of a worker is not that of a query.
        SparkSession.builder.master("local[2,4]")
        # For a JVM that lives for seconds.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.streaming.stateless.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.streams.addListener(Told())
    return spark


class Copy:
    """One topic to another."""

    def __init__(self, rows: DataFrame, server: str, topic: str, delivery: str, folder: Path):
        upper = rows.selectExpr("upper(cast(body as string)) as body", "tags")
        if delivery == "exactly-once":
            upper = upper.repartition(2, "body")  # a shuffle: run again, rows come in other order
        writer = upper.writeStream.format("rocketmq").queryName(delivery)
        writer = writer.options(nameServer=server, topic=topic, delivery=delivery)
        self._writer = writer.option("checkpointLocation", str(folder / delivery))
        self._query = self._writer.start()

    def keep(self) -> None:
        """For ever. On a busy machine Spark does not wait long enough for a worker's start."""
        while True:
            try:
                self._query.awaitTermination()
            except StreamingQueryException as error:
                if NO_WORKER not in str(error):
                    raise
                self._query = self._writer.start()

    def is_under_way(self) -> bool:
        return self._query.lastProgress is not None

    def finish(self) -> None:
        self._query.processAllAvailable()


def or_end(work: Callable[[], object]) -> Thread:
    """Work of a thread, without which the application is of no use."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a query's, or the JVM's end
            print(f"failed: {str(error)[:3000]}", file=sys.stderr, flush=True)
            os._exit(1)

    made = Thread(target=run, daemon=True)
    made.start()
    return made


def keep_archive(
    spark: SparkSession, source: dict[str, str], folder: Path, is_closed: Event
) -> None:
    """Round after round, as `cometmq pipeline archive --every` does."""
    is_last = False
    while not is_last:
        is_last = is_closed.is_set()
        archive(spark, source, folder)


def main(server: str, source: str, once: str, least: str, folder: Path) -> None:
    spark = session()
    options = {
        "nameServer": server, "subscribe": source, "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(ROWS_A_BATCH),
    }  # fmt: skip
    # Two tasks for the copies; the archive has one, as small queues share it.
    rows = spark.readStream.format("rocketmq").options(**options, minPartitions="2").load()
    copies = []
    for topic, delivery in ((once, "exactly-once"), (least, "at-least-once")):
        copies.append(Copy(rows, server, topic, delivery, folder))
        or_end(copies[-1].keep)
        while not copies[-1].is_under_way():  # one after the other, or all start slowly
            time.sleep(0.1)
    is_closed = Event()
    lake = or_end(lambda: keep_archive(spark, options, folder / "lake", is_closed))
    sys.stdin.read()
    is_closed.set()
    for each in copies:
        each.finish()
    lake.join()
    os._exit(0)  # threads that wait for queries would take their end for a failure


if __name__ == "__main__":
    main(*sys.argv[1:5], Path(sys.argv[5]))
