"""`cometmq namesrv` and `mqnamesrv`, started as a user starts them."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from peers.comet import COMMAND, CometNamesrv

MQNAMESRV = COMMAND.with_name("mqnamesrv")


def run(*arguments, command=COMMAND, home=None, **kwargs):
    environment = os.environ | ({"HOME": str(home)} if home else {})
    return subprocess.run(
        [str(command), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
        **kwargs,
    )


def settings_of(done):
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_p_prints_the_settings_and_leaves(tmp_path):
    file = tmp_path / "ns.conf"
    file.write_text("# mine\nlistenPort = 1234\nproductEnvName: from-file\n")
    done = run("namesrv", "-c", file, "-p", "listenPort=4321", home=tmp_path)
    assert done.returncode == 0
    found = settings_of(done)
    assert (found["listenPort"], found["productEnvName"]) == ("4321", "from-file")
    assert found["configStorePath"] == str(file)
    assert found["kvConfigPath"] == str(tmp_path / "namesrv" / "kvConfig.json")


def test_the_drop_in_takes_the_original_s_flags(tmp_path):
    done = run("-p", "-n", "127.0.0.1:9876", command=MQNAMESRV, home=tmp_path)
    assert done.returncode == 0
    assert settings_of(done)["listenPort"] == "9876"
    helped = run("-h", command=MQNAMESRV)
    assert helped.returncode == 0
    assert "mqnamesrv" in helped.stdout


def test_version():
    assert run("--version").stdout.startswith("cometmq ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["listenPort"], "key=value"),
        (["-c", "nowhere.conf"], "nowhere.conf: No such file"),
        (["tls.server.mode=enforcing"], "tls.server.certPath"),
        (["tls.server.certPath=no.pem", "tls.server.keyPath=no.key"], "no.pem"),
        (["listenPort=0", "serverSocketBacklog=0"], "serverSocketBacklog"),
    ],
)
def test_an_error_is_one_line(tmp_path, arguments, expected):
    done = run("namesrv", *arguments, home=tmp_path, cwd=tmp_path)
    assert done.returncode == 1
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


# NettyServerConfig and NamesrvConfig of 4.9.
EVERY_SETTING = """
listenPort serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads
serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverChannelMaxIdleTimeSeconds
serverSocketSndBufSize serverSocketRcvBufSize writeBufferHighWaterMark writeBufferLowWaterMark
serverSocketBacklog serverPooledByteBufAllocatorEnable useEpollNativeSelector
rocketmqHome kvConfigPath configStorePath productEnvName clusterTest orderMessageEnable
configBlackList
"""


def test_every_setting_of_rocketmq_is_accepted(tmp_path):
    booleans = {"clusterTest", "useEpollNativeSelector"}
    given = [f"{name}={'false' if 'nable' in name or name in booleans else 1}"
             for name in EVERY_SETTING.split()]  # fmt: skip
    assert run("namesrv", "-p", *given, home=tmp_path).returncode == 0


def test_settings_without_a_meaning_are_named_once(tmp_path):
    done = run("namesrv", "-p", "serverWorkerThreads=8", "serverSelectorThreads=3", home=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("serverWorkerThreads") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_with_clients_connected(tmp_path, number):
    server = CometNamesrv(tmp_path).start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(60)
        assert server.stop(number) == 0
        assert client.recv(1) == b"", "the connection is closed by the server"
    assert "Traceback" not in server.log


def test_what_it_imports_is_little():
    """A start-up that drags in the whole package would be slow, and nobody would notice when."""
    code = (
        "import sys; from cometmq import cli; import cometmq.namesrv.server; "
        "print([m for m in ('rich', 'yaml', 'cryptography', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nor_does_its_command_line_import_much(tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cometmq", "namesrv", "-p"],
        env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in loaded
    assert not loaded & {"pydantic", "rich", "yaml", "cryptography", "numpy", "email"}


def test_resident_memory_is_small(tmp_path):
    with CometNamesrv(tmp_path) as server:
        status = Path(f"/proc/{server.pid}/status").read_text()
    resident_kb = int(status.partition("VmRSS:")[2].split()[0])
    assert resident_kb < 60 << 10
