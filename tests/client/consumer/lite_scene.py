"""A lite pull consumer on a broker that does what a test wants."""

import asyncio

from client.consumer.fake_broker import FakeBroker
from cometmq.client.config import LitePullConsumerConfig
from cometmq.client.consumer.lite.lite_pull import LitePullConsumer
from cometmq.protocol.bodies.heartbeat import ConsumeFrom

GROUP = "g"


def consumer_of(broker, session=None, **settings):
    settings = {"group": GROUP, "consume_from": ConsumeFrom.FIRST_OFFSET, **settings}
    return LitePullConsumer(LitePullConsumerConfig(**settings), session=session or broker.session())


def run(scene, *, topics=None, **settings):
    async def main():
        broker = FakeBroker(**(topics or {"orders": 2}))
        session = broker.session()
        consumer = consumer_of(broker, session, **settings)
        try:
            await scene(broker, consumer)
        finally:
            closing = asyncio.create_task(consumer.close())
            while not closing.done():
                await broker.clock.advance(100)
            await closing
            await session.close()

    asyncio.run(main())


async def started(broker, consumer, topic="orders"):
    consumer.subscribe(topic)
    await consumer.start()
    await broker.clock.advance(0)


async def taken(broker, consumer):
    """All that polls return now, by queue id."""
    found = {}
    while messages := await consumer.poll(0):
        for message in messages:
            found.setdefault(message.queue_id, []).append(message.queue_offset)
        await broker.clock.advance(0)
    return found


def committed(broker, queue_id=0, group=GROUP):
    return broker.committed.get((group, broker.queue("orders", queue_id)))
