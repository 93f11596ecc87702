"""Send a delayed message: level 1 of the default table is one second, level 18 two hours."""

import asyncio
import time

from cometmq import ConsumeFrom, Message, Producer, PushConsumer, PushConsumerConfig
from cometmq import ReceivedMessage as Received


async def main() -> None:
    async with Producer("example-delays") as producer:
        await producer.send(Message("ExampleDelays", "Hello later", delay_level=1))

    delivered = asyncio.Event()
    config = PushConsumerConfig(group="example-delay-takers", consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer = PushConsumer(config)

    @consumer.on("ExampleDelays")
    async def take(message: Received) -> None:
        late_s = time.time() - message.born_ms / 1000
        print(f"{message.text()!r} came {late_s:.1f} s after it was sent")
        delivered.set()

    async with consumer:
        await delivered.wait()


asyncio.run(main())
