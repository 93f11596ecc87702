"""The Apache servers, tools and drivers that other tests lean on do work together."""

from collections.abc import Callable

import pytest

from peers.apache import ApacheBroker, ApacheNamesrv, mqadmin
from peers.driver import run_java, start_java

pytestmark = pytest.mark.apache

Servers = tuple[ApacheNamesrv, ApacheBroker]


@pytest.fixture
def servers(
    apache_namesrv: Callable[..., ApacheNamesrv], apache_broker: Callable[..., ApacheBroker]
) -> Servers:
    """An Apache name server and a broker registered there."""
    namesrv = apache_namesrv()
    return namesrv, apache_broker(namesrv=namesrv.address)


def test_what_is_produced_is_consumed(servers: Servers) -> None:
    """Produce and Consume, against Apache's own servers."""
    namesrv, _ = servers
    sent = run_java("Produce", namesrv.address, "Trip", "makers", 10, "hello", "tag=red", "key=k")
    assert [line["status"] for line in sent] == ["OK"] * 10
    received = run_java("Consume", namesrv.address, "Trip", "takers", 10, "filter=red || blue")[1:]
    assert {line["body"] for line in received} == {f"hello-{i}" for i in range(10)}
    assert {line["msgId"] for line in received} == {line["msgId"] for line in sent}
    assert {(line["tags"], line["keys"]) for line in received} == {
        ("red", f"k-{i}") for i in range(10)
    }


def test_mqadmin_sees_the_broker(servers: Servers) -> None:
    """clusterList names the broker and its address."""
    namesrv, broker = servers
    listing = mqadmin("clusterList", namesrv=namesrv.address).stdout
    assert broker.name in listing
    assert broker.address in listing


def test_servers_can_be_paused_killed_and_started_again(servers: Servers) -> None:
    """Produce in its loop reports each turn of fortune, and goes on."""
    namesrv, broker = servers
    with start_java(
        "Produce", namesrv.address, "Loop", "makers", 0, "x", "loop", "delay=20", "timeout=1500"
    ) as program:

        def wait_for(status: str) -> None:
            while program.next(timeout=150)["status"] != status:
                pass

        wait_for("OK")
        broker.pause()
        wait_for("FAIL")
        broker.resume()
        wait_for("OK")
        broker.kill()
        wait_for("FAIL")
        broker.start()
        wait_for("OK")
