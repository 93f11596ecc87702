"""How a push consumer begins: when it is ready, and what is left of it where it cannot begin."""

import asyncio

import pytest

from client.consumer.push_broker import PushBroker, Taken, settle
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.errors import Closed, Refused
from cometmq.protocol.codes import RequestCode, ResponseCode


def test_one_that_cannot_begin_is_closed():
    async def story():
        broker = PushBroker(T=1)
        broker.refuses[RequestCode.CHECK_CLIENT_CONFIG] = ResponseCode.SUBSCRIPTION_PARSE_FAILED
        consumer = PushConsumer("G", "127.0.0.1:9876")
        consumer._session.pool.invoke = broker.invoke
        consumer.subscribe("T", sql="a > 5")
        consumer.listen(Taken())
        with pytest.raises(Refused, match="SUBSCRIPTION_PARSE_FAILED"):
            await consumer.start()
        assert consumer._session.closed_why
        with pytest.raises(Closed):
            await consumer.start()

    asyncio.run(story())


def test_it_is_ready_when_the_queues_of_its_topics_are_shared_out():
    async def story():
        broker = PushBroker()  # without the topic, and without the one for retries
        async with broker.session() as session, PushConsumer("G", session=session) as consumer:
            consumer.subscribe("T")
            consumer.listen(Taken())
            ready = asyncio.create_task(consumer.ready())
            await broker.clock.advance(10_000)
            assert not ready.done()
            broker.queues["T"] = 1
            await broker.clock.advance(20_000)
            await ready
            assert consumer.queues == [broker.queue("T")]
            await settle()

    asyncio.run(story())
