"""What tests of consumers share: topics, senders by hand, and listeners that remember."""

import asyncio
import itertools
import threading
import time
from contextlib import asynccontextmanager

from cometmq.client.config import ClientConfig, PushConsumerConfig
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.session.session import Session
from cometmq.errors import NoRoute
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from peers.raw import RawClient

WAIT_S_MAX = 60
_number = itertools.count(1)


def named(name):
    """A name that no other test of this run has."""
    return f"{name}-{next(_number)}"


def config_of(group, **settings):
    """A group that begins with the first message."""
    return PushConsumerConfig(
        **{"group": group, "consume_from": ConsumeFrom.FIRST_OFFSET, **settings}
    )


def client_of(cluster, **settings):
    """Settings for quick tests: what takes seconds takes less."""
    return ClientConfig(
        **{
            "name_servers": cluster.namesrv.address,
            "pull_delay_when_exception": 0.2,
            "persist_consumer_offset_interval": 0.5,
            **settings,
        }
    )


def consumer_of(cluster, group, client=None, **settings):
    """A push consumer of such a group."""
    return PushConsumer(config_of(group, **settings), client=client or client_of(cluster))


async def make_topic(cluster, topic, queues=1):
    """On the first broker; returns when the name server knows it."""
    async with RawClient(cluster.broker.address) as raw:
        await raw.make_topic(topic, queues)
    async with Session.own(ClientConfig(name_servers=cluster.namesrv.address)) as session:
        await until(lambda: _has_route(session, topic), "a route")


async def _has_route(session, topic):
    try:
        return bool((await session.routes.fetch(topic)).to_read)
    except NoRoute:
        return False


async def send(cluster, topic, bodies, *, queues=1, **properties):
    """One after the other, each to the next queue."""
    async with RawClient(cluster.broker.address) as raw:
        for number, body in enumerate(bodies):
            await raw.send(topic, number % queues, body.encode(), properties)


async def until(condition, what, seconds=WAIT_S_MAX):
    """Wait until a condition, plain or async, is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(consumer, topic, handler, *, tags="*", sql=None, **how):
    """A consumer that has its queues."""
    consumer.subscribe(topic, tags, sql=sql)
    consumer.listen(handler, **how)
    async with consumer:
        await consumer.ready()
        yield consumer


class Seen:
    """A listener that remembers what it was given; any thread may run it."""

    def __init__(self, answer=lambda message: None):
        self._answer = answer
        self._lock = threading.Lock()
        self.messages = []

    def __call__(self, message):
        with self._lock:
            self.messages.append(message)
        return self._answer(message)

    @property
    def bodies(self):
        return [message.text() for message in self.messages]

    async def wait_for(self, count, seconds=WAIT_S_MAX):
        """Until so many have come."""
        await until(lambda: len(self.messages) >= count, f"{count} messages", seconds)
