"""Consume ten messages as a member of a group."""

import asyncio

from cometmq import PushConsumer, ReceivedMessage


async def main() -> None:
    done = asyncio.Event()
    seen = 0

    async with PushConsumer("example-takers") as consumer:

        @consumer.on("ExampleTopic", tags="TagA")
        async def take(message: ReceivedMessage) -> None:
            nonlocal seen
            print(message.queue_id, message.queue_offset, message.text())
            seen += 1
            if seen >= 10:
                done.set()

        await done.wait()


asyncio.run(main())
