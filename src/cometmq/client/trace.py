"""Message traces: who sent a message, who took it and what became of it, kept in a topic.

    async with Tracer("127.0.0.1:9876") as tracer:
        producer.add_hook(tracer.of_sends)
        consumer.add_hook(tracer.of_consumption("group"))

The brokers need `traceTopicEnable`, or the topic that is given must be there. Tracing never holds
up what it traces: records wait in memory, up to a bound, and leave together.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self
from uuid import uuid4

from cometmq.client.config import ClientConfig
from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Outcome
from cometmq.client.fields import Text
from cometmq.client.message import Message, ReceivedMessage
from cometmq.client.send.end_hooks import EndContext
from cometmq.client.send.producer import Producer
from cometmq.client.send.send_hooks import SendContext
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.protocol import trace
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.records.properties import MSG_REGION, TRACE_ON
from cometmq.protocol.trace import Trace, encode_trace
from cometmq.seams import Clock

log = logging.getLogger(__name__)

GROUP = "_INNER_TRACE_PRODUCER"
_WAITING_MAX = 2048  # records; those past it are dropped, and counted
_TOGETHER_MAX = 100  # records in one message
_BODY_MAX = 128_000
_TOPIC = Text(blank=False)
_WORDS_MAX = 16_000  # bytes of the keys of one message, whose properties are bounded
_GATHER_MS = 500  # how long a record may wait for others
_CLOSE_MS_MAX = 5_000  # for what waits at the end; the rest is dropped


class Tracer:
    """Sends trace records. See the top of the file."""

    def __init__(
        self,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: Session | None = None,
        topic: str = TRACE_TOPIC,
    ) -> None:
        self._lease = lease(name_servers, client, session)
        self._clock = self._lease.session.clock
        self._producer = Producer(GROUP, session=self._lease.session)
        self._topic = _TOPIC.check("topic", topic)
        self._waiting: deque[Trace] = deque()
        self._arrived = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self.dropped = 0  # records that were never sent
        self.of_sends = SendTracing(self, self._clock)

    def of_consumption(self, group: str) -> "ConsumeTracing":
        """The hook of a consumer of this group."""
        return ConsumeTracing(self, group, self._clock)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Send from now on."""
        await self._producer.start()
        self._sender = asyncio.get_running_loop().create_task(self._send_while_there_are())

    async def close(self) -> None:
        """Send what waits, for a few seconds at most, and end."""
        try:
            if self._sender is not None:
                self._sender.cancel()
                await asyncio.gather(self._sender, return_exceptions=True)
                self._sender = None
                await self._send_the_rest()
        finally:
            try:
                await self._producer.close()
            finally:
                await self._lease.end()

    async def _send_the_rest(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_MS_MAX / 1000):
                while self._waiting:
                    await self._send_some()
        except TimeoutError:
            log.warning("the brokers are too slow: %d more trace records", len(self._waiting))
        finally:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    def add(self, record: Trace) -> None:
        """Have it sent, if there is room."""
        if len(self._waiting) >= _WAITING_MAX:
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # 1, 2, 4, 8 ...
                log.warning("%d trace records were dropped: the brokers are too slow", self.dropped)
            return
        self._waiting.append(record)
        self._arrived.set()

    async def _send_while_there_are(self) -> None:
        background = self._lease.session.background
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            if len(self._waiting) < _TOGETHER_MAX:
                await self._clock.sleep_ms(_GATHER_MS)
            while self._waiting:
                # It is ended, when we close, between messages: the one under way goes on.
                await asyncio.shield(background.start(self._send_some(), "trace"))

    async def _send_some(self) -> None:
        """One message, of as many records as go into one."""
        text, words, count = "", set[str](), 0
        while self._waiting and count < _TOGETHER_MAX:
            record = self._waiting[0]
            more = encode_trace(record)
            new_words = record.words - words - {""}
            is_full = len(text) + len(more) > _BODY_MAX or _size(words | new_words) > _WORDS_MAX
            if count and is_full:
                break
            self._waiting.popleft()
            text, words, count = text + more, words | _fitting(new_words), count + 1
        try:
            await self._producer.send(Message(self._topic, text, keys=sorted(words)))
        except BaseException as error:
            self.dropped += count
            if not isinstance(error, Exception):
                raise
            log.warning("%d trace records are lost: %s", count, error)


def _fitting(words: frozenset[str]) -> set[str]:
    """Those that the properties of one message hold, short ones first."""
    fitting: set[str] = set()
    for word in sorted(words, key=len):
        if _size({*fitting, word}) > _WORDS_MAX:
            break
        fitting.add(word)
    return fitting


def _size(words: Iterable[str]) -> int:
    return sum(len(word.encode(errors="surrogatepass")) + 1 for word in words)


@dataclass(frozen=True, slots=True)
class SendTracing:
    """A hook of producers, for transactions too."""

    tracer: Tracer
    clock: Clock

    def before_send(self, context: SendContext) -> None:
        """All is known afterwards."""

    def after_send(self, context: SendContext) -> None:
        """One record; of a batch too, for which its first message stands."""
        result = context.result
        if result is None or not result.region_id or not result.trace_on:
            return
        first = context.messages[0]
        self.tracer.add(
            trace.SentTrace(
                time_ms=context.born_ms,
                region_id=result.region_id,
                group=context.group,
                topic=first.topic,
                message_id=result.message_id.partition(",")[0],
                tags=first.tags or "",
                keys=" ".join(first.keys),
                store_host=context.broker,
                body_size=sum(len(message.body) for message in context.messages),
                cost_ms=context.took_ms,
                kind=_kind(first, context),
                offset_id=result.offset_id,
            )
        )

    def transaction_ends(self, context: EndContext) -> None:
        """One record, whatever the broker makes of it."""
        if not context.trace_on:
            return
        self.tracer.add(
            trace.EndedTrace(
                time_ms=self.clock.wall_ms(),
                region_id=context.region_id,
                group=context.group,
                topic=context.topic,
                message_id=context.message_id,
                tags=context.tags,
                keys=" ".join(context.keys),
                store_host=context.broker,
                transaction_id=context.transaction_id,
                state=context.state,
                from_check=context.from_check,
            )
        )


def _kind(message: Message, context: SendContext) -> trace.MessageKind:
    if context.sys_flag & MessageFlag.PREPARED:
        return trace.MessageKind.HALF
    return trace.MessageKind.DELAYED if message.delay_level else trace.MessageKind.NORMAL


@dataclass(frozen=True, slots=True)
class ConsumeTracing:
    """A hook of the consumers of a group: a record before, and one after."""

    tracer: Tracer
    group: str
    clock: Clock
    _name: str = field(default_factory=lambda: uuid4().hex[:16].upper())

    def before(self, call: ListenerCall) -> None:
        """The messages go to the listener."""
        request_id = self._request_id(call)
        for message in _traced(call):
            self.tracer.add(
                trace.TakenTrace(
                    time_ms=self.clock.wall_ms(),
                    region_id=message.properties.get(MSG_REGION, ""),
                    group=self.group,
                    request_id=request_id,
                    message_id=message.message_id,
                    retries=message.reconsume_times,
                    keys=" ".join(message.keys),
                )
            )

    def after(self, call: ListenerCall, outcome: Outcome) -> None:
        """What it made of them."""
        request_id, messages = self._request_id(call), _traced(call)
        for message in messages:
            self.tracer.add(
                trace.ConsumedTrace(
                    request_id=request_id,
                    message_id=message.message_id,
                    cost_ms=call.took_ms // len(messages),
                    success=isinstance(outcome, Ack | Commit),
                    keys=" ".join(message.keys),
                    outcome=_outcome(call, outcome),
                    time_ms=self.clock.wall_ms(),
                    group=self.group,
                )
            )

    def _request_id(self, call: ListenerCall) -> str:
        """The same before and after, and of no other call that is under way."""
        return f"{self._name}{id(call):012X}"


def _traced(call: ListenerCall) -> list[ReceivedMessage]:
    return [each for each in call.messages if each.properties.get(TRACE_ON) != "false"]


def _outcome(call: ListenerCall, outcome: Outcome) -> trace.Outcome:
    if call.error is not None:
        return trace.Outcome.EXCEPTION
    if isinstance(outcome, Ack | Commit):
        return trace.Outcome.SUCCESS
    return trace.Outcome.FAILED
