"""Measures the pipeline: the decoder alone, then reads, writes and scans in Spark on two cores.

    bench/run pipeline [--rows N] [--of cometmq,kafka,bare]

N messages of 128 bytes; the default is a million. `cometmq` and `apache` are the brokers that our
source reads from. For comparison, `kafka` is Spark's Kafka connector, if its jars are available,
and `bare` is a Python source that does no work. Each runs in its own process and JVM, one after
the other. Needs the extra `spark`.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyspark
from bare_source import BareSource
from kafka_peer import KAFKA, KafkaBroker, connector
from measure import TICK_S, machine, show
from pyspark.sql import DataFrame, SparkSession

from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.spark.files.frames import records_of_pull
from cometmq.spark.read.decode import Records
from cometmq.spark.schema import COLUMNS
from cometmq.spark.setup.interpreter import use_python
from cometmq.spark.setup.jvm import use_java
from peers.clusters import running
from peers.jars import PeerMissing
from spark.sender import Sender, numbered

KINDS = ("cometmq", "apache", "kafka", "bare")
WRITTEN_SHARE = 10  # one row in ten is written back
FLOOR_BATCHES = 40
REPEATS = 5  # the first ones start processes and warm up the JVM
QUEUES = 4
PLAIN = "topic,queueId,queueOffset,body,storeTimestamp"  # the columns of Spark's Kafka connector
LARGE_PULLS = {
    "waitTimeMillsInSendQueue": 10_000,
    "maxTransferCountOnMessageInMemory": 4096,
    "maxTransferBytesOnMessageInMemory": 1 << 20,
    "mappedFileSizeCommitLog": 1 << 30,  # default file sizes
    "mappedFileSizeConsumeQueue": 6_000_000,
    "flushIntervalConsumeQueue": 100,
}


def decoder() -> None:
    """Measure million rows per second of one core by CPU time: the best of several runs."""
    count = 8000
    records = b"".join(
        pack_record(
            StoredMessage(
                topic="orders", queue_offset=each, body=bytes(128), born_ms=1, stored_ms=2,
                properties_text=f"UNIQ_KEY\x017F0000010001070DEA4E6D1B{each:08X}\x02TAGS\x01t"
                f"\x02KEYS\x01order-{each}\x02TRACE_ON\x01true\x02MSG_REGION\x01DefaultRegion",
            )
        )
        for each in range(count)
    )  # fmt: skip
    starts, data = records_of_pull(records).starts, pa.py_buffer(records)
    plain = PLAIN.split(",")
    for name, work in {
        "walk of frames and their check": lambda: records_of_pull(records),
        "decode, 15 columns, 5 properties": lambda: Records(data, starts).batch("b", COLUMNS),
        "decode, 5 plain columns": lambda: Records(data, starts).batch("b", plain),
    }.items():
        show(name, count / best_s(work) / 1e6, "M rows/s", "a core")


def best_s(work: Callable[[], object], repeats: int = 40) -> float:
    best = float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


@dataclass(frozen=True)
class Source:
    """Format and options with which Spark reads a topic."""

    kind: str
    rows: int
    format: str
    options: Mapping[str, str]
    plain: Mapping[str, str] = field(
        default_factory=dict
    )  # options that select the columns of Kafka's connector

    def table(self, spark: SparkSession) -> DataFrame:
        return spark.read.format(self.format).options(**self.options, **self.plain).load()

    def stream(self, spark: SparkSession, **more: str) -> DataFrame:
        options = {**self.options, **self.plain, "startingOffsets": "earliest", **more}
        return spark.readStream.format(self.format).options(**options).load()


def reads(spark: SparkSession, source: Source, folder: Path) -> None:
    """Measure the steps that all sources support."""
    kind, rows, lake = source.kind, source.rows, str(folder / "lake")
    timed(f"network read, plain columns ({kind})", lambda: drain(source.table(spark)), rows)
    timed(
        f"to Parquet, plain columns ({kind})",
        lambda: source.table(spark).write.mode("overwrite").parquet(lake),
        rows,
    )
    timed(
        f"availableNow, plain columns ({kind})",
        lambda: available_now(source.stream(spark), folder),
        rows,
    )
    floor(source.stream(spark, maxOffsetsPerTrigger=str(QUEUES)), folder, kind)


def of_rocketmq(kind: str, rows: int, folder: Path) -> None:
    with running(kind, folder, LARGE_PULLS) as cluster:
        sender = Sender(cluster.broker.address)
        for topic in ("read", "written"):
            sender.create(topic, QUEUES)
        for queue in range(QUEUES):
            for first in range(0, rows // QUEUES, 50_000):
                entries = list(numbered(min(50_000, rows // QUEUES - first)))
                sender.batch("read", queue, entries, size=1000)
        sender.close()
        spark = session()
        server = {"nameServer": cluster.namesrv.address}
        plain = {"columns": PLAIN}
        source = Source(kind, rows, "rocketmq", server | {"subscribe": "read"}, plain)
        reads(spark, source, folder)
        full = replace(source, plain={})
        timed(f"network read, all columns ({kind})", lambda: drain(full.table(spark)), rows)
        path = {"path": f"{cluster.broker.folder}/store", "subscribe": "read"}
        store = Source(kind, rows, "rocketmq-store", path, plain)
        timed(f"store scan, plain columns ({kind})", lambda: drain(store.table(spark)), rows)
        full = replace(store, plain={})
        timed(f"store scan, all columns ({kind})", lambda: drain(full.table(spark)), rows)
        writes(spark, source, server)
        spark.stop()


def writes(spark: SparkSession, source: Source, server: Mapping[str, str]) -> None:
    """Measure writing a part of the rows to a topic."""
    count = source.rows // WRITTEN_SHARE
    end = {str(queue): count // QUEUES for queue in range(QUEUES)}
    some = {"columns": "body", "endingOffsets": json.dumps({"read": {"broker-a": end}})}
    rows = replace(source, plain=some).table(spark)
    for delivery in ("at-least-once", "exactly-once"):
        writer = rows.write.format("rocketmq").mode("append").options(**server)
        writer = writer.option("topic", "written").option("delivery", delivery)
        timed(f"write, {delivery} ({source.kind})", writer.save, count)


def of_kafka(kind: str, rows: int, folder: Path) -> None:
    try:
        version, jars = connector()
        with KafkaBroker(folder / "kafka", QUEUES) as broker:
            versions = f"Kafka {KAFKA}, Spark's connector {version} in Spark {pyspark.__version__}"
            print(versions, flush=True)
            spark = session(jars)
            servers = {"kafka.bootstrap.servers": broker.address}
            sent = spark.range(rows).selectExpr("rpad(cast(id as string), 128, '.') as value")
            sent.write.format("kafka").options(**servers).option("topic", "read").save()
            reads(spark, Source(kind, rows, "kafka", servers | {"subscribe": "read"}), folder)
            spark.stop()
    except PeerMissing as missing:
        print(f"Kafka is not measured: {missing}")


def of_bare(kind: str, rows: int, folder: Path) -> None:
    spark = session()
    spark.dataSource.register(BareSource)
    reads(spark, Source(kind, rows, "bare", {"rows": str(rows)}), folder)
    spark.stop()


def session(jars: Sequence[Path] = ()) -> SparkSession:
    use_java()
    use_python()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.jars", ",".join(map(str, jars)))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def timed(name: str, work: Callable[[], object], rows: int) -> None:
    """Print the best of several runs with its CPU time."""
    best = float("inf"), 0.0
    for _ in range(REPEATS):
        begun, cpu_s = time.monotonic(), family_cpu_s()
        work()
        best = min(best, (time.monotonic() - begun, family_cpu_s() - cpu_s))
    note = f"{best[1] / rows * 1e6:.2f} us CPU per row, Spark and broker"
    show(name, rows / best[0] / 1e6, "M rows/s", note)


def family_cpu_s() -> float:
    """Return CPU seconds of this process and its descendants: JVM, workers, broker."""
    parents, spent_s = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):  # the process may have ended
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                parents[int(path.name)] = int(fields[1])
                spent_s[int(path.name)] = (
                    sum(map(int, fields[11:15])) * TICK_S
                )  # with ended children
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(spent_s[pid] for pid in family)


def available_now(rows: DataFrame, folder: Path) -> None:
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", tempfile.mkdtemp(dir=folder))
    writer.start().awaitTermination()


def floor(rows: DataFrame, folder: Path, kind: str) -> None:
    """Print the median duration of a micro-batch with one row per queue."""
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "floor"))
    query = writer.start()
    while query.isActive and len(query.recentProgress) < FLOOR_BATCHES:
        time.sleep(0.1)
    query.stop()
    took = [each.durationMs["triggerExecution"] for each in query.recentProgress[5:]]
    show(f"micro-batch, median ({kind})", float(np.median(took)), "ms", f"minimum {min(took)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/run pipeline")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="number of messages of 128 bytes"
    )
    parser.add_argument(
        "--of", default="cometmq,kafka,bare", help=f"comma-separated: {', '.join(KINDS)}"
    )
    chosen = parser.parse_args()
    kinds = chosen.of.split(",")
    if not set(kinds) <= set(KINDS) or chosen.rows < QUEUES * WRITTEN_SHARE:
        parser.error(
            f"--of must be a list of {', '.join(KINDS)}; --rows at least {QUEUES * WRITTEN_SHARE}"
        )
    if len(kinds) > 1:
        print(machine(), flush=True)
        decoder()
        for kind in kinds:
            again = [sys.executable, __file__, "--rows", str(chosen.rows), "--of", kind]
            subprocess.run(again, check=True)
        return
    with tempfile.TemporaryDirectory() as made:
        run = {"kafka": of_kafka, "bare": of_bare}.get(kinds[0], of_rocketmq)
        run(kinds[0], chosen.rows, Path(made))


if __name__ == "__main__":
    main()
