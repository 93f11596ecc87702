"""Connection events: callbacks, and one log line when a peer is lost and one when it is back."""

import asyncio
import logging

import pytest

from client.fake_cluster import fake_cluster, run, until
from cometmq import ConnectionChange, ConnectionEvent, blocking
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.client.session.connections import Connections, failure_level
from cometmq.errors import BadSetting, NoRoute, TimedOut, Unreachable
from cometmq.testing import EmbeddedCluster
from cometmq.testing.clock import ManualClock

ORDER = Message("orders", b"one")
LOGGER = "cometmq.client.session.connections"
CONNECTED, DISCONNECTED, RECONNECTED = ConnectionChange


def lines_of(caplog, level):
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("cometmq.client") and each.levelno == level
    ]


def test_a_broker_that_restarts_is_reported_once_each_way(caplog):
    caplog.set_level(logging.DEBUG)

    async def test():
        async with fake_cluster() as cluster:
            events = []
            producer = Producer("senders", cluster.name_servers)
            producer.on_connection(events.append)
            async with producer:
                await producer.send(ORDER)
                broker = cluster["a"]
                assert [each.change for each in events] == [CONNECTED]
                await broker.stop()
                await until(lambda: len(events) == 2)
                assert events[1].address == broker.address
                assert events[1].peer == "broker a"
                assert "closed by the peer" in events[1].reason
                for _ in range(3):
                    with pytest.raises(Unreachable):
                        await producer.send(ORDER)
                    await producer._session.heart.beat()
                await broker.start(cluster.route_of)
                await producer.send(ORDER)
            assert [each.change for each in events] == [CONNECTED, DISCONNECTED, RECONNECTED]
            (warning,) = lines_of(caplog, logging.WARNING)
            assert warning.startswith(f"broker a at {broker.address} is unreachable: ")
            (info,) = lines_of(caplog, logging.INFO)
            assert info.startswith(f"broker a at {broker.address} is reachable again after ")

    run(test)


def test_a_name_server_that_was_never_reachable(caplog):
    async def test():
        producer = Producer("senders", "127.0.0.1:1")
        events = []
        end = producer.on_connection(events.append)
        async with producer:
            for _ in range(2):
                with pytest.raises(Unreachable, match="no name server answers: no connection to"):
                    await producer.send(ORDER)
            (event,) = events
            assert (event.change, event.peer) == (DISCONNECTED, "name server")
            end()
            producer._session.connections.connected("127.0.0.1:1")
            assert len(events) == 1

    run(test)
    (warning,) = lines_of(caplog, logging.WARNING)
    assert warning.startswith("name server at 127.0.0.1:1 is unreachable: no connection to")


def test_states_of_an_address(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    clock = ManualClock()
    connections = Connections(clock, lambda address: "broker a")
    events = []
    connections.on_connection(events.append)
    for step in ("connected", "disconnected", "disconnected", "connected", "disconnected"):
        arguments = ("a:1",) if step == "connected" else ("a:1", "why")
        getattr(connections, step)(*arguments)
        clock.skip(1_500)
    assert [each.change for each in events] == [CONNECTED, DISCONNECTED, RECONNECTED, DISCONNECTED]
    assert events[1] == ConnectionEvent(DISCONNECTED, "a:1", "broker a", "why")
    assert [each.getMessage() for each in caplog.records] == [
        "broker a at a:1 is unreachable: why",
        "broker a at a:1 is reachable again after 3.0 s",
        "broker a at a:1 is unreachable: why",
    ]


def test_a_callback_that_fails_does_not_disturb_the_others(caplog):
    connections = Connections(ManualClock(), lambda address: "broker a")
    events = []
    connections.on_connection(lambda event: 1 / 0)
    connections.on_connection(events.append)
    connections.connected("a:1")
    assert len(events) == 1
    assert "a callback of connection events failed" in caplog.text
    with pytest.raises(BadSetting, match="is called with event"):
        connections.on_connection(lambda: None)


def test_closing_is_no_disconnection(caplog):
    async def test():
        async with EmbeddedCluster() as cluster:
            events = []
            async with Producer("senders", cluster.name_server) as producer:
                producer.on_connection(events.append)
                await producer.send(ORDER)
            assert {each.change for each in events} == {CONNECTED}
            assert sorted(each.peer.split()[0] for each in events) == ["broker", "name"]

    run(test)
    assert not lines_of(caplog, logging.WARNING)


def test_the_address_of_a_broker_is_not_a_name_server():
    async def test():
        async with (
            EmbeddedCluster() as cluster,
            Producer("senders", cluster.broker_address) as producer,
        ):
            with pytest.raises(Unreachable, match=f"{cluster.broker_address} is not a name server"):
                await producer.send(ORDER)
        async with (
            EmbeddedCluster(settings={"autoCreateTopicEnable": "false"}) as cluster,
            Producer("senders", [cluster.broker_address, cluster.name_server]) as producer,
        ):
            with pytest.raises(NoRoute, match=r"^topic orders has no route: create it"):
                await producer.send(ORDER)

    run(test)


def test_blocking_clients_report_events():
    events = []

    async def address():
        async with EmbeddedCluster() as cluster:
            await asyncio.to_thread(send, cluster.name_server)

    def send(name_server):
        with blocking.Producer("senders", name_server) as producer:
            producer.on_connection(events.append)
            producer.send(ORDER)

    asyncio.run(address())
    assert {each.change for each in events} == {CONNECTED}


def test_unreachable_peers_are_logged_by_the_session_alone():
    assert failure_level(Unreachable("x")) == logging.DEBUG
    assert failure_level(TimedOut("x")) == failure_level(NoRoute("x")) == logging.WARNING
