"""What a topic holds, read queue by queue without a group."""

import asyncio

from cometmq.client.config import ClientConfig
from cometmq.client.consumer.shared.pulls import Pull, Pulls
from cometmq.client.message import PullStatus
from cometmq.client.session.session import Session
from cometmq.errors import NoRoute
from cometmq.protocol.filter.tags import subscription_of

WAIT_S_MAX = 60


async def read_all(name_server, topic, count=0):
    """All messages of a topic, in the order of queues; waits until there are so many."""
    async with Session.own(ClientConfig(name_servers=name_server)) as session:
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                found = await _read(session, topic)
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.1)


async def _read(session, topic):
    pulls = Pulls(session, "readers")
    try:
        route = await session.routes.fetch(topic)
    except NoRoute:
        return []
    found = []
    for queue in route.to_read:
        offset = 0
        while True:
            result = await pulls.pull(
                Pull(
                    queue=queue,
                    offset=offset,
                    count=32,
                    with_expression=True,
                    subscription=subscription_of(topic, "*"),
                    timeout_ms=20_000,
                )
            )
            found += result.messages
            if result.status is PullStatus.NO_NEW or result.next_offset == offset:
                break
            offset = result.next_offset
    return found
