"""The Python of Spark's workers: this one, with the installed pyspark."""

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
def unset_pyspark_python(monkeypatch):
    """Unset PYSPARK_PYTHON and restore it later; `delenv` alone does not restore an unset one."""
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")


@pytest.fixture
def script(tmp_path, unset_pyspark_python):
    found = use_python(tmp_path / "folder")
    assert os.environ["PYSPARK_PYTHON"] == found
    return found


def test_only_pyspark_archives_are_removed_from_the_path(script, tmp_path):
    expected = [str(tmp_path / "with *"), "/nowhere/pyspark.zip", str(ARCHIVES)]
    given = [
        str(ARCHIVES / "pyspark.zip"),
        expected[0],
        str(ARCHIVES / "py4j-0-src.zip"),
        *expected[1:],
    ]
    code = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])"
    said = subprocess.run(
        [script, "-c", code, "a b"],
        env={**os.environ, "PYTHONPATH": ":".join(given)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert said.stdout.splitlines() == [":".join(expected), "['a b']"]


def test_unset_python_path_stays_empty(script):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = [script, "-c", "import sys; print(sys.executable, sys.path[1:])"]
    said = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    plain = subprocess.run(
        [sys.executable, *asked[1:]], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == plain.stdout


def test_existing_pyspark_python_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert use_python(tmp_path) == "/opt/python"
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_falls_back_to_this_python(tmp_path, unset_pyspark_python):
    (tmp_path / "file").touch()
    assert use_python(tmp_path / "file") == sys.executable


def test_workers_load_installed_pyspark(spark):
    def where(batches):
        list(batches)
        yield pa.record_batch({"path": [pyspark.__file__]})

    rows = spark.range(1).mapInArrow(where, "path string").collect()
    assert {row.path for row in rows} == {pyspark.__file__}
