"""Send without waiting: a function of yours is called with each answer, or with the error."""

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
        await producer.flush()  # until all are answered


asyncio.run(main())
