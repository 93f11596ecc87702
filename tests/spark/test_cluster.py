"""The example with a Spark master and two workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark.rows import NEEDS
from spark.sender import numbered
from spark.test_source import load, numbers

pytest.importorskip("pyspark", reason=NEEDS)
EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "cluster.py"


@pytest.mark.skipif(
    os.environ.get("COMETMQ_SPARK_CLUSTER") != "1", reason="six JVMs: COMETMQ_SPARK_CLUSTER=1"
)
@pytest.mark.timeout(1600)  # longer than that of the process, which must stop what it started
def test_spark_cluster_copies_a_topic(cluster, sender):
    sender.create("far", 4)
    sender.create("near", 4)
    for queue in range(4):
        sender.batch("far", queue, list(numbered(500, first=queue * 500)))
    done = subprocess.run(
        [sys.executable, EXAMPLE, cluster.namesrv.address, "far", "near"],
        capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "2 executors at work" in done.stdout
    assert "2000 messages" in done.stdout
    assert numbers(load(cluster, subscribe="near")) == list(range(2000))
