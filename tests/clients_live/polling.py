"""What tests of consumers that poll share."""

import asyncio

from clients_live.consuming import client_of
from cometmq.client.config import LitePullConsumerConfig
from cometmq.client.consumer.lite.lite_pull import LitePullConsumer
from cometmq.protocol.bodies.heartbeat import ConsumeFrom


def lite(cluster, group, client=None, **settings):
    """A consumer of a group that begins with the first message."""
    config = {"group": group, "consume_from": ConsumeFrom.FIRST_OFFSET, **settings}
    return LitePullConsumer(LitePullConsumerConfig(**config), client=client or client_of(cluster))


async def polled(consumer, count):
    """So many messages."""
    found = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await consumer.poll(0.5)
    return found


def bodies_of(messages):
    return [message.text() for message in messages]


def numbered(begin, end):
    return [f"m{number}" for number in range(begin, end)]
