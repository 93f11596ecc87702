"""Send without waiting: a callback receives each result or error."""

import asyncio

from cometmq import Message, Producer, SendResult


def answered(outcome: SendResult | Exception) -> None:
    if isinstance(outcome, Exception):
        print("failed:", outcome)
    else:
        print("OK", outcome.message_id)


async def main() -> None:
    async with Producer("example-senders") as producer:
        for number in range(100):
            message = Message("ExampleTopic", f"Hello {number}", tags="TagA", keys="OrderID188")
            producer.send_soon(message, answered)
        await producer.flush()  # wait for all results


asyncio.run(main())
