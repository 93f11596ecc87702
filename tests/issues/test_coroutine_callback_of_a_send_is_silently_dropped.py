"""A coroutine function as the callback of a send was never awaited, and nothing was logged."""

import asyncio

from cometmq import Message, Producer
from cometmq.testing import EmbeddedCluster


def test_it_is_logged(caplog):
    async def callback(result):
        raise AssertionError("never run")

    async def story():
        async with (
            EmbeddedCluster() as cluster,
            Producer("makers", cluster.name_server) as producer,
        ):
            producer.send_soon(Message("T", "x"), callback)
            await producer.flush()

    asyncio.run(story())
    assert "callback" in caplog.text
    assert "is a coroutine function: give a plain function" in caplog.text
