"""Which broker a producer turns to, and what may forbid a send: on our brokers and on Apache's."""

import asyncio

import pytest

from clients_live.reading import read_all
from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendStatus
from cometmq.client.send.producer import Producer
from cometmq.errors import BadMessage, TimedOut
from peers.clusters import KINDS, QUICK, Cluster
from peers.comet import CometNamesrv

PATIENT_S = 60
BOTH = {"broker-a", "broker-b"}


@pytest.fixture(scope="module", params=["two-cometmq", "two-apache"])
def pair(request, tmp_path_factory):
    """The first waits for a slave that there is not."""
    if request.param == "two-apache":
        request.getfixturevalue("apache_class_path")
    folder = tmp_path_factory.mktemp(request.param)
    brokers = []
    with CometNamesrv(folder / "namesrv") as namesrv:
        try:
            for make, letter in zip(KINDS[request.param], "ab", strict=True):
                conf = {**QUICK, "brokerRole": "SYNC_MASTER" if letter == "a" else "ASYNC_MASTER"}
                broker = make(
                    folder / letter, namesrv=namesrv.address, name=f"broker-{letter}", conf=conf
                )
                brokers.append(broker)
                broker.start()
            yield Cluster(namesrv, tuple(brokers))
        finally:
            for broker in brokers:
                broker.kill()


def producer_of(cluster, **settings):
    config = ProducerConfig(group="choosers", send_timeout=PATIENT_S, **settings)
    return Producer(config, cluster.namesrv.address)


async def queues_of_both(producer, topic):
    """Once both brokers have the topic and the producer knows."""
    await producer.create_topic(topic)
    async with asyncio.timeout(PATIENT_S):
        while True:
            queues = await producer.fetch_publish_queues(topic)
            if {each.broker_name for each in queues} == BOTH:
                return queues
            await asyncio.sleep(0.05)


async def sent(producer, topic, count=8):
    return [await producer.send(Message(topic, b"x")) for _ in range(count)]


def test_what_is_not_as_safe_as_it_should_be_goes_to_another_broker_if_wished(pair):
    async def main():
        topic = "not-stored"
        async with (
            producer_of(pair) as content,
            producer_of(pair, retry_another_broker_when_not_stored=True) as strict,
        ):
            await queues_of_both(content, topic)
            results = await sent(content, topic)
            assert {(each.queue.broker_name, each.status) for each in results} == {
                ("broker-a", SendStatus.SLAVE_NOT_AVAILABLE),
                ("broker-b", SendStatus.OK),
            }
            await queues_of_both(strict, topic)
            results = await sent(strict, topic)
            assert {(each.queue.broker_name, each.status) for each in results} == {
                ("broker-b", SendStatus.OK)
            }

    asyncio.run(main())


def test_a_broker_that_was_slow_is_left_out_for_a_while_if_wished(pair):
    async def main():
        topic = "slow"
        async with (
            producer_of(pair) as plain,
            producer_of(pair, send_latency_fault_enable=True) as cautious,
        ):
            for producer in (plain, cautious):
                queues = await queues_of_both(producer, topic)
                to_a = next(each for each in queues if each.broker_name == "broker-a")
                await producer.send(Message(topic, b"x"), queue=to_a)
            pair.brokers[0].pause()
            try:
                for producer in (plain, cautious):
                    with pytest.raises(TimedOut):
                        await producer.send(Message(topic, b"x"), queue=to_a, timeout=0.5)
            finally:
                pair.brokers[0].resume()
            assert {each.queue.broker_name for each in await sent(plain, topic)} == BOTH
            assert {each.queue.broker_name for each in await sent(cautious, topic)} == {"broker-b"}

    asyncio.run(main())


def test_a_check_forbids_a_send_before_anything_leaves(cluster):
    async def main():
        asked = []

        def check(context):
            asked.append(context.messages[0].body)
            if context.messages[0].body == b"forbidden":
                raise BadMessage("not today")

        async with producer_of(cluster) as producer:
            producer.add_check(check)
            await producer.send(Message("checked", b"allowed"))
            with pytest.raises(BadMessage, match="not today"):
                await producer.send(Message("checked", b"forbidden"))
            outcomes = []
            producer.send_soon(Message("checked", b"forbidden"), outcomes.append)
            await producer.flush()
            assert [type(each) for each in outcomes] == [BadMessage]
            await producer.send(Message("checked", b"last"))
        found = await read_all(cluster.namesrv.address, "checked", 2)
        assert sorted(message.body for message in found) == [b"allowed", b"last"]
        assert asked == [b"allowed", b"forbidden", b"forbidden", b"last"]

    asyncio.run(main())
