"""Send a message that is delivered only if a local transaction commits."""

import asyncio

from cometmq import Message, ReceivedMessage, TransactionProducer, TransactionState

paid: dict[str, bool] = {}  # in a real program: a database table


async def pay(message: Message) -> TransactionState:
    """The local transaction. It may also return UNKNOWN; then the broker checks later."""
    (order,) = message.keys
    paid[order] = int(order) % 2 == 0
    return TransactionState.COMMIT if paid[order] else TransactionState.ROLLBACK


async def was_paid(message: ReceivedMessage) -> TransactionState:
    """Called when the broker does not know the outcome of a transaction."""
    (order,) = message.keys
    return TransactionState.COMMIT if paid.get(order) else TransactionState.ROLLBACK


async def main() -> None:
    async with TransactionProducer("example-payers", check=was_paid) as producer:
        for order in map(str, range(10)):
            message = Message("ExamplePayments", f"order {order} is paid", keys=order)
            result = await producer.send_in_transaction(message, pay)
            print(f"order {order}: {result.state.name}")


asyncio.run(main())
