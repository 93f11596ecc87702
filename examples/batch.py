"""Many messages in one frame. What is too large for one leaves in several, in order."""

import asyncio

from cometmq import Message, Producer


async def main() -> None:
    messages = [
        Message("ExampleBatches", bytes(1000), tags="TagA", keys=f"OrderID{number}")
        for number in range(10_000)  # 10 MB, where a broker takes 4 at a time
    ]
    async with Producer("example-batches") as producer:
        results = await producer.send_batch(messages)
        print(f"{len(messages)} messages in {len(results)} frames, all in {results[0].queue}")


asyncio.run(main())
