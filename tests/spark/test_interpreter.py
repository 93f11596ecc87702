"""The Python of Spark's processes: this one, with pyspark as it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark.rows import NEEDS

pytest.importorskip("pyspark", reason=NEEDS)
import pyarrow as pa
import pyspark

from cometmq.spark.setup.interpreter import use_python

ARCHIVES = Path(pyspark.__file__).parent / "python" / "lib"


@pytest.fixture
def nothing_chosen(monkeypatch):
    """As after the test too: what is not there before it is not put back by `delenv` alone."""
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")


@pytest.fixture
def script(tmp_path, nothing_chosen):
    found = use_python(tmp_path / "folder")
    assert os.environ["PYSPARK_PYTHON"] == found
    return found


def test_only_the_archives_are_left_out(script, tmp_path):
    kept = [str(tmp_path / "with *"), "/nowhere/pyspark.zip", str(ARCHIVES)]
    given = [str(ARCHIVES / "pyspark.zip"), kept[0], str(ARCHIVES / "py4j-0-src.zip"), *kept[1:]]
    code = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])"
    said = subprocess.run(
        [script, "-c", code, "a b"],
        env={**os.environ, "PYTHONPATH": ":".join(given)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert said.stdout.splitlines() == [":".join(kept), "['a b']"]


def test_without_a_path_nothing_is_added_to_it(script):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = [script, "-c", "import sys; print(sys.executable, sys.path[1:])"]
    said = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    plain = subprocess.run(
        [sys.executable, *asked[1:]], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == plain.stdout


def test_what_somebody_has_chosen_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert use_python(tmp_path) == "/opt/python"
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_it_is_this_python(tmp_path, nothing_chosen):
    (tmp_path / "file").touch()
    assert use_python(tmp_path / "file") == sys.executable


def test_workers_load_what_is_installed(spark):
    def where(batches):
        list(batches)
        yield pa.record_batch({"path": [pyspark.__file__]})

    rows = spark.range(1).mapInArrow(where, "path string").collect()
    assert {row.path for row in rows} == {pyspark.__file__}
