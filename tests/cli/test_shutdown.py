"""`mqshutdown` stops the servers of this user on this machine, and no other process."""

import os
import subprocess

import pytest

from cometmq.running import noted, running
from peers.comet import COMMAND, CometBroker, CometNamesrv
from peers.ports import free_port

MQSHUTDOWN = COMMAND.with_name("mqshutdown")
STOP_S_MAX = 60


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home folder of all processes of a test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def shutdown(kind):
    return subprocess.run(
        [MQSHUTDOWN, kind], capture_output=True, text=True, check=False, timeout=120
    )


def started(folder, kind):
    """A process of a kind, after it printed that it is ready."""
    options = {
        "namesrv": lambda: CometNamesrv(folder)._arguments(),
        "broker": lambda: CometBroker(folder, namesrv=f"127.0.0.1:{free_port()}")._arguments(),
        "standalone": lambda: ["standalone", "--port", "0", "--print-address"],
    }
    folder.mkdir()
    process = subprocess.Popen(
        [COMMAND, *options[kind]()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout.readline()
    return process


@pytest.mark.parametrize("kind", ["namesrv", "broker", "standalone"])
def test_it_stops_all_servers_of_a_kind(home, kind):
    with started(home / "wanted", kind) as process:
        try:
            done = shutdown(kind)
            assert (done.stdout, done.stderr) == (f"stopped {kind} {process.pid}\n", "")
            assert process.wait(STOP_S_MAX) == 0
            again = shutdown(kind)
        finally:
            process.kill()
    assert again.returncode == 1
    assert again.stderr == f"mqshutdown: this user runs no {kind} on this machine\n"


def test_a_pid_file_of_another_process_stops_nothing(tmp_path):
    """The pid now belongs to another process: this one."""
    with noted("broker", tmp_path):
        assert [each.pid for each in running("broker", tmp_path)] == [os.getpid()]
        (tmp_path / f"broker-{os.getpid()}").write_text("1")
        assert running("broker", tmp_path) == []
    assert not list(tmp_path.iterdir())
