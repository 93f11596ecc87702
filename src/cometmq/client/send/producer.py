"""Sends messages: awaited, with a callback, one-way, in batches, and as requests.

An exception that is raised before a frame is written (BadMessage, NoRoute, Closed) means that
nothing was stored.
"""

import asyncio
import logging
from asyncio import get_running_loop
from collections.abc import Callable, Iterable
from functools import partial
from typing import Never, Self, TypeVar

from cometmq.client.config import ClientConfig, ProducerConfig, config_of
from cometmq.client.durations import Timeout, duration_ms
from cometmq.client.fields import Optional
from cometmq.client.message import Message, ReceivedMessage, SendResult, no_message
from cometmq.client.send.broker_requests import SessionProducer
from cometmq.client.send.pending_sends import AwaitedSend, Callback, CallbackSend, PendingSend
from cometmq.client.send.request_reply import RequestReply
from cometmq.client.send.selectors import ANY_QUEUE, Selector, SendOptions
from cometmq.client.send.send_hooks import SendCheck, SendHook
from cometmq.client.send.sender import MessageSender, too_many
from cometmq.client.session.asker import Asker
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import with_namespace

log = logging.getLogger(__name__)

_NOT_STARTED = "the producer is not started: use `async with`, or await start()"
_CLOSED = "the producer is closed"
_QUEUE = Optional(MessageQueue)

S = TypeVar("S", bound=PendingSend)


class Producer(Asker):
    """Sends messages. Use it as an async context manager, or call `start` and `close`.

        async with Producer("group", "127.0.0.1:9876") as producer:
            result = await producer.send(Message("topic", b"body"))

    A producer belongs to the event loop that started it and to the process that created it.

    Args:
        group: the name of the producer group, or a ProducerConfig.
        name_servers: addresses `host:port`, separated by `;` or in a list. The default is the
            environment variable NAMESRV_ADDR.
        client: settings of connections and names, instead of `name_servers`.
        session: a session that several clients share, instead of `name_servers` and `client`.
    """

    def __init__(
        self,
        group: str | ProducerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: Session | None = None,
    ) -> None:
        config = config_of(ProducerConfig, group)
        self._lease = lease(name_servers, client, session)
        session = self._lease.session
        super().__init__(session)
        self.config = config
        self.group = with_namespace(session.config.namespace, config.group)
        self._timeout_ms = duration_ms(config.send_timeout)
        self._sender = MessageSender(session, config, self.group)
        self._request_reply = RequestReply(session, self._sender.destinations, self._send_marked)
        self._member = SessionProducer(self.group, self._request_reply.replies)
        self._not_open_why = _NOT_STARTED
        self._closing: asyncio.Task[None] | None = None

    # Start and close

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to the known brokers. Raises Closed if the producer was started before."""
        if self._not_open_why != _NOT_STARTED:
            raise Closed(self._not_open_why or "the producer is already started")
        await self._session.join_producer(self._member)
        self._not_open_why = ""

    async def close(self) -> None:
        """Wait for the sends in flight, at most for the send timeout, then disconnect.

        Calling it again, or canceling it, is safe: it is always completed.
        """
        if self._closing is None:
            was, self._not_open_why = self._not_open_why, _CLOSED
            self._closing = get_running_loop().create_task(self._leave(was))
        await asyncio.shield(self._closing)  # canceling the caller does not interrupt it

    async def _leave(self, was: str) -> None:
        session = self._session
        try:
            if not was and not session.closed_why:
                await self._drain()
                await session.leave_producer(self._member)
        finally:
            session.members.leave_producer(self._member)
            self._request_reply.replies.close()
            self._sender.close()
            await self._lease.end()

    async def flush(self) -> None:
        """Wait until no send is in flight: each has a result or an exception."""
        await self._sender.until_idle()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self.flush()
        except TimeoutError:
            log.warning("closed with %d sends in flight", self._sender.in_flight)

    def _check_open(self) -> None:
        """Raise Closed unless the producer is open, and used in its own loop and process."""
        if self._not_open_why:
            raise Closed(self._not_open_why)
        self._session.check_here()

    # Sends

    async def send(
        self,
        message: Message,
        *misplaced: Never,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> SendResult:
        """Send a message and return the broker's answer.

        Args:
            message: the message; its sharding key selects the queue unless an argument does.
            queue: the queue to send to.
            selector: a function that is called with the queues of the topic, the message and the
                key, and returns the queue.
            key: equal keys go to the same queue. Any object; its hash is Java's.
            timeout: for all attempts together; the default is `send_timeout` of the config.

        Returns:
            Where the message is stored, and how safely: see `SendStatus`.

        Raises:
            BadMessage: the message cannot be sent as it is.
            NoRoute: no broker serves the topic.
            Refused: the broker did not store the message.
            TooManyRequests: the broker accepted no more requests within the timeout.
            Unreachable, TimedOut: no answer; the message may be stored.
            Closed: the producer is not open.

        If none of `queue`, `selector`, `key` and the sharding key is given, the queues take turns,
        and a failed attempt is retried on another broker. Otherwise there is one attempt.
        """
        # Checks are inlined here and in `send_soon`.
        if misplaced:
            raise no_message(message, *misplaced)
        session = self._session
        if self._not_open_why or session.closed_why or get_running_loop() is not session.loop:
            self._check_open()
        options = options_of(queue, selector, key, timeout)
        sender = self._sender
        sender.in_flight += 1
        try:
            return await sender.result(AwaitedSend(sender, message, options, self._ms(options)))
        finally:
            sender.end()

    def send_soon(
        self,
        message: Message,
        callback: Callback,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Send a message and call the callback with the result or the exception.

        This is the cheapest way to send. It neither waits nor raises; the callback runs on the
        loop, after this call has returned. An attempt whose answer is lost is retried: on another
        broker, or at the same queue if the arguments or the sharding key select it. Messages to
        one queue are stored in the order of the calls, unless an answer is lost.

        At most 65 535 sends may be in flight; further ones fail with TooManyRequests. Await
        `flush` from time to time.
        """
        sender = self._sender
        try:
            session = self._session
            if self._not_open_why or session.closed_why or get_running_loop() is not session.loop:
                self._check_open()
            if not sender.has_room:
                raise too_many()
            options = options_of(queue, selector, key, timeout)
            sender.begin(
                CallbackSend(sender, message, options, self._ms(options), callback=callback)
            )
            sender.in_flight += 1
        except Exception as error:  # noqa: BLE001 - of a selector, for example
            sender.fail_later(callback, error)

    async def send_oneway(
        self,
        message: Message,
        *misplaced: Never,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Send a message without an answer; return when it is written to the connection.

        The arguments are those of `send`. Whether a broker stores the message is unknown.
        """
        if misplaced:
            raise no_message(message, *misplaced)
        self._check_open()
        options = options_of(queue, selector, key, timeout)
        sender = self._sender
        sender.in_flight += 1
        try:
            send = AwaitedSend(sender, message, options, self._ms(options), is_special=True)
            send.is_oneway = True
            await sender.result(send)
        finally:
            sender.end()

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue in one frame, or in as few as brokers accept.

        The other arguments are those of `send`; `timeout` applies to each frame. The messages must
        have the same topic and the same `wait`, and no delay.

        Returns:
            One result for each frame, usually one.

        Raises:
            PartlySent: a frame after the first failed; `results` and `unsent` say which messages
                are stored.

        It also raises what `send` raises, if the first frame fails.
        """
        self._check_open()
        options = options_of(queue, selector, key, timeout)
        sender = self._sender
        sender.in_flight += 1
        try:
            return await sender.batch(list(messages), options, self._ms(options))
        finally:
            sender.end()

    def send_batch_soon(
        self,
        messages: Iterable[Message],
        callback: Callable[[list[SendResult] | Exception], object],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Send as `send_batch` does and call the callback with the results or the exception."""
        try:
            self._check_open()
            options = options_of(queue, selector, key, timeout)
            work = self._sender.batch(list(messages), options, self._ms(options))
            self._sender.run(callback, work)
        except Exception as error:  # noqa: BLE001 - the callback receives it
            self._sender.fail_later(callback, error)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> ReceivedMessage:
        """Send a request and return the reply of the consumer that handles it.

        The arguments are those of `send`; `timeout` includes the reply.

        Raises:
            TimedOut: no reply in time; a consumer may have received the request.

        It also raises what `send` raises.
        """
        self._check_open()
        options = options_of(queue, selector, key, timeout)
        return await self._request_reply.request(message, options, self._ms(options))

    def request_soon(
        self,
        message: Message,
        callback: Callable[[ReceivedMessage | Exception], object],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: object = None,
        timeout: Timeout = None,
    ) -> None:
        """Send as `request` does and call the callback with the reply or the exception."""
        work = self.request(message, queue=queue, selector=selector, key=key, timeout=timeout)
        self._sender.run(callback, work)

    async def reply(
        self, request: ReceivedMessage, body: bytes | str, *, timeout: Timeout = None
    ) -> SendResult:
        """Answer a request that a consumer received.

        Raises:
            BadMessage: the message is not a request.
            Refused: the client that sent the request is gone.
        """
        options = options_of(None, None, None, timeout)
        return await self._request_reply.reply(request, body, options)

    async def _send_marked(
        self,
        message: Message,
        marks: str,
        options: SendOptions = ANY_QUEUE,
        *,
        sys_flag: int = 0,
        is_reply: bool = False,
    ) -> SendResult:
        """Send a message with encoded system properties: a half message, a request or a reply."""
        self._check_open()
        sender, packing = self._sender, self._sender.packing
        sender.in_flight += 1
        try:
            pack = partial(packing.pack, message, packing.wall_ms(), marks, sys_flag)
            is_long = len(message.body) >= packing.long_from
            sent = await asyncio.to_thread(pack) if is_long else pack()
            send = AwaitedSend(sender, message, options, self._ms(options), sent=sent)
            if is_reply:
                send.is_special, send.kind = True, "reply"
            return await sender.result(send)
        finally:
            sender.end()

    def _ms(self, options: SendOptions) -> int:
        return self._timeout_ms if options.timeout_ms is None else options.timeout_ms

    def _begin(self, kind: type[S], message: Message, options: SendOptions) -> S:
        self._check_open()
        send = kind(self._sender, message, options, self._ms(options))
        self._sender.begin(send)
        self._sender.in_flight += 1
        return send

    # Hooks

    def add_hook(self, hook: SendHook) -> None:
        """Call the hook before and after each attempt of each send."""
        self._sender.hooks.add(hook)

    def add_check(self, check: SendCheck) -> None:
        """Call `check` before each attempt.

        If it raises, the message is not sent, and the send fails with the same exception.
        """
        self._sender.hooks.add_check(check)


def options_of(
    queue: MessageQueue | None, selector: Selector | None, key: object, timeout: Timeout
) -> SendOptions:
    """Check the optional arguments of a send. Raises BadSetting."""
    if queue is None and selector is None and key is None and timeout is None:
        return ANY_QUEUE  # most sends: nothing is created
    if selector is not None and not callable(selector):
        raise BadSetting(f"selector is {selector!r}: it must be a function that returns a queue")
    timeout_ms = None if timeout is None else duration_ms(timeout)
    return SendOptions(_QUEUE.check("queue", queue), selector, key, timeout_ms)
