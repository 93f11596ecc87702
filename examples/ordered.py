"""Keep the steps of each order in sequence: one queue per key, one listener call at a time."""

import asyncio

from cometmq import ConsumeFrom, Message, Producer, PushConsumer, PushConsumerConfig
from cometmq import ReceivedMessage as Received

STEPS = ["created", "paid", "shipped", "done"]
ORDERS = ["1039", "1065", "7235"]


async def main() -> None:
    async with Producer("example-orders") as producer:
        for step in STEPS:
            for order in ORDERS:
                await producer.send(Message("ExampleOrders", f"{order} {step}", sharding_key=order))

    seen: dict[str, list[str]] = {order: [] for order in ORDERS}
    finished = asyncio.Event()
    config = PushConsumerConfig(group="example-order-takers", consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer = PushConsumer(config)

    @consumer.on("ExampleOrders", orderly=True)
    async def take(message: Received) -> None:
        order, step = message.text().split()
        seen[order].append(step)
        print(f"queue {message.queue_id}: order {order} is {step}")
        if all(steps[-1:] == ["done"] for steps in seen.values()):
            finished.set()

    async with consumer:
        await finished.wait()
    assert all(steps == STEPS for steps in seen.values()), seen


asyncio.run(main())
