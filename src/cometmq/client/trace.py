"""Message traces: records of sends, deliveries and their outcomes, stored in a topic.

    async with Tracer("127.0.0.1:9876") as tracer:
        producer.add_hook(tracer.of_sends)
        consumer.add_hook(tracer.of_consumption("group"))

The brokers need `traceTopicEnable`, or the given topic must exist. Tracing never delays clients:
records are buffered in memory, up to a bound, and sent in batches.
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
_WAITING_MAX = 2048  # records in the buffer; further ones are dropped and counted
_TOGETHER_MAX = 100  # records in one message
_BODY_MAX = 128_000
_TOPIC = Text(blank=False)
_WORDS_MAX = 16_000  # bytes of the keys of one trace message; properties are bounded
_GATHER_MS = 500  # how long a record waits for others
_CLOSE_MS_MAX = 5_000  # to send the buffer at the end; the rest is dropped


class Tracer:
    """Sends trace records of producers and consumers to a topic.

    Use it as `async with Tracer("127.0.0.1:9876") as tracer:` and add its hooks to clients:
    `producer.add_hook(tracer.of_sends)` and
    `consumer.add_hook(tracer.of_consumption("group"))`. The brokers need `traceTopicEnable`, or
    the topic must exist. Records are buffered and sent in the background; tracing never delays a
    client. `mqadmin queryMsgTraceById` shows them.

    Args:
        name_servers: Addresses of the name servers; mutually exclusive with `client` and `session`.
        client: Settings of the tracer's own connections.
        session: A session to share with other clients.
        topic: The topic of the trace records.

    Attributes:
        of_sends: The hook for producers.
        dropped: Records that were not sent because the buffer was full or a send failed.
    """

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
        self.dropped = 0
        self.of_sends = SendTracing(self, self._clock)

    def of_consumption(self, group: str) -> "ConsumeTracing":
        """Return the hook for a consumer of this group."""
        return ConsumeTracing(self, group, self._clock)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start to send records in the background."""
        await self._producer.start()
        self._sender = asyncio.get_running_loop().create_task(self._send_while_there_are())

    async def close(self) -> None:
        """Send the buffered records, within 5 seconds, and close."""
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
            log.warning(
                "the brokers are too slow: %d trace records are dropped", len(self._waiting)
            )
        finally:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    def add(self, record: Trace) -> None:
        """Buffer a record; drop it if the buffer is full. For hooks."""
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
                # close() cancels this loop between messages; the message in flight is completed.
                await asyncio.shield(background.start(self._send_some(), "trace"))

    async def _send_some(self) -> None:
        """Send one message with as many records as fit."""
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
    """Return the keys that fit into the properties of one message, short keys first."""
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
    """The hook for producers and transactions."""

    tracer: Tracer
    clock: Clock

    def before_send(self, context: SendContext) -> None:
        """Do nothing: all values are known after the send."""

    def after_send(self, context: SendContext) -> None:
        """Add one record; the first message represents a batch."""
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
        """Add one record for the end of a transaction."""
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
    """The hook for consumers of a group: one record before each call, one after it."""

    tracer: Tracer
    group: str
    clock: Clock
    _name: str = field(default_factory=lambda: uuid4().hex[:16].upper())

    def before(self, call: ListenerCall) -> None:
        """Add a record for each message that the listener receives."""
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
        """Add a record for each message with the listener's outcome."""
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
        """Return the id of a call: equal before and after, unique among running calls."""
        return f"{self._name}{id(call):012X}"


def _traced(call: ListenerCall) -> list[ReceivedMessage]:
    return [each for each in call.messages if each.properties.get(TRACE_ON) != "false"]


def _outcome(call: ListenerCall, outcome: Outcome) -> trace.Outcome:
    if call.error is not None:
        return trace.Outcome.EXCEPTION
    if isinstance(outcome, Ack | Commit):
        return trace.Outcome.SUCCESS
    return trace.Outcome.FAILED
