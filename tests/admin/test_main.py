"""The tool as a process: what it imports, its exit codes, readers that leave."""

import json
import os
import subprocess
import sys

import pytest

from cometmq.admin.groups.members import version_name
from peers.comet import CometBroker, CometNamesrv

MODULES = """
import sys
from cometmq.admin.command_line.main import main
code = main(sys.argv[1:], "mqadmin")
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with (
        CometNamesrv(folder / "namesrv") as namesrv,
        CometBroker(folder / "a", namesrv=namesrv.address),
    ):
        yield namesrv.address


def run(*words, **options):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, **options
    )


def test_one_command_imports_little(address):
    """It is to be quick: none of these is needed to ask a question and print a table."""
    done = run("-c", MODULES, "topicList", "-n", address)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "cometmq.admin.topic" in loaded
    slow = {"typer", "rich", "yaml", "csv", "difflib", "argcomplete", "numpy", "importlib.metadata"}
    slow |= {
        "cometmq.cli",
        "cometmq.client.session.session",
        "cometmq.client.config",
        "cometmq.broker",
    }
    assert not loaded & slow
    others = {name for name in loaded if name.startswith("cometmq.admin.")}
    assert not others & {
        "cometmq.admin.messages.message",
        "cometmq.admin.acl",
        "cometmq.admin.export",
    }


@pytest.mark.parametrize(
    "program",
    [
        ("-m", "cometmq", "admin"),
        ("-c", "import cometmq.admin.command_line.main as tool; tool.mqadmin()"),
    ],
)
def test_exit_codes(address, program):
    done = run(*program, "topicList", "-n", address, "-o", "json")
    assert done.returncode == 0 and "TBW102" in json.loads(done.stdout)
    done = run(*program, "topicStatus", "-t", "Nowhere", "-n", address)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and not done.stdout
    done = run(*program, "topicStatus", "-n", address)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not done.stdout


def test_name_servers_of_the_environment(address):
    done = run("-m", "cometmq", "admin", "doctor", env=os.environ | {"NAMESRV_ADDR": address})
    assert done.returncode == 0 and "broker broker-a:0" in done.stdout


def test_help_needs_no_cluster():
    done = run("-m", "cometmq", "admin", "help")
    assert done.returncode == 0 and "topic create" in done.stdout
    assert run("-m", "cometmq", "admin", "topicList", "-h").returncode == 0
    assert "admin" in run("-m", "cometmq", "--help").stdout


def test_a_reader_that_leaves(address):
    """As `| head -1` does: no complaint."""
    command = [sys.executable, "-m", "cometmq", "admin", "clusterList", "-n", address, "-i", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"#Cluster Name")
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "name"), [
    (407, "V4_9_7"), (406, "V4_9_7_SNAPSHOT"), (413, "V5_0_0"), (213, "V4_0_0"), (373, "V4_8_0"),
    (37, "V3(37)"),
])  # fmt: skip
def test_versions_by_name(number, name):
    assert version_name(number) == name
