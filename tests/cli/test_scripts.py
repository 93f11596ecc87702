"""./run and ./test on machines that lack something: one line that helps, and a non-zero exit."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ["sh", "cat", "cksum", "dirname", "rm", "uname"]

TOO_OLD = """#!/bin/sh
[ "$1" = --version ] && echo "Python 3.9.2" && exit 0
exit 1
"""
NO_VENV = """#!/bin/sh
case "$*" in *version_info*) exit 0;; --version) echo "Python 3.11.2"; exit 0;; esac
exit 1
"""


@pytest.fixture
def checkout(tmp_path):
    """The scripts alone, and a PATH with little more than sh on it."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("run", "test", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "scripts", copy / "scripts")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    return copy


def start(checkout, script, python):
    tools = checkout.parent / "bin"
    (tools / "python3").write_text(python)
    (tools / "python3").chmod(0o755)
    return subprocess.run(
        [str(checkout / script)],
        env={"PATH": str(tools), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("script", ["run", "test"])
@pytest.mark.parametrize(
    ("python", "expected"),
    [(TOO_OLD, "needs python3 3.11 or newer; found: Python 3.9.2"), (NO_VENV, "python3-venv")],
)
def test_a_missing_requirement_is_one_line(checkout, script, python, expected):
    done = start(checkout, script, python)
    assert done.returncode != 0
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (checkout / ".venv").exists()


def test_run_hands_over_its_arguments_exit_code_and_folder(tmp_path):
    """From another folder: a relative path is the caller's."""
    (tmp_path / "mine.conf").write_text("listenPort=1234\n")
    done = subprocess.run(
        [str(ROOT / "run"), "namesrv", "-c", "mine.conf", "-p"],
        cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "listenPort=1234" in done.stdout
    assert subprocess.run([str(ROOT / "run"), "nonsense"], capture_output=True).returncode == 2


def test_run_serves_and_prints_the_next_commands(tmp_path):
    served = subprocess.Popen(
        [str(ROOT / "run"), "standalone", "--port", "0", "--store", str(tmp_path)],
        env=os.environ | {"HOME": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with served:
        said = [served.stdout.readline().strip() for _ in range(5)]
        served.terminate()
    assert said[0].startswith("cometmq is ready: name server 127.0.0.1:")
    assert said[3:] == [f"{ROOT / 'run'} admin topicList", f"{ROOT / 'run'} demo"]
    assert served.returncode == 0
