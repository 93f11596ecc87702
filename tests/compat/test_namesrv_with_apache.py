"""Our name server under Apache's broker, clients and admin tool."""

import asyncio
import threading
import time

import pytest

from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.server import NameServer
from cometmq.testing.clock import ManualClock
from peers.admin import AdminShell
from peers.certificates import Authority
from peers.comet import CometNamesrv
from peers.driver import run_java, start_java

pytestmark = pytest.mark.apache


@pytest.fixture
def namesrv(tmp_path):
    with CometNamesrv(tmp_path / "ours", "orderMessageEnable=true") as server:
        yield server


@pytest.fixture
def admin(namesrv):
    with AdminShell(namesrv.address) as shell:
        yield shell.run


def send_and_receive(namesrv_address, topic, count=8):
    sent = run_java("Produce", namesrv_address, topic, f"{topic}-makers", count, "hello")
    assert [line["status"] for line in sent] == ["OK"] * count
    received = run_java("Consume", namesrv_address, topic, f"{topic}-takers", count)[1:]
    assert {line["body"] for line in received} == {f"hello-{i}" for i in range(count)}


def test_broker_clients_and_admin_tool_find_what_they_need(namesrv, apache_broker, admin):
    broker = apache_broker(namesrv=namesrv.address, name="broker-x", cluster="C1")

    assert "success" in admin("updateTopic", "-c", "C1", "-t", "Made", "-r", "4", "-w", "4")
    send_and_receive(namesrv.address, "Made")

    topics = admin("topicList").split()
    assert {"Made", "broker-x", "C1", "TBW102", "%RETRY%Made-takers"} <= set(topics)
    assert "Made-takers" in admin("topicList", "-c")

    route = admin("topicRoute", "-t", "Made")
    assert broker.address in route
    assert '"readQueueNums":4' in route.replace(" ", "")

    listing = admin("clusterList")
    assert broker.address in listing
    assert "C1" in listing

    admin("updateKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "Made", "-v", "broker-x:4")
    assert "broker-x:4" in admin("topicRoute", "-t", "Made")
    assert "broker-x:4" in admin("updateOrderConf", "-t", "Made", "-m", "get")
    admin("deleteKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "Made")
    assert "broker-x:4" not in admin("topicRoute", "-t", "Made")

    assert "OK" in admin("wipeWritePerm", "-b", "broker-x")
    assert '"perm":4' in admin("topicRoute", "-t", "Made").replace(" ", "")
    assert "OK" in admin("addWritePerm", "-b", "broker-x")
    assert '"perm":6' in admin("topicRoute", "-t", "Made").replace(" ", "")

    settings = admin("getNamesrvConfig")
    assert "orderMessageEnable" in settings
    assert str(namesrv.port) in settings
    assert "success" in admin("updateNamesrvConfig", "-k", "productEnvName", "-v", "test")
    assert "test" in admin("getNamesrvConfig")

    admin("deleteTopic", "-c", "C1", "-t", "Made")
    assert "Made" not in admin("topicList").split()
    assert "No topic route info" in admin("topicRoute", "-t", "Made", fails=True)


def test_a_slave_learns_its_master_from_a_compressed_register(namesrv, apache_broker, admin):
    master = apache_broker(namesrv=namesrv.address, conf={"compressedRegister": "true"})
    slave = apache_broker(namesrv=namesrv.address, broker_id=1, conf={"compressedRegister": "true"})
    # Not clusterList: a slave of Apache's that has just started fails to tell its statistics.
    route = admin("topicRoute", "-t", "TBW102")
    assert master.address in route
    assert slave.address in route
    send_and_receive(namesrv.address, "Pair")


def test_over_tls_alone(tmp_path, apache_broker):
    pair = Authority(tmp_path, "authority").issue("server", "127.0.0.1")
    tls = [f"tls.server.certPath={pair.cert}", f"tls.server.keyPath={pair.key}"]
    with CometNamesrv(tmp_path / "ours", "tls.server.mode=enforcing", *tls) as server:
        both = {"tls.enable": "true", "tls.server.mode": "permissive"}
        apache_broker(namesrv=server.address, properties=both)
        sent = run_java("Produce", server.address, "Hidden", "makers", 3, "x", "tls")
        assert [line["status"] for line in sent] == ["OK"] * 3
        received = run_java("Consume", server.address, "Hidden", "takers", 3, "tls")[1:]
        assert len(received) == 3


def test_clients_with_binary_headers(namesrv, apache_broker):
    apache_broker(namesrv=namesrv.address, properties={"rocketmq.serialize.type": "ROCKETMQ"})
    binary = {"rocketmq.serialize.type": "ROCKETMQ"}
    sent = run_java("Produce", namesrv.address, "Bin", "makers", 3, "x", properties=binary)
    assert [line["status"] for line in sent] == ["OK"] * 3
    received = run_java("Consume", namesrv.address, "Bin", "takers", 3, properties=binary)[1:]
    assert len(received) == 3


def test_one_of_two_name_servers_dies_and_comes_back(tmp_path, apache_broker):
    with CometNamesrv(tmp_path / "a") as first, CometNamesrv(tmp_path / "b") as second:
        both = f"{first.address};{second.address}"
        apache_broker(namesrv=both, conf={"registerNameServerPeriod": 10_000})
        sent = start_java("Produce", both, "Steady", "makers", 0, "x", "loop", "delay=20")
        received = start_java("Consume", both, "Steady", "takers", 0)
        with sent, received:
            wait_for_sends(sent, 20)
            assert received.next(timeout=150)
            first.kill()
            wait_for_sends(sent, 100)
            # New clients, which ask for routes now, find the one that is left.
            send_and_receive(both, "New")
            first.start()
            begun = time.monotonic()
            with AdminShell(first.address) as admin:
                while "Steady" not in admin.run("topicList").split():
                    assert time.monotonic() - begun < 60, "not back, though every 10 s is its time"
            second.kill()
            wait_for_sends(sent, 100)
            send_and_receive(both, "Newer")


def wait_for_sends(program, count):
    """The next sends all succeed."""
    for _ in range(count):
        line = program.next(timeout=150)
        assert line["status"] == "OK", line


def test_a_killed_broker_leaves_its_routes_at_once(namesrv, apache_broker, admin):
    broker = apache_broker(namesrv=namesrv.address)
    assert "TBW102" in admin("topicList").split()
    broker.kill()
    deadline = time.monotonic() + 60
    while "is gone: its connection closed" not in namesrv.log:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "TBW102" not in admin("topicList").split()


def test_a_silent_broker_leaves_after_the_expiry(tmp_path, apache_broker):
    """The broker's machine freezes: its connection stays, and only the clock can tell."""
    clock = ManualClock()
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever)
    runner.start()

    def on_loop(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=30)

    config = NamesrvConfig(
        kv_config_path=str(tmp_path / "kv.json"),
        config_store_path=str(tmp_path / "namesrv.properties"),
        bind_address="127.0.0.1",
        listen_port=0,
        server_channel_max_idle_time_seconds=10_000,  # so that it is the expiry that we see
    )
    server = NameServer(config, clock=clock)
    try:
        on_loop(server.__aenter__())
        address = f"127.0.0.1:{server.port}"
        broker = apache_broker(namesrv=address)
        broker.pause()
        on_loop(clock.advance(110_000))
        with AdminShell(address) as admin:
            assert "TBW102" in admin.run("topicList").split()
            on_loop(clock.advance(20_001))
            assert "TBW102" not in admin.run("topicList").split()
        broker.resume()
    finally:
        on_loop(server.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        runner.join()
        loop.close()
