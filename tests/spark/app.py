"""A Spark application that tests kill: it copies a topic with both guarantees and archives it.

    python app.py SERVER SOURCE ONCE LEAST FOLDER

It runs while its stdin is open and prints a line for each micro-batch. Then it processes all
remaining messages and exits. If a query fails, it exits immediately, and the test restarts it.
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

ROWS_PER_BATCH = 200


class BatchPrinter(StreamingQueryListener):
    """Prints a line for each batch with rows."""

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
        # A task has four attempts: the death of a worker does not end the query.
        SparkSession.builder.master("local[2,4]")
        # Fast start for a short-lived JVM.
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
    spark.streams.addListener(BatchPrinter())
    return spark


class Copy:
    """A query that copies a topic to another one."""

    def __init__(self, rows: DataFrame, server: str, topic: str, delivery: str, folder: Path):
        upper = rows.selectExpr("upper(cast(body as string)) as body", "tags")
        if delivery == "exactly-once":
            upper = upper.repartition(
                2, "body"
            )  # a shuffle: repeated batches have another row order
        writer = upper.writeStream.format("rocketmq").queryName(delivery)
        writer = writer.options(nameServer=server, topic=topic, delivery=delivery)
        self._writer = writer.option("checkpointLocation", str(folder / delivery))
        self._query = self._writer.start()

    def run_forever(self) -> None:
        """Run until killed. Restarts the query if a worker starts too slowly."""
        while True:
            try:
                self._query.awaitTermination()
            except StreamingQueryException as error:
                if NO_WORKER not in str(error):
                    raise
                self._query = self._writer.start()

    def has_progress(self) -> bool:
        return self._query.lastProgress is not None

    def finish(self) -> None:
        self._query.processAllAvailable()


def start_or_exit(work: Callable[[], object]) -> Thread:
    """Run work in a thread; exit the process if it fails."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - any failure ends the process
            print(f"failed: {str(error)[:3000]}", file=sys.stderr, flush=True)
            os._exit(1)

    made = Thread(target=run, daemon=True)
    made.start()
    return made


def keep_archive(
    spark: SparkSession, source: dict[str, str], folder: Path, is_closed: Event
) -> None:
    """Archive repeatedly, like `cometmq pipeline archive --every`."""
    is_last = False
    while not is_last:
        is_last = is_closed.is_set()
        archive(spark, source, folder)


def main(server: str, source: str, once: str, least: str, folder: Path) -> None:
    spark = session()
    options = {
        "nameServer": server, "subscribe": source, "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(ROWS_PER_BATCH),
    }  # fmt: skip
    # Two tasks for the copies. The archive has one, because small queues share a task.
    rows = spark.readStream.format("rocketmq").options(**options, minPartitions="2").load()
    copies = []
    for topic, delivery in ((once, "exactly-once"), (least, "at-least-once")):
        copies.append(Copy(rows, server, topic, delivery, folder))
        start_or_exit(copies[-1].run_forever)
        while not copies[-1].has_progress():  # one by one, because parallel starts are slow
            time.sleep(0.1)
    is_closed = Event()
    lake = start_or_exit(lambda: keep_archive(spark, options, folder / "lake", is_closed))
    sys.stdin.read()
    is_closed.set()
    for each in copies:
        each.finish()
    lake.join()
    os._exit(0)  # a normal exit would end the queries and be reported as a failure


if __name__ == "__main__":
    main(*sys.argv[1:5], Path(sys.argv[5]))
