"""A home folder with a space in its name: Spark said DATA_SOURCE_NOT_FOUND for `rocketmq`.

It asks a shell whether PYSPARK_PYTHON is there, without quotes, and looks for no format if not.
"""

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra: pip install 'cometmq[spark]'")

ASKED = """
from pyspark.sql import SparkSession
from cometmq.spark.setup.interpreter import use_python
from cometmq.spark.setup.jvm import use_java
use_java()
print(use_python())
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
rows = spark.read.format("rocketmq").option("nameServer", "127.0.0.1:1").option("subscribe", "a")
print(len(rows.load().columns))
spark.stop()
"""


def test_the_formats_are_found_from_a_home_with_a_space(tmp_path):
    home = tmp_path / "a b"
    home.mkdir()
    chosen = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    said = subprocess.run(
        [sys.executable, "-c", ASKED],
        env=chosen | {"HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr[-3000:]
    script, columns = said.stdout.splitlines()
    assert " " not in script
    assert columns == "15"
    assert not os.path.lexists(script), "it is gone with its process"
