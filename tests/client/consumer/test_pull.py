"""The pull consumer, on a broker that does what a test wants."""

import asyncio

import pytest

from client.consumer.fake_broker import FakeBroker
from cometmq.client.config import PullConsumerConfig
from cometmq.client.consumer.lite.pull import PullConsumer
from cometmq.client.message import PullStatus
from cometmq.errors import BadSetting, Closed, NoRoute
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode


def run(scene, **config):
    async def main():
        broker = FakeBroker(**{"orders": 2, "ns%orders": 1})
        async with broker.session(**config) as session, PullConsumer("g", session=session) as own:
            await scene(broker, own)

    asyncio.run(main())


def test_it_reads_what_it_is_told_to():
    async def scene(broker, consumer):
        broker.put("orders", 1, *[b"a"] * 40)
        queues = await consumer.fetch_queues("orders")
        assert queues == [broker.queue("orders", 0), broker.queue("orders", 1)]
        found = await consumer.pull(queues[1], 5)
        assert [message.queue_offset for message in found.messages] == list(range(5, 37))
        assert (found.status, found.next_offset) == (PullStatus.FOUND, 37)
        assert len((await consumer.pull(queues[1], 5, 3)).messages) == 3
        assert (await consumer.pull(queues[1], 40)).status is PullStatus.NO_NEW
        assert (await consumer.pull(queues[1], 0, tags="none")).messages == ()

    run(scene)


def test_it_waits_for_a_message_if_it_is_told_to():
    async def scene(broker, consumer):
        queue = broker.queue("orders")
        await consumer.pull(queue, 0)
        waiting = asyncio.create_task(consumer.pull_or_wait(queue, 0))
        await broker.clock.advance(19_999)
        assert not waiting.done()
        await broker.clock.advance(1)
        assert (await waiting).status is PullStatus.NO_NEW
        waiting = asyncio.create_task(consumer.pull_or_wait(queue, 0))
        await broker.clock.advance(1)
        broker.put("orders", 0, b"a")
        assert [message.body for message in (await waiting).messages] == [b"a"]

    run(scene)


def test_it_joins_no_group_and_takes_nobodys_queues():
    async def scene(broker, consumer):
        await consumer.pull(broker.queue("orders"), 0)
        await consumer.commit(broker.queue("orders"), 0)
        assert broker.count(RequestCode.HEART_BEAT) == 0

    run(scene)


def test_offsets_of_its_group():
    async def scene(broker, consumer):
        queue = broker.queue("orders")
        assert await consumer.committed(queue) is None
        await consumer.commit(queue, 7)
        assert await consumer.committed(queue) == 7 == broker.committed["g", queue]
        with pytest.raises(BadSetting, match="below 0"):
            await consumer.commit(queue, -1)

    run(scene)


def test_bounds_of_queues():
    async def scene(broker, consumer):
        queue = broker.queue("orders")
        broker.put("orders", 0, b"a", b"b")
        broker.lowest[queue] = 1
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (1, 2)
        assert await consumer.search_offset(queue, broker.clock.wall_ms() + 1) == 0

    run(scene)


def test_namespaces_are_on_the_wire_alone():
    async def scene(broker, consumer):
        broker.put("ns%orders", 0, b"a")
        (queue,) = await consumer.fetch_queues("orders")
        assert queue == broker.queue("orders")
        (message,) = (await consumer.pull(queue, 0)).messages
        assert message.topic == "orders"
        await consumer.commit(queue, 1)
        assert broker.committed == {("ns%g", broker.queue("ns%orders")): 1}

    run(scene, namespace="ns")


def test_a_broker_that_moved_is_found_again():
    async def scene(broker, consumer):
        queue = broker.queue("orders")
        await consumer.max_offset(queue)
        broker.nodes = {0: "127.0.0.1:20911"}
        assert await consumer.max_offset(queue) == 0
        assert (await consumer.pull(queue, 0)).status is PullStatus.NO_NEW

    run(scene)


def test_misuse_is_told():
    async def scene(broker, consumer):
        queue = broker.queue("orders")
        with pytest.raises(BadSetting, match="offset -1"):
            await consumer.pull(queue, -1)
        with pytest.raises(BadSetting, match="count is 0"):
            await consumer.pull(queue, 0, 0)
        with pytest.raises(BadSetting, match="not by both"):
            await consumer.pull(queue, 0, tags="a", sql="b = 1")
        with pytest.raises(NoRoute):
            await consumer.pull(MessageQueue("unknown", "broker-z", 0), 0)
        assert broker.count(RequestCode.PULL_MESSAGE) == 0
        broker.put("orders", 0, b"a")
        (message,) = (await consumer.pull(queue, 0)).messages
        for level in (-2, 19):
            with pytest.raises(BadSetting, match=f"delay level {level}: use 1 to 18"):
                await consumer.send_back(message, level)

    run(scene)


def test_it_is_of_use_between_start_and_close():
    async def main():
        broker = FakeBroker(orders=1)
        session = broker.session()
        consumer = PullConsumer(PullConsumerConfig(group="g"), session=session)
        with pytest.raises(Closed, match="not started"):
            await consumer.pull(broker.queue("orders"), 0)
        await consumer.start()
        await consumer.start()
        await consumer.close()
        await consumer.close()
        with pytest.raises(Closed, match="is closed"):
            await consumer.pull(broker.queue("orders"), 0)
        session.check_open()  # it is not this consumer's to close
        await session.close()

    asyncio.run(main())
