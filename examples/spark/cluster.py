"""Starts a Spark cluster on this machine, a master and two workers, that copies a topic.

    python examples/spark/cluster.py 127.0.0.1:9876 orders large-orders

Both topics must exist. Every message is converted to upper case and written exactly once, and the
copied messages are counted. `pip install 'cometmq[spark]'` installs everything, including a Java.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession, functions

from cometmq.spark.setup.jvm import use_java

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return server.getsockname()[1]


def wait_for(path: Path, words: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while words not in path.read_text():
        if time.monotonic() > deadline:
            raise SystemExit(
                f"timed out waiting for {words!r} in {path}:\n{path.read_text()[-2000:]}"
            )
        time.sleep(0.2)


def start(folder: Path, name: str, *command: str) -> "subprocess.Popen[bytes]":
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - fixed command
            [str(spark_class), *command], stdout=log, stderr=log, cwd=folder
        )


def copy(master: str, name_server: str, source: str, target: str) -> int:
    spark = (
        SparkSession.builder.master(master)
        .appName("copy a topic")
        .config("spark.driver.host", HOST)
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    rows = spark.read.format("rocketmq").option("nameServer", name_server)
    rows = (
        rows.option("subscribe", source).option("minPartitions", 4).load()
    )  # both workers get tasks
    upper = rows.select(functions.upper(rows.body.cast("string")).alias("body"), "tags", "keys")
    writer = upper.write.format("rocketmq").mode("append").option("nameServer", name_server)
    writer.option("topic", target).option("delivery", "exactly-once").save()
    hosts = spark.sparkContext.range(64, numSlices=8).map(lambda _: os.getppid()).distinct().count()
    print(f"{hosts} executors at work", flush=True)
    count = rows.count()
    spark.stop()
    return count


def main(name_server: str, source: str, target: str) -> None:
    use_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    port = free_port()
    master = f"spark://{HOST}:{port}"
    deploy = "org.apache.spark.deploy"
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        running = [
            start(folder, "master", f"{deploy}.master.Master", "--host", HOST, "--port", str(port),
                  "--webui-port", "0"),
        ]  # fmt: skip
        try:
            wait_for(folder / "master.log", "I have been elected leader")
            for number in (1, 2):
                running.append(
                    start(folder, f"worker-{number}", f"{deploy}.worker.Worker", "--host", HOST,
                          "--cores", "1", "--memory", "700m", "--webui-port", "0", master)
                )  # fmt: skip
                wait_for(folder / f"worker-{number}.log", "Successfully registered with master")
            print(f"{copy(master, name_server, source, target)} messages", flush=True)
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
