"""`cometmq standalone` and `mqshutdown`, started as a user starts them."""

import asyncio
import os
import signal
import subprocess

from cometmq.protocol.bodies.route import ClusterInfo
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.fastjson import loads
from cometmq.running import noted, running
from peers.comet import COMMAND
from remoting.rig import pooling

MQSHUTDOWN = COMMAND.with_name("mqshutdown")


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
        [COMMAND, "demo"], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True,
        text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "27 messages sent" in done.stdout
    assert "5 of 5 stories ended as they should" in done.stdout


def test_mqshutdown_stops_what_runs_here(tmp_path):
    with Standalone(tmp_path) as one:
        done = subprocess.run(
            [MQSHUTDOWN, "standalone"], env=one.environment, capture_output=True, text=True,
            check=True, timeout=120,
        )  # fmt: skip
        assert done.stdout == f"stopped standalone {one.process.pid}\n"
        assert one.process.wait(60) == 0
        again = subprocess.run(
            [MQSHUTDOWN, "standalone"], env=one.environment, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
    assert again.returncode == 1
    assert again.stderr == "cometmq: no standalone of yours is running here\n"


def test_a_note_of_another_process_stops_nobody(tmp_path):
    """The pid was given to somebody else: here, to us."""
    with noted("broker", tmp_path):
        assert [each.pid for each in running("broker", tmp_path)] == [os.getpid()]
        (tmp_path / f"broker-{os.getpid()}").write_text("1")
        assert running("broker", tmp_path) == []
    assert not list(tmp_path.iterdir())
