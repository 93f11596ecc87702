"""The stories of the demonstration: each sends and consumes messages and checks the result."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.message import Message, ReceivedMessage
from cometmq.client.send.producer import Producer
from cometmq.client.send.transaction import TransactionProducer, TransactionState
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.names import dlq_topic

STEPS = ("created", "paid", "shipped", "done")
# Short delays: the default ones last up to two hours.
SETTINGS = {"messageDelayLevel": "1s" + " 1s" * 17, "transactionTimeOut": "2000"}


@dataclass(slots=True)
class Progress:
    """The progress of a story, as the table shows it."""

    title: str
    sent: int = 0
    received: int = 0
    says: str = ""
    is_over: bool = False
    changed: Callable[[], None] = field(default=lambda: None, repr=False)

    def update(self, says: str = "", *, sent: int = 0, received: int = 0) -> None:
        """Add counts, and replace the text."""
        self.sent += sent
        self.received += received
        self.says = says or self.says
        self.changed()


Story = Callable[[str, Progress], Awaitable[None]]


def _consumer(group: str, name_server: str, retries: int = -1) -> PushConsumer:
    config = PushConsumerConfig(
        group=group, consume_from=ConsumeFrom.FIRST_OFFSET, max_reconsume_times=retries
    )
    return PushConsumer(config, name_server)


async def quick_start(name_server: str, progress: Progress) -> None:
    """Ten messages, and a group that consumes them."""
    left = asyncio.Semaphore(0)
    consumer = _consumer("demo-quick-start", name_server)

    @consumer.on("DemoTopic", tags="TagA")
    async def take(message: ReceivedMessage) -> None:
        progress.update(f"got {message.text()!r} from queue {message.queue_id}", received=1)
        left.release()

    async with Producer("demo-producers", name_server) as producer:
        for number in range(10):
            await producer.send(Message("DemoTopic", f"Hello {number}", tags="TagA"))
            progress.update(sent=1)
        async with consumer:
            for _ in range(10):
                await left.acquire()


async def ordered(name_server: str, progress: Progress) -> None:
    """The steps of three orders, consumed in order."""
    seen: dict[str, list[str]] = defaultdict(list)
    over = asyncio.Event()
    consumer = _consumer("demo-ordered", name_server)

    @consumer.on("DemoOrders", orderly=True)
    async def take(message: ReceivedMessage) -> None:
        order, step = message.text().split()
        seen[order].append(step)
        progress.update(f"order {order}: {' > '.join(seen[order])}", received=1)
        if sum(map(len, seen.values())) == 3 * len(STEPS):
            over.set()

    async with Producer("demo-orders", name_server) as producer:
        for step in STEPS:
            for order in ("17", "18", "19"):
                message = Message("DemoOrders", f"{order} {step}", sharding_key=order)
                await producer.send(message)
                progress.update(sent=1)
        async with consumer:
            await over.wait()
    if any(tuple(steps) != STEPS for steps in seen.values()):
        raise AssertionError(f"out of order: {dict(seen)}")


async def delayed(name_server: str, progress: Progress) -> None:
    """A message that is delivered a second later."""
    over = asyncio.Event()
    begun = time.monotonic()
    consumer = _consumer("demo-delayed", name_server)

    @consumer.on("DemoDelays")
    async def take(message: ReceivedMessage) -> None:
        late = time.monotonic() - begun
        progress.update(f"delivered {late:.1f} s after it was sent", received=1)
        over.set()

    async with Producer("demo-delays", name_server) as producer:
        await producer.send(Message("DemoDelays", "Hello later", delay_level=1))
        progress.update("stored by the broker", sent=1)
        async with consumer:
            await over.wait()


async def transaction(name_server: str, progress: Progress) -> None:
    """Three transactions: committed, rolled back, and checked by the broker."""
    over = asyncio.Event()
    came: set[str] = set()
    consumer = _consumer("demo-transactions", name_server)

    @consumer.on("DemoPayments")
    async def take(message: ReceivedMessage) -> None:
        came.add(message.text())
        progress.update(
            f"{' and '.join(sorted(came))} delivered; the one rolled back is not", received=1
        )
        if len(came) == 2:
            over.set()

    ends = {
        "committed": TransactionState.COMMIT,
        "rolled back": TransactionState.ROLLBACK,
        "checked": TransactionState.UNKNOWN,
    }

    async def local(message: Message) -> TransactionState:
        return ends[message.body.decode()]

    async def check(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    async with TransactionProducer("demo-payers", name_server, check=check) as producer:
        for text in ends:
            await producer.send_in_transaction(Message("DemoPayments", text), local)
            progress.update("the broker checks after two seconds", sent=1)
        async with consumer:
            await over.wait()
    if "rolled back" in came:
        raise AssertionError("a message that was rolled back was delivered")


async def dead_letter(name_server: str, progress: Progress) -> None:
    """A message that fails until it becomes a dead letter."""
    over = asyncio.Event()
    group = "demo-failing"
    consumer = _consumer(group, name_server, retries=2)
    undertaker = _consumer("demo-undertakers", name_server)

    @consumer.on("DemoPoison")
    async def fail(message: ReceivedMessage) -> None:
        progress.update(f"attempt {message.reconsume_times + 1} fails", received=1)
        raise ValueError("as it should")

    @undertaker.on(dlq_topic(group))
    async def bury(message: ReceivedMessage) -> None:
        progress.update(f"dead letter of {group}")
        over.set()

    async with Producer("demo-poisoners", name_server) as producer:
        await producer.send(Message("DemoPoison", "poison"))
        progress.update(sent=1)
        async with consumer, undertaker:
            await over.wait()


STORIES: dict[str, Story] = {
    "quick start": quick_start,
    "ordered": ordered,
    "delayed": delayed,
    "transaction": transaction,
    "dead letter": dead_letter,
}


async def play(story: Story, name_server: str, progress: Progress, patience_s: float) -> None:
    """Run a story to its end. Raises TimeoutError if it takes too long."""
    async with asyncio.timeout(patience_s):
        await story(name_server, progress)
    progress.is_over = True
    progress.update()
