"""Programs on the pages for people run as they stand there, on a cluster of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from peers.clusters import QUICK, running
from peers.comet import COMMAND

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ON_PAGES = "127.0.0.1:9876"
ENDED = "it ended"
# A line that each prints, by page and place; those with tests in them are given to pytest.
PRINTED = {
    ("README.md", 0): "b'...'",
    ("README.md", 1): "1 passed",
    ("README.md", 2): ENDED,
    ("docs/admin.md", 0): "broker-a 7 0",
    ("docs/consumers.md", 0): "charge order 1",
    ("docs/consumers.md", 1): "restock order 2",
    ("docs/consumers.md", 2): "pay order 3",
    ("docs/consumers.md", 3): "consuming, stop with Ctrl-C",
    ("docs/consumers.md", 4): "assigned",
    ("docs/consumers.md", 5): "archive order 4",
    ("docs/consumers.md", 6): "FOUND order 5",
    ("docs/porting.md", 0): "three apples",
    ("docs/porting.md", 1): "three apples",
    ("docs/producers.md", 0): "OK ",
    ("docs/producers.md", 1): "OK",
    ("docs/producers.md", 2): "100 messages sent three times",
    ("docs/producers.md", 3): "it is stored",
    ("docs/producers.md", 4): "COMMIT",
    ("docs/producers.md", 5): "OK",
    ("docs/testing.md", 0): "1 passed",
    ("docs/testing.md", 1): "1 passed",
    ("docs/testing.md", 2): "three apples",
}
ACTIVATED = os.environ | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
AWAITED = """\
import asyncio
async def program():
{text}
    print({ended!r}, flush=True)
    await asyncio.Event().wait()
asyncio.run(program())
"""
PLAIN = """\
{text}
print({ended!r}, flush=True)
import threading
threading.Event().wait()
"""


def blocks(page, language):
    found = BLOCK.findall((ROOT / page).read_text())
    return [text for kind, text in found if kind == language]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running("cometmq", tmp_path_factory.mktemp("pages"), QUICK) as cluster:
        address = cluster.namesrv.address
        for topic in ("orders", "Orders"):
            subprocess.run(
                [COMMAND, "admin", "topic", "create", "-c", "DefaultCluster", "-t", topic,
                 "-n", address], check=True, capture_output=True,
            )  # fmt: skip
        yield address


def program_of(text):
    """What goes on until it is stopped: a listener is given messages after the last line."""
    is_awaited = re.search(r"^(await|async (with|for)) ", text, re.MULTILINE)
    if "cometmq.compat" in text:
        return text  # as it stands: its clients keep the process alive
    if is_awaited:
        return AWAITED.format(text=indent(text, "    "), ended=ENDED)
    return PLAIN.format(text=text, ended=ENDED)


@pytest.mark.parametrize(("page", "place"), PRINTED)
def test_it_runs(cluster, tmp_path, page, place):
    text = blocks(page, "python")[place].replace(ON_PAGES, cluster)
    file = tmp_path / "test_page.py"
    command = [sys.executable, "-W", "error", "-u"]
    if "pyspark" in text:
        pytest.importorskip("pyspark", reason="needs the spark extra: pip install 'cometmq[spark]'")
        command = [sys.executable, "-u"]  # Spark warns of what is not ours
    if "def test_" in text:
        file.write_text(text)
        command += ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    else:
        file.write_text(program_of(text))
    wanted = PRINTED[page, place]
    with subprocess.Popen(
        [*command, file], cwd=tmp_path, env=ACTIVATED, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        said = []
        for line in process.stdout:  # until it comes, or the program ends, or pytest's patience
            said.append(line)
            if wanted in line:
                break
        process.kill()
    assert wanted in said[-1], "".join(said)


def test_a_cluster_for_programs_of_other_languages(tmp_path):
    (script,) = blocks("docs/testing.md", "sh")
    done = subprocess.run(
        ["sh", "-e", "-c", script.replace("mvn test", "cometmq admin topicList")],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env=ACTIVATED | {"HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "TBW102" in done.stdout.split()


def test_every_program_of_these_pages_is_run():
    pages = {page for page, _ in PRINTED}
    assert {(page, n) for page in pages for n in range(len(blocks(page, "python")))} == set(PRINTED)
