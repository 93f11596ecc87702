"""The Spark session of jobs: finds Java, logs nothing, and is tuned for small queries."""

import os
import sys

from pyspark.sql import SparkSession

from cometmq.spark.setup.interpreter import use_python
from cometmq.spark.setup.jvm import use_java

_SETTINGS = {
    "spark.log.level": "OFF",  # errors are reported in one line
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # fixed, because exactly-once queries depend on it
    "spark.sql.adaptive.streaming.stateless.enabled": "false",  # for exactly-once
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",  # jobs sum them
}


def session(master: str) -> SparkSession:
    """Return the active session, or start one."""
    use_java()
    builder = SparkSession.builder.master(master).appName("cometmq pipeline")
    if master.startswith("local"):
        use_python()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder.config(map=_SETTINGS).getOrCreate()
