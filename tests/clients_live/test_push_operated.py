"""What operators ask of a push consumer, through a broker: ours and Apache's."""

import asyncio

import pytest

from clients_live.consuming import Seen, consumer_of, listening, make_topic, named, send, until
from peers.admin import AdminShell
from peers.members import JavaMember
from peers.raw import RawClient

pytestmark = pytest.mark.apache


# What its class has as fields, and prints as such.
OBJECTS_OF_JAVA = {
    "log", "messageListener", "offsetStore", "defaultMQPushConsumerImpl", "traceDispatcher",
    "allocateMessageQueueStrategy", "subscription", "adjustThreadPoolNumsThreshold",
    "consumeTimestamp",
}  # fmt: skip


@pytest.fixture(scope="module")
def shell(cluster):
    with AdminShell(cluster.namesrv.address) as started:
        yield started


def properties_in(shown):
    """Names and values of the first part."""
    part = shown.partition("#Consumer Properties#")[2].partition("#")[0]
    return {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in part.splitlines())
        if colon
    }


async def shown_of(shell, group, client_id):
    """The properties of one client."""
    shown = await ask(shell, "consumerStatus", "-g", group, "-i", client_id, "-s", "true")
    return properties_in(shown)


async def ask(shell, *words):
    return await asyncio.to_thread(shell.run, *words)


def test_offsets_are_reset_while_it_runs(cluster, shell):
    async def story():
        topic, group = named("Operated"), named("reset")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, ["a", "b", "c", "d"], queues=2)
        seen = Seen()
        async with (
            listening(consumer_of(cluster, group), topic, seen),
            RawClient(cluster.broker.address) as raw,
        ):
            await seen.wait_for(4)

            async def are_kept():
                return [await raw.consumed(group, topic, each) for each in (0, 1)] == [2, 2]

            await until(are_kept, "offsets that are kept")  # of others Apache's broker resets none
            await ask(shell, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
            await seen.wait_for(8)
            await send(cluster, topic, ["e"])
            await seen.wait_for(9)
        assert sorted(seen.bodies) == sorted([*"abcd", *"abcd", "e"])

    asyncio.run(story())


@pytest.mark.parametrize("orderly", [False, True])
def test_its_state_is_shown(cluster, shell, orderly):
    async def story():
        topic, group = named("Operated"), named("shown")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, ["a", "b", "c"], queues=2)
        seen = Seen()
        async with listening(consumer_of(cluster, group), topic, seen, orderly=orderly) as consumer:
            await seen.wait_for(3)
            client_id = consumer.client_id
            shown = await ask(shell, "consumerStatus", "-g", group, "-i", client_id, "-s", "true")
            listed = await ask(shell, "consumerStatus", "-g", group)
        for row in (
            "PROP_CONSUMEORDERLY", "PROP_NAMESERVER_ADDR", "PROP_CONSUME_TYPE",
            "PROP_CLIENT_VERSION", "PROP_THREADPOOL_CORE_SIZE", "PROP_CONSUMER_START_TIMESTAMP",
            "maxReconsumeTimes", "pullBatchSize", "#Consumer Subscription#", "#Consumer Offset#",
            "#Consumer MQ Detail#", "#Consumer RT&TPS#", "#Consumer jstack#", topic, "Puller.run",
        ):  # fmt: skip
            assert row in shown, shown
        assert properties_in(shown)["PROP_CONSUMEORDERLY"] == str(orderly).lower()
        assert client_id in listed

    asyncio.run(story())


def test_the_properties_are_those_of_apaches_consumers(cluster, shell):
    async def story():
        topic, group = named("Operated"), named("alike")
        await make_topic(cluster, topic)
        with JavaMember("java", cluster.namesrv.address) as member:
            java = await shown_of(shell, group, member.join(topic, group))
        async with listening(consumer_of(cluster, group), topic, Seen()) as consumer:
            ours = await shown_of(shell, group, consumer.client_id)
        assert java.keys() - ours.keys() - OBJECTS_OF_JAVA == set()
        differing = {name for name in java.keys() & ours.keys() if java[name] != ours[name]}
        assert differing == {"PROP_CONSUMER_START_TIMESTAMP"}

    asyncio.run(story())


def test_a_message_is_given_to_it_directly(cluster, shell):
    async def story():
        topic, group = named("Operated"), named("direct")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["a"])
        seen = Seen()
        async with listening(consumer_of(cluster, group), topic, seen) as consumer:
            await seen.wait_for(1)
            message_id = seen.messages[0].offset_id
            client_id = consumer.client_id
            told = await ask(shell, "queryMsgById", "-i", message_id, "-g", group, "-d", client_id)
            await seen.wait_for(2)
            assert "CR_SUCCESS" in told
            seen._answer = lambda message: 1 / 0
            told = await ask(shell, "queryMsgById", "-i", message_id, "-g", group, "-d", client_id)
            assert "CR_THROW_EXCEPTION" in told

    asyncio.run(story())


def test_its_progress_is_shown(cluster, shell):
    async def story():
        topic, group = named("Operated"), named("progress")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["a", "b"])
        seen = Seen()
        async with (
            listening(consumer_of(cluster, group), topic, seen),
            RawClient(cluster.broker.address) as raw,
        ):
            await seen.wait_for(2)

            async def is_kept():
                return await raw.consumed(group, topic, 0) == 2

            await until(is_kept, "offset that is kept")
            shown = await ask(shell, "consumerProgress", "-g", group)
            assert topic in shown and "Diff Total: 0" in shown

    asyncio.run(story())
