"""Send one-way, without a result: for data such as logs, where a loss is acceptable."""

import asyncio

from cometmq import Message, Producer


async def main() -> None:
    async with Producer("example-senders") as producer:
        for number in range(100):
            await producer.send_oneway(Message("ExampleTopic", f"Hello {number}", tags="TagA"))
    print("100 sent")


asyncio.run(main())
