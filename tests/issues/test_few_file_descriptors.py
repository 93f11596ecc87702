"""With `ulimit -n` up to 257 a server accepted one connection, and said nothing when it started."""

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess
import time

import pytest

from peers.comet import COMMAND
from peers.ports import free_broker_port

SMALL = ("mappedFileSizeCommitLog=65536", "maxHashSlotNum=100", "maxIndexNum=400")
SERVERS = ["namesrv", "broker", "standalone"]


def arguments(kind, folder, port):
    if kind == "standalone":
        ports = ["--port", "0", "--broker-port", str(port)]
        return [kind, *ports, "--store", str(folder), *SMALL]
    words = [kind, "bindAddress=127.0.0.1", f"listenPort={port}"]
    if kind == "namesrv":
        return [*words, f"kvConfigPath={folder / 'kv.json'}"]
    return [*words, "brokerIP1=127.0.0.1", f"storePathRootDir={folder / 'store'}", *SMALL]


class Limited:
    """A server that may open so many files, as a process."""

    def __init__(self, kind, folder, soft, hard=None):
        self.port = free_broker_port()
        self.log_file = folder / "stderr"
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [COMMAND, *arguments(kind, folder, self.port)], stdout=subprocess.PIPE, stderr=log,
                text=True, env={**os.environ, "HOME": str(folder), "NAMESRV_ADDR": ""},
                preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_NOFILE, (soft, soft if hard is None else hard)
                ),
            )  # fmt: skip

    def __enter__(self):
        self.first_line = self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()

    @property
    def log(self):
        return self.log_file.read_text()


def refused_of(stack, port, count, least):
    """How many of so many connections the server closes; waits for at least some of them."""
    socks = [
        stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)
    ]
    deadline = time.monotonic() + 60
    closed: set[socket.socket] = set()
    while len(closed) < least and time.monotonic() < deadline:
        closed |= set(select.select([each for each in socks if each not in closed], [], [], 1)[0])
    return len(closed)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_low_limit_allows_what_it_can_and_is_logged(tmp_path, kind):
    with Limited(kind, tmp_path, 257) as server, contextlib.ExitStack() as stack:
        assert server.first_line, server.log
        *_, warned = [line for line in server.log.splitlines() if "connections can be" in line]
        assert "`ulimit -n` is 257" in warned
        allowed = int(warned.partition("only ")[2].split()[0])
        assert 100 < allowed < 200
        refused = refused_of(stack, server.port, 250, 250 - allowed)
        assert 250 - allowed <= refused <= 250 - allowed + 10
        refused = [line for line in server.log.splitlines() if "connections are refused" in line]
        assert len(refused) == 1, "one line, not one per connection"
        assert "ulimit -n" in refused[0]


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("limit", [16, 40])
def test_a_limit_with_which_nothing_works_is_refused(tmp_path, kind, limit):
    server = Limited(kind, tmp_path, limit)
    try:
        assert server.process.wait(60) == 1
        assert server.process.stdout.read() == ""
    finally:
        server.process.kill()
        server.process.stdout.close()
    assert server.log.startswith(("cometmq: ", "mqbroker: "))
    assert server.log.count("\n") == 1, server.log
    assert f"`ulimit -n` is {limit}" in server.log
    assert "set it to" in server.log


def test_a_soft_limit_is_raised_to_the_hard_one(tmp_path):
    with Limited("broker", tmp_path, 64, 4096) as server:
        assert server.first_line, server.log
        assert "ulimit" not in server.log
