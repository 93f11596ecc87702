"""A Spark session for all tests of this folder, and cometmq and Apache brokers."""

import logging
import os
import warnings

import pytest

from peers.clusters import running
from spark.sender import Sender

# Small log files for tests that delete them, quick flushes, and the filters and levels of tests.
CONF = {
    "enablePropertyFilter": "true",
    "waitTimeMillsInSendQueue": 10_000,
    "osPageCacheBusyTimeOutMills": 10_000,
    "flushIntervalConsumeQueue": 100,
    "mappedFileSizeCommitLog": 4 << 20,
    "messageDelayLevel": "2s 1s 30s 5m",
    "traceTopicEnable": "true",
}
KINDS = os.environ.get("COMETMQ_SPARK_BROKER", "cometmq,apache").split(",")


@pytest.fixture(autouse=True)
def text_logs(caplog):
    """Restore text logs for later tests.

    After its first error, a PySpark logger stops propagating and sets a JSON formatter on all its
    handlers, including that of pytest.
    """
    formatter = caplog.handler.formatter
    yield
    for logger in logging.root.manager.loggerDict.values():
        if type(logger).__name__ == "PySparkLogger":
            logger.propagate = True
    caplog.handler.setFormatter(formatter)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A Spark session with two cores."""
    pytest.importorskip("pyspark", reason="needs the spark extra: pip install 'cometmq[spark]'")
    from pyspark.sql import SparkSession

    from cometmq.spark.setup.interpreter import use_python
    from cometmq.spark.setup.jvm import use_java

    use_java()
    use_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2]")
            # Fast start for a short-lived JVM.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.adaptive.streaming.stateless.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module", params=KINDS)
def cluster(request, tmp_path_factory):
    """A name server and a broker."""
    if request.param != "cometmq":
        request.getfixturevalue("apache_class_path")
    with running(request.param, tmp_path_factory.mktemp(request.param), CONF) as started:
        yield started


@pytest.fixture
def sender(cluster):
    """A connection that sends to the broker."""
    made = Sender(cluster.broker.address)
    yield made
    made.close()
