"""The fake broker with what push consumers ask for besides: locks, and messages sent back."""

import asyncio
from contextlib import asynccontextmanager

from client.consumer.fake_broker import FakeBroker
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.bodies.queues import LockedQueues, LockQueues
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.java.fastjson import dumps, loads

TURNS = 60  # of the loop: enough for what was begun to reach its next wait


class PushBroker(FakeBroker):
    """Locks are granted but for those of others; what is sent back is remembered."""

    def __init__(self, **topics):
        super().__init__(**topics)
        self.locked_by_others = set()  # queue ids
        self.locks = {}  # queue: client id
        self.sent_back = []
        self.copies = []

    async def _lock(self, header, body):
        ask = loads(body, LockQueues)
        ours = [each for each in ask.mq_set if each.queue_id not in self.locked_by_others]
        self.locks |= dict.fromkeys(ours, ask.client_id)
        return Command(code=ResponseCode.SUCCESS, body=dumps(LockedQueues(locked=ours)))

    async def _unlock(self, header, body):
        for queue in loads(body, LockQueues).mq_set:
            self.locks.pop(queue, None)
        return Command(code=ResponseCode.SUCCESS)

    async def _take_back(self, header, body):
        self.sent_back.append(header)
        return Command(code=ResponseCode.SUCCESS)

    async def _take_copy(self, header, body):
        self.copies.append((header, body))
        return Command(code=ResponseCode.SUCCESS)

    _answers = FakeBroker._answers | {
        RequestCode.LOCK_BATCH_MQ: _lock,
        RequestCode.UNLOCK_BATCH_MQ: _unlock,
        RequestCode.CONSUMER_SEND_MSG_BACK: _take_back,
        RequestCode.SEND_MESSAGE_V2: _take_copy,
    }


async def settle():
    """Let what was begun go on as far as it can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@asynccontextmanager
async def consuming(broker, handler, *, topic="T", orderly=False, manual=False, **config):
    """A consumer of group G that has its queues."""
    settings = {"group": "G", "consume_from": ConsumeFrom.FIRST_OFFSET, **config}
    async with broker.session() as session:
        consumer = PushConsumer(PushConsumerConfig(**settings), session=session)
        consumer.subscribe(topic)
        consumer.listen(handler, orderly=orderly, manual_commit=manual)
        async with consumer:
            await consumer.ready()
            await settle()
            yield consumer


async def closed(broker, consumer):
    """Close it, whatever its listener does: the time that it has for that passes."""
    closing = asyncio.create_task(consumer.close())
    while not closing.done():
        await broker.clock.advance(1_000)
    await closing


class Gate:
    """A coroutine listener whose calls wait until they are let go."""

    def __init__(self, answer=lambda message: None):
        self._answer = answer
        self._open = asyncio.Event()
        self.begun = []
        self.ended = []

    async def __call__(self, message):
        self.begun.append(message.text())
        await self._open.wait()
        self.ended.append(message.text())
        return self._answer(message)

    def open(self):
        self._open.set()


class Taken:
    """A coroutine listener that remembers."""

    def __init__(self, answer=lambda message: None):
        self._answer = answer
        self.bodies = []
        self.messages = []

    async def __call__(self, message):
        self.bodies.append(message.text())
        self.messages.append(message)
        return self._answer(message)
