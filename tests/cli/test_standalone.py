"""`cometmq standalone`, its log, and the demonstration, started as a user starts them."""

import asyncio
import json
import os
import signal
import subprocess

from cometmq.protocol.bodies.route import ClusterInfo
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import loads
from cometmq.running import running
from peers.comet import COMMAND
from remoting.rig import pooling


class Standalone:
    """One, with a home of its own."""

    def __init__(self, home, *arguments):
        self.environment = {**os.environ, "HOME": str(home)}
        self.process = subprocess.Popen(
            [COMMAND, "standalone", "--port", "0", "--print-address", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment,
        )  # fmt: skip
        self.address = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


async def brokers_of(address):
    async with pooling() as pool:
        answer = await pool.invoke(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=30_000)
    return loads(answer.body, ClusterInfo).broker_addr_table


def test_it_serves_and_keeps_all_under_its_folder(tmp_path):
    with Standalone(tmp_path) as one:
        (broker,) = asyncio.run(brokers_of(one.address))
        assert broker == "broker-a"
        assert (tmp_path / ".cometmq" / "store" / "commitlog").is_dir()
        assert [each.pid for each in running("standalone", tmp_path / ".cometmq" / "run")] == [
            one.process.pid
        ]
        one.process.send_signal(signal.SIGINT)
        assert one.process.wait(60) == 0
    assert not running("standalone", tmp_path / ".cometmq" / "run")


def test_the_demonstration_ends_well(tmp_path):
    done = subprocess.run(
        [COMMAND, "demo", "--patience", "200"], env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "27 messages sent" in done.stdout
    assert "5 of 5 stories succeeded" in done.stdout


def stopped_log(home, *arguments):
    """What one wrote to stderr from its start to its end."""
    with Standalone(home, "--log-level", "info", *arguments) as one:
        assert one.address
        one.process.send_signal(signal.SIGTERM)
        _, said = one.process.communicate(timeout=60)
        assert one.process.returncode == 0, said
    return said.splitlines()


def test_a_log_for_machines(tmp_path):
    lines = stopped_log(tmp_path, "--log-json")
    events = [json.loads(line) for line in lines]
    assert events and {each["level"] for each in events} == {"info"}
    assert all(each["logger"].startswith("cometmq.") and each["message"] for each in events)


def test_a_log_in_a_file(tmp_path):
    said = stopped_log(tmp_path, "--log-file", tmp_path / "log")
    assert said == []
    assert " INFO    cometmq." in (tmp_path / "log").read_text()
