"""`cometmq broker` and `mqbroker`, started as a user starts them."""

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import asynccontextmanager

import pytest

from broker.whole import SUSPEND, WITH_SUBSCRIPTION, bodies, pull_header, send_header
from cli import original_settings as original
from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.server import NameServer
from cometmq.protocol.bodies.route import ClusterInfo
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.send import SendReplyHeader
from cometmq.protocol.java.fastjson import loads
from peers.comet import COMMAND, CometBroker
from peers.ports import free_broker_port
from remoting.rig import pooling

MQBROKER = COMMAND.with_name("mqbroker")
WAIT_MS = 100_000  # of consumers for a message
STOP_S_MAX = 50  # a stop must not wait for them


def run(*arguments, command=COMMAND, home=None, **kwargs):
    environment = {**os.environ, "NAMESRV_ADDR": ""} | ({"HOME": str(home)} if home else {})
    return subprocess.run(
        [str(command), *map(str, arguments)],
        capture_output=True, text=True, timeout=120, env=environment, check=False, **kwargs,
    )  # fmt: skip


def settings_of(done):
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


# Settings


def test_later_ones_win_and_p_prints_all(tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("brokerName = broker-x\nlistenPort=1234\nnamesrvAddr=from-file:1\n")
    found = settings_of(
        run("broker", "-c", file, "-n", "a:1;b:2", "-p", "listenPort=4321", home=tmp_path)
    )
    assert found["brokerName"] == "broker-x"
    assert found["listenPort"] == "4321"
    assert found["namesrvAddr"] == "a:1;b:2"
    assert found["brokerConfigPath"] == str(file)
    assert found["storePathRootDir"] == str(tmp_path / "store")
    assert found["brokerIP1"]


def test_the_drop_in_prints_the_important_ones(tmp_path):
    done = run("-m", "brokerName=broker-x", command=MQBROKER, home=tmp_path)
    found = settings_of(done)
    assert found["brokerName"] == "broker-x"
    assert {"brokerClusterName", "brokerRole", "flushDiskType", "namesrvAddr"} <= set(found)
    assert len(found) < 30
    helped = run("-h", command=MQBROKER)
    assert helped.returncode == 0
    assert "mqbroker" in helped.stdout


def test_the_environment_names_the_name_servers(tmp_path):
    environment = {**os.environ, "NAMESRV_ADDR": "env:1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(COMMAND), "broker", "-p"], capture_output=True, text=True, env=environment, check=True
    )
    assert settings_of(done)["namesrvAddr"] == "env:1"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["brokerName="], "brokerName"),
        (["brokerRole=SLAVE"], "brokerRole=SLAVE"),
        (["aclEnable=true"], "no access control"),
        (["brokerId=-1"], "brokerId"),
        (["messageDelayLevel=1 s"], "messageDelayLevel"),
        (["brokerPermission=9"], "brokerPermission"),
        (["broker"], "key=value"),
        (["-c", "nowhere.conf"], "nowhere.conf: No such file"),
    ],
)
def test_an_error_is_one_line(tmp_path, arguments, expected):
    done = run("broker", "listenPort=0", *arguments, home=tmp_path, cwd=tmp_path)
    assert done.returncode == 1
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


# Where a default is another one than the original's, and why.
ELSEWHERE = {
    "flushDelayOffsetInterval": "1000",  # a kill -9 repeats at most the last second
    "listenPort": "10911",  # what the original's start sets, too
    "bitMapLengthConsumeQueueExt": "112",  # the same
}
VALUES = {"int": "7", "long": "7", "boolean": "false", "string": "x"}
# Values that are within bounds, where VALUES are not.
FITTING = {
    "brokerRole": "ASYNC_MASTER", "flushDiskType": "ASYNC_FLUSH", "brokerPermission": "6",
    "filterServerNums": "0", "maxMessageSize": "65536", "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "2000", "mappedFileSizeConsumeQueueExt": "2000",
    "cleanResourceInterval": "1000", "deleteWhen": "04",
    "messageDelayLevel": "1s 2s", "namesrvAddr": "127.0.0.1:9876",
    # What they promise is not here.
    "enableDLegerCommitLog": "false", "enableLmq": "false", "enableMultiDispatch": "false",
    "messageStorePlugIn": "", "readOnlyCommitLogStorePaths": "",
}  # fmt: skip


def every_setting():
    """Name, type and default of each, once."""
    tables = (
        original.BROKER_CONFIG, original.MESSAGE_STORE_CONFIG, original.NETTY_SERVER_CONFIG,
        original.NETTY_CLIENT_CONFIG,
    )  # fmt: skip
    lines = [line.split(" ", 2) for table in tables for line in table.strip().splitlines()]
    return {name: (kind, default) for name, kind, default in lines}


def test_every_setting_of_rocketmq_is_accepted(tmp_path):
    given = [
        f"{name}={FITTING.get(name, VALUES.get(kind))}"
        for name, (kind, _) in every_setting().items()
    ]
    assert len(given) > 180
    settings_of(run("broker", "-p", *given, home=tmp_path))


def test_defaults_are_the_original_s(tmp_path):
    ours = settings_of(run("broker", "-p", home=tmp_path))
    theirs = every_setting()
    compared = {
        name: "" if default == "-" else default
        for name, (_, default) in theirs.items()
        if name in ours and default != "?"
    }
    assert len(compared) > 70
    assert {name: ours[name] for name in compared} == compared | ELSEWHERE


# The sample files of the original for two masters without slaves (2m-noslave), in our words.
SAMPLE = """\
brokerClusterName=DefaultCluster
brokerName=broker-{name}
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
"""
SAMPLES = {
    name: SAMPLE.format(name=name) + more
    for name, more in (("a", ""), ("b", ""), ("trace", "autoTraceBrokerEnable=true\n"))
}


class SampleBroker(CometBroker):
    """Started with a sample as it is; only the port and the sizes are those of a test."""

    def __init__(self, folder, sample, namesrv):
        super().__init__(folder, namesrv=namesrv, name=f"broker-{sample}")
        self._sample = sample

    def _arguments(self):
        path = self.folder / f"broker-{self._sample}.properties"
        path.write_text(SAMPLES[self._sample])
        named = {line.partition("=")[0] for line in SAMPLE.splitlines()}
        own = [f"{key}={value}" for key, value in self.conf.items() if key not in named]
        return ["broker", "-c", str(path), *own]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_file_is_read_as_it_is(tmp_path, sample):
    file = tmp_path / f"broker-{sample}.properties"
    file.write_text(SAMPLES[sample])
    found = settings_of(run("-c", file, "-p", command=MQBROKER, home=tmp_path))
    assert (found["brokerName"], found["fileReservedTime"]) == (f"broker-{sample}", "48")
    assert (found["brokerRole"], found["flushDiskType"]) == ("ASYNC_MASTER", "ASYNC_FLUSH")


# Starting and stopping


@asynccontextmanager
async def name_server(folder):
    config = NamesrvConfig(
        kv_config_path=str(folder / "kv.json"), config_store_path=str(folder / "ns.properties"),
        bind_address="127.0.0.1", listen_port=0,
    )  # fmt: skip
    async with NameServer(config) as server:
        yield f"127.0.0.1:{server.port}"


async def started(broker):
    """Off the loop, which serves its name server."""
    return await asyncio.to_thread(broker.start)


async def send(pool, broker, body, topic="T"):
    code = RequestCode.SEND_MESSAGE_V2
    reply = await pool.invoke(
        broker.address, code, send_header(topic=topic), body, timeout_ms=10_000
    )
    assert reply.code == 0, reply.remark
    return read_header(reply, SendReplyHeader).queue_offset


def pull(pool, broker, **changes):
    header = pull_header(**changes)
    return pool.invoke(broker.address, RequestCode.PULL_MESSAGE, header, timeout_ms=2 * WAIT_MS)


async def cluster(pool, address):
    reply = await pool.invoke(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=10_000)
    return {
        name: data.broker_addrs
        for name, data in loads(reply.body, ClusterInfo).broker_addr_table.items()
    }


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_file_starts_a_broker_that_works(tmp_path, sample):
    async def story():
        async with name_server(tmp_path) as address, pooling() as pool:
            broker = SampleBroker(tmp_path / sample, sample, address)
            try:
                await started(broker)
                assert await cluster(pool, address) == {f"broker-{sample}": {0: broker.address}}
                assert await send(pool, broker, b"hello") == 0
                reply = await pull(pool, broker, sys_flag=WITH_SUBSCRIPTION)
                assert bodies(reply) == [b"hello"]
                assert await asyncio.to_thread(broker.stop) == 0
            finally:
                broker.kill()

    asyncio.run(story())


def test_a_life(tmp_path):
    """Registered, used, killed, started again, stopped while consumers wait; then it is gone."""

    async def story():
        async with name_server(tmp_path) as address, pooling() as pool:
            broker = CometBroker(tmp_path / "b", namesrv=address)
            try:
                await started(broker)
                assert await cluster(pool, address) == {"broker-a": {0: broker.address}}
                for number in range(5):
                    assert await send(pool, broker, b"%d" % number) == number
                await second_of_a_store_is_told(broker)
                broker.kill()
                await started(broker)
                found = await pull(pool, broker)
                assert bodies(found) == [b"0", b"1", b"2", b"3", b"4"]
                waiting = [
                    asyncio.create_task(
                        pull(
                            pool,
                            broker,
                            queue_id=1,
                            sys_flag=SUSPEND | WITH_SUBSCRIPTION,
                            suspend_timeout_millis=WAIT_MS,
                        )
                    )
                    for _ in range(10)
                ]
                assert await send(pool, broker, b"5") == 5  # so the pulls have come
                async with asyncio.timeout(STOP_S_MAX):
                    code = await asyncio.to_thread(broker.stop)
                assert code == 0, broker.log
                assert {(await task).code for task in waiting} == {ResponseCode.PULL_NOT_FOUND}
                assert "Traceback" not in broker.log
                assert await cluster(pool, address) == {}
            finally:
                broker.kill()

    async def second_of_a_store_is_told(broker):
        port = free_broker_port()
        config = broker.folder / "broker.conf"
        done = await asyncio.to_thread(run, "broker", "-c", config, f"listenPort={port}")
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "another process" in done.stderr

    asyncio.run(story())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_even_if_no_name_server_answers(tmp_path, number):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        conf = {"registerBrokerTimeoutMills": 200}
        broker = CometBroker(tmp_path, namesrv=address, conf=conf).start()
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.settimeout(60)
            assert broker.stop(number) == 0
            assert client.recv(1) == b"", "the connection is closed by the broker"
    assert "Traceback" not in broker.log
    assert address in broker.log
