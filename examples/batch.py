"""Send many messages in one request. A batch that is too large is sent in several, in order."""

import asyncio

from cometmq import Message, Producer


async def main() -> None:
    messages = [
        Message("ExampleBatches", bytes(1000), tags="TagA", keys=f"OrderID{number}")
        for number in range(10_000)  # 10 MB; a broker accepts 4 MB per request
    ]
    async with Producer("example-batches") as producer:
        results = await producer.send_batch(messages)
        print(f"{len(messages)} messages in {len(results)} frames, all in {results[0].queue}")


asyncio.run(main())
