"""Brokers and name servers go and come back; producers go on with those that are there."""

import asyncio
from contextlib import ExitStack

import pytest

from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendStatus
from cometmq.client.send.producer import Producer
from cometmq.errors import TimedOut, Unreachable
from peers.clusters import KINDS, QUICK
from peers.comet import CometNamesrv

START_S_MAX = 150


class Pair:
    """Two brokers that know two name servers."""

    def __init__(self, namesrvs, brokers):
        self.namesrvs = namesrvs
        self.brokers = brokers
        self.name_servers = ";".join(namesrv.address for namesrv in namesrvs)


@pytest.fixture(scope="module", params=["two-cometmq", "two-apache"])
def pair(request, tmp_path_factory):
    if request.param == "two-apache":
        request.getfixturevalue("apache_class_path")
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as started:
        namesrvs = [started.enter_context(CometNamesrv(folder / name)) for name in ("n1", "n2")]
        addresses = ";".join(namesrv.address for namesrv in namesrvs)
        brokers = []
        for make, letter in zip(KINDS[request.param], "ab", strict=True):
            broker = make(folder / letter, namesrv=addresses, name=f"broker-{letter}", conf=QUICK)
            started.callback(broker.kill)
            brokers.append(broker.start())
        yield Pair(namesrvs, brokers)


async def until_both(producer, topic):
    """Both brokers have the topic, and the producer knows."""
    async with asyncio.timeout(START_S_MAX):
        while len({each.broker_name for each in await producer.fetch_publish_queues(topic)}) < 2:
            await asyncio.sleep(0.1)


async def brokers_of(producer, topic, count=8):
    return {(await producer.send(Message(topic, b"x"))).queue.broker_name for _ in range(count)}


def test_a_broker_that_dies_is_left_and_found_again(pair):
    async def main():
        async with Producer("senders", pair.name_servers) as producer:
            await producer.create_topic("survives")
            await until_both(producer, "survives")
            assert await brokers_of(producer, "survives") == {"broker-a", "broker-b"}
            sends = [
                asyncio.create_task(producer.send(Message("survives", b"%d" % number)))
                for number in range(50)
            ]
            pair.brokers[0].kill()
            try:
                for result in await asyncio.gather(*sends):
                    assert result.status is SendStatus.OK
                assert await brokers_of(producer, "survives") == {"broker-b"}
            finally:
                await asyncio.to_thread(pair.brokers[0].start)
            async with asyncio.timeout(START_S_MAX):
                while await brokers_of(producer, "survives") != {"broker-a", "broker-b"}:
                    await producer.fetch_publish_queues("survives")
                    await asyncio.sleep(0.1)

    asyncio.run(main())


def test_one_that_is_not_awaited_stays_with_its_broker(pair):
    async def main():
        settings = ProducerConfig(group="senders", send_timeout=5)
        async with Producer(settings, pair.name_servers) as producer:
            await producer.create_topic("stays")
            await until_both(producer, "stays")
            queues = await producer.fetch_publish_queues("stays")
            (to_b, *_) = [queue for queue in queues if queue.broker_name == "broker-b"]
            assert (await producer.send(Message("stays", b"x"), queue=to_b)).queue == to_b
            pair.brokers[1].kill()
            outcomes = []
            try:
                producer.send_soon(Message("stays", b"x"), outcomes.append, queue=to_b)
                await producer.flush()
                with pytest.raises((Unreachable, TimedOut)):
                    await producer.send(Message("stays", b"x"), queue=to_b)
            finally:
                await asyncio.to_thread(pair.brokers[1].start)
            assert isinstance(outcomes[0], Unreachable | TimedOut)
            async with asyncio.timeout(START_S_MAX):
                while True:
                    try:
                        result = await producer.send(Message("stays", b"x"), queue=to_b)
                        break
                    except (Unreachable, TimedOut):
                        await asyncio.sleep(0.1)
            assert result.queue == to_b

    asyncio.run(main())


def test_name_servers_may_go(pair):
    async def main():
        async with Producer("senders", pair.name_servers) as producer:
            await producer.create_topic("known")
            await producer.create_topic("unknown")
            await until_both(producer, "known")
            await until_both(producer, "unknown")
        async with Producer("senders", pair.name_servers) as producer:
            await producer.send(Message("known", b"x"))
            pair.namesrvs[0].kill()
            try:
                # The other one is asked.
                assert (await producer.send(Message("unknown", b"x"))).status is SendStatus.OK
                pair.namesrvs[1].kill()
                try:
                    # What is known goes on.
                    assert (await producer.send(Message("known", b"x"))).status is SendStatus.OK
                    with pytest.raises(Unreachable, match="no name server answers"):
                        await producer.send(Message("not-known", b"x"))
                finally:
                    pair.namesrvs[1].start()
            finally:
                pair.namesrvs[0].start()

    asyncio.run(main())
