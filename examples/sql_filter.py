"""Filter messages by an SQL expression. Brokers need enablePropertyFilter=true."""

import asyncio

from cometmq import ConsumeFrom, Message, Producer, PushConsumer, PushConsumerConfig
from cometmq import ReceivedMessage as Received


async def main() -> None:
    async with Producer("example-filters") as producer:
        for number in range(10):
            text = f"Hello {number}"
            await producer.send(Message("ExampleFilters", text, properties={"a": str(number)}))

    seen: list[str] = []
    all_there = asyncio.Event()
    config = PushConsumerConfig(group="example-pickers", consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer = PushConsumer(config)

    @consumer.on("ExampleFilters", sql="a BETWEEN 0 AND 3")
    async def take(message: Received) -> None:
        seen.append(message.text())
        if len(set(seen)) == 4:
            all_there.set()

    async with consumer:
        await all_there.wait()
    print(sorted(set(seen)))


asyncio.run(main())
