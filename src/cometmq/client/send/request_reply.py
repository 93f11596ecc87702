"""Requests by message: one consumer of the topic answers.

    reply = await producer.request(Message("prices", b"apples?"))

The consumer answers with a producer: `await producer.reply(request, b"3.50")`. The broker pushes
the reply to the client that sent the request, which it knows from its heartbeats.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol
from uuid import uuid4

from cometmq.client.message import Message, ReceivedMessage, SendResult
from cometmq.client.send.destinations import Destinations
from cometmq.client.send.selectors import ANY_QUEUE, SendOptions
from cometmq.client.session.session import Session
from cometmq.errors import BadMessage, StoredState, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.headers.send import PushReplyHeader
from cometmq.protocol.names import reply_topic
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import (
    CLUSTER,
    CORRELATION_ID,
    MESSAGE_TYPE,
    REPLY_TO_CLIENT,
    TTL,
    decode_properties,
    encode_properties,
)
from cometmq.remoting.address import parse_address
from cometmq.seams import Clock

_WAITING_MAX = 65_535  # pending requests


class SendMarked(Protocol):
    """Sends a message with system properties."""

    async def __call__(
        self,
        message: Message,
        marks: str,
        options: SendOptions = ANY_QUEUE,
        *,
        is_reply: bool = False,
    ) -> SendResult:
        """Send the message; results and exceptions are those of `Producer.send`."""


class PendingReplies:
    """The pending requests of a producer, by correlation id."""

    def __init__(self, clock: Clock, namespace: str) -> None:
        self._clock = clock
        self._namespace = namespace
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    @contextmanager
    def expect(
        self, correlation_id: str, timeout_ms: int
    ) -> Iterator["asyncio.Future[ReceivedMessage]"]:
        """Expect a reply while the context is open; the future raises TimedOut without one."""
        if len(self._waiting) >= _WAITING_MAX:
            raise TooManyRequests(f"{_WAITING_MAX} requests are pending: send fewer at a time")
        future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        timer = self._clock.call_later(timeout_ms, partial(_time_out, future, timeout_ms))
        try:
            yield future
        finally:
            timer.cancel()
            del self._waiting[correlation_id]
            if not future.cancel() and not future.cancelled():
                future.exception()  # mark it as retrieved, if the send has failed too

    def take(self, ask: PushReplyHeader, body: bytes) -> bool:
        """Accept a reply; return whether it belongs to a pending request."""
        text = ask.properties or ""
        future = self._waiting.get(decode_properties(text).get(CORRELATION_ID, ""))
        if future is None or future.done():
            return False
        stored = StoredMessage(
            topic=ask.topic,
            queue_id=ask.queue_id,
            flag=ask.flag,
            sys_flag=ask.sys_flag,
            born_ms=ask.born_timestamp,
            born_host=_host(ask.born_host),
            stored_ms=ask.store_timestamp,
            store_host=_host(ask.store_host),
            reconsume_times=ask.reconsume_times or 0,
            body=body,
            properties_text=text,
        )
        future.set_result(ReceivedMessage.of(stored, "", self._namespace))
        return True

    def close(self) -> None:
        """Fail the pending requests."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    Unreachable("closed before the reply arrived: a consumer may have the request")
                )


class RequestReply:
    """Sends the requests and replies of one producer."""

    def __init__(self, session: Session, destinations: Destinations, send: SendMarked) -> None:
        self._session = session
        self._destinations = destinations
        self._send = send
        self.replies = PendingReplies(session.clock, session.config.namespace)

    async def request(
        self, message: Message, options: SendOptions, timeout_ms: int
    ) -> ReceivedMessage:
        """Send a request and return the reply. Raises TimedOut without a reply in time."""
        now_ms = self._session.clock.monotonic_ms
        deadline_ms = now_ms() + timeout_ms
        correlation_id = str(uuid4())
        with self.replies.expect(correlation_id, timeout_ms) as reply:
            await self._announce(message.topic, deadline_ms)
            left_ms = max(1, deadline_ms - now_ms())
            marks = _marks(correlation_id, self._session.client_id, str(left_ms))
            options = SendOptions(options.queue, options.selector, options.key, left_ms)
            await self._send(message, encode_properties(marks), options)
            return await reply

    async def _announce(self, topic: str, deadline_ms: int) -> None:
        """Make this client known to the brokers of a topic, which push replies to it."""
        if self._destinations.get(topic) is not None:
            return
        try:
            async with asyncio.timeout((deadline_ms - self._session.clock.monotonic_ms()) / 1000):
                await self._destinations.of(topic)
                await self._session.heart.beat()
        except TimeoutError:
            text = f"no heartbeat reached the brokers of topic {topic} in time"
            raise TimedOut(text, stored=StoredState.NO) from None

    async def reply(
        self, request: ReceivedMessage, body: bytes | str, options: SendOptions
    ) -> SendResult:
        """Send a reply. Raises BadMessage if the message is not a request."""
        found = request.properties.get
        cluster, correlation_id, client_id, ttl = (
            found(name) for name in (CLUSTER, CORRELATION_ID, REPLY_TO_CLIENT, TTL)
        )
        if not (cluster and correlation_id and client_id and ttl):
            raise BadMessage(f"{request!r} is not a request: no client expects a reply to it")
        marks = _marks(correlation_id, client_id, ttl) | {MESSAGE_TYPE: "reply"}
        message = Message(reply_topic(cluster), body)
        return await self._send(message, encode_properties(marks), options, is_reply=True)


def _marks(correlation_id: str, client_id: str, ttl: str) -> dict[str, str]:
    return {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: ttl}


def _time_out(future: "asyncio.Future[ReceivedMessage]", timeout_ms: int) -> None:
    if not future.done():
        future.set_exception(
            TimedOut(f"no reply within {timeout_ms / 1000:g} s: is a consumer running?")
        )


def _host(text: str) -> Host:
    """Parse `host:port`, `/host:port` or `name/host:port`, the forms that Java writes."""
    return Host(*parse_address(text.rpartition("/")[2]))
