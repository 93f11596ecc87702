"""Send messages and wait for each result: the usual way if no message may be lost."""

import asyncio

from cometmq import Message, Producer


async def main() -> None:
    async with Producer("example-senders") as producer:  # the name server comes from NAMESRV_ADDR
        for number in range(10):
            message = Message("ExampleTopic", f"Hello {number}", tags="TagA", keys=f"key-{number}")
            result = await producer.send(message)
            print(result.status.value, result.message_id, "in", result.queue)


asyncio.run(main())
