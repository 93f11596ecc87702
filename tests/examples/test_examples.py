"""Every example runs, on a cluster of its own, and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peers.clusters import QUICK, running

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 40
# What each prints, by name; they run in this order, as the consumer takes what was sent.
SAID = {
    "send": lambda said: said.count("SEND_OK") == 10,
    "send_callback": lambda said: said.count("OK ") == 100 and "failed" not in said,
    "send_oneway": lambda said: said == "100 sent\n",
    "consume": lambda said: said.count("Hello") >= 10,
    "ordered": lambda said: said.count("is done") == 3,
    "delayed": lambda said: "'Hello later' came" in said,
    "batch": lambda said: said.startswith("10000 messages in 3 frames"),
    "sql_filter": lambda said: said == "['Hello 0', 'Hello 1', 'Hello 2', 'Hello 3']\n",
    "transaction": lambda said: (said.count("COMMIT"), said.count("ROLLBACK")) == (5, 5),
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Where the name server is."""
    with running("cometmq", tmp_path_factory.mktemp("examples"), QUICK) as cluster:
        yield os.environ | {"NAMESRV_ADDR": cluster.namesrv.address}


def run(name, environment):
    return subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        capture_output=True, text=True, env=environment, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_it_runs(name, environment):
    if name == "consume":  # a new group begins with what comes next
        taker = subprocess.Popen(
            [sys.executable, EXAMPLES / "consume.py"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        try:
            while taker.poll() is None:
                assert run("send", environment).returncode == 0
            out, err = taker.communicate(timeout=60)
        finally:
            taker.kill()
        code = taker.returncode
    else:
        done = run(name, environment)
        code, out, err = done.returncode, done.stdout, done.stderr
    assert code == 0, err
    assert SAID[name](out), out


def test_the_sample_project_of_tests():
    """As a user runs it: the plugin is there because cometmq is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "."],
        cwd=EXAMPLES / "testing", capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_all_are_run_and_short():
    programs = {path.stem: path for path in EXAMPLES.glob("*.py")}
    assert set(programs) == set(SAID)
    for path in programs.values():
        assert len(path.read_text().splitlines()) < LINES_MAX, path
