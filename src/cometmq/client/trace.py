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
from typing import Self

from cometmq.client.config import ClientConfig
from cometmq.client.fields import Text
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.client.trace_hooks import ConsumeTracing, SendTracing
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import Trace, encode_trace

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
        self.of_sends = SendTracing(self._add, self._clock)

    def of_consumption(self, group: str) -> ConsumeTracing:
        """Return the hook for a consumer of this group."""
        return ConsumeTracing(self._add, group, self._clock)

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

    def _add(self, record: Trace) -> None:
        """Buffer a record; drop it if the buffer is full."""
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
