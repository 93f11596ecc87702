"""Push consumers when things break: what was sent is consumed, and no queue is stuck.

Each test has servers of its own, as it stops or kills some of them.
"""

import asyncio
import threading
from contextlib import ExitStack, contextmanager

import pytest

from clients_live.consuming import (
    Seen,
    client_of,
    consumer_of,
    listening,
    make_topic,
    named,
    send,
    until,
)
from peers.apache import ApacheBroker
from peers.clusters import QUICK, Cluster
from peers.comet import CometBroker, CometNamesrv
from peers.members import PythonMember, wait_until

BROKERS = {"cometmq": CometBroker, "apache": ApacheBroker}


@pytest.fixture(params=list(BROKERS))
def servers(request, tmp_path):
    if request.param == "apache":
        request.getfixturevalue("apache_class_path")
    with started(BROKERS[request.param], tmp_path) as cluster:
        yield cluster


@contextmanager
def started(make, folder):
    with CometNamesrv(folder / "namesrv") as namesrv:
        broker = make(folder / "broker", namesrv=namesrv.address, conf=QUICK)
        broker.start()
        try:
            yield Cluster(namesrv, (broker,))
        finally:
            broker.kill()


@pytest.mark.parametrize("orderly", [False, True])
def test_a_broker_is_killed_and_comes_back(servers, orderly):
    async def story():
        topic = named("Broken")
        await make_topic(servers, topic, 4)
        seen = Seen()
        consumer = consumer_of(servers, named("faithful"))
        async with listening(consumer, topic, seen, orderly=orderly):
            await send(servers, topic, [f"a{number}" for number in range(40)], queues=4)
            await seen.wait_for(40)
            await asyncio.to_thread(servers.broker.kill)
            await asyncio.to_thread(servers.broker.start)
            await send(servers, topic, [f"b{number}" for number in range(40)], queues=4)
            await until(lambda: len(set(seen.bodies)) == 80, "all messages", 120)
            await until(lambda: len(consumer.queues) == 4, "all queues")

    asyncio.run(story())


def test_a_listener_fails_while_its_broker_is_away(servers, caplog):
    """Sending back fails too: the message is tried again here, and not lost."""

    async def story():
        topic = named("Broken")
        await make_topic(servers, topic)
        begun, released = threading.Event(), threading.Event()

        def answer(message):
            if not begun.is_set():
                begun.set()
                released.wait(120)
                raise RuntimeError("while nobody takes it back")

        seen = Seen(answer)
        async with listening(consumer_of(servers, named("tough")), topic, seen):
            await send(servers, topic, ["x"])
            await asyncio.to_thread(begun.wait, 60)
            await asyncio.to_thread(servers.broker.kill)
            released.set()
            await until(lambda: "no broker accepts a copy of <message" in caplog.text, "word of it")
            await asyncio.to_thread(servers.broker.start)
            await seen.wait_for(2, 120)

    asyncio.run(story())


def test_connections_are_cut(servers):
    async def story():
        topic = named("Broken")
        await make_topic(servers, topic, 4)
        seen = Seen()
        consumer = consumer_of(servers, named("cut"))
        async with listening(consumer, topic, seen):
            for part in range(5):
                bodies = [f"{part}-{number}" for number in range(20)]
                sending = asyncio.create_task(send(servers, topic, bodies, queues=4))
                for channel in list(consumer._session.pool._alive):
                    channel.abort()
                await sending
            await until(lambda: len(set(seen.bodies)) == 100, "all messages")
            await until(lambda: len(consumer.queues) == 4, "all queues")

    asyncio.run(story())


def test_the_name_server_is_away_for_a_while(servers, caplog):
    async def story():
        topic, late = named("Broken"), named("Broken")
        await make_topic(servers, topic, 2)
        await make_topic(servers, late)
        seen = Seen()
        client = client_of(servers, poll_name_server_interval=2)
        consumer = consumer_of(servers, named("lonely"), client)
        caplog.set_level("DEBUG", "cometmq")  # the session warns once, the rest is DEBUG
        async with listening(consumer, topic, seen):
            await asyncio.to_thread(servers.namesrv.kill)
            await send(servers, topic, ["a", "b"], queues=2)
            await seen.wait_for(2)
            consumer.subscribe(late)  # whose route nobody can tell now
            await send(servers, late, ["c"])
            await until(lambda: f"cannot read topic {late}" in caplog.text, "word of it")
            await asyncio.to_thread(servers.namesrv.start)
            await seen.wait_for(3, 120)

    asyncio.run(story())


def lines_of(members, group):
    return [line for each in members for line in each.consumed() if line["group"] == group]


def test_a_consumer_is_killed(servers):
    """Its queues are the other's; what it had in hand comes again."""
    topic, group = named("Broken"), named("mortal")
    asyncio.run(make_topic(servers, topic, 4))
    with ExitStack() as running:
        members = [
            running.enter_context(PythonMember(name, servers.namesrv.address)) for name in "ab"
        ]
        for member in members:
            member.join(topic, group, sleep_ms=5)
        wait_until(lambda: [len(each.share(group)) for each in members] == [2, 2], "shares")
        asyncio.run(send(servers, topic, [f"a{number}" for number in range(200)], queues=4))
        members[0].kill()
        asyncio.run(send(servers, topic, [f"b{number}" for number in range(200)], queues=4))
        wait_until(
            lambda: len({line["body"] for line in lines_of(members, group)}) == 400, "all messages",
            120,
        )  # fmt: skip
        wait_until(lambda: len(members[1].share(group)) == 4, "all queues")
