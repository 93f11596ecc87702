"""The push consumer: messages are delivered to functions of the user as soon as they arrive."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Self, TypeVar

from cometmq.client.closing import Closing
from cometmq.client.config import ClientConfig, PushConsumerConfig, config_of
from cometmq.client.consumer.push.handlers import Handler, Handlers, MessageHandler
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import ConsumeHook, Listener
from cometmq.client.consumer.push.push_member import PushMember
from cometmq.client.consumer.shared.event_source import EventSource
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.durations import Timeout, duration_ms
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.bodies.heartbeat import MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import ALL

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Handler)


class PushConsumer(EventSource):
    """Deliver messages to functions, as a member of a consumer group.

    The members of a group share the queues of its topics. Register functions, then start:

        consumer = PushConsumer("billing", "127.0.0.1:9876")

        @consumer.on("orders", tags="paid")
        async def charge(message):
            print(message.message_id, message.body)

        async with consumer:
            await asyncio.Event().wait()

    A coroutine function runs on the event loop, a plain function in a thread. What it returns or
    raises decides what happens to the message:

    - It returns None or `Ack()`: the message is consumed.
    - It raises, or returns `Retry()`: the message is redelivered later.
    - `Suspend`, `Commit` and `Rollback` are for functions that are registered with `orderly=True`.

    Delivery is at least once: messages that a function has when its process or network fails, or
    when a queue moves to another member, are redelivered. `Dedup` makes a function idempotent.

    Args:
        group: The consumer group, or a `PushConsumerConfig`.
        name_servers: One or more `host:port` addresses; by default those of `NAMESRV_ADDR`.
        client: Settings of the client, instead of `name_servers`.
        session: A session to share with other clients, instead of `name_servers`.

    Raises:
        BadSetting: A setting is invalid.
    """

    def __init__(
        self,
        group: str | PushConsumerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: Session | None = None,
    ) -> None:
        self.config = config_of(PushConsumerConfig, group)
        # The offset file of a broadcasting consumer is named after its instance name.
        keep_name = self.config.message_model is MessageModel.BROADCASTING
        self._lease = lease(name_servers, client, session, keep_name=keep_name)
        super().__init__(self._lease.session)
        namespace = self._session.config.namespace
        self._subscriptions = Subscriptions(namespace, self._session.clock)
        self._handlers = Handlers(namespace)
        self._hooks = Hooks()
        self._listener: Listener | None = None
        self._member: PushMember | None = None
        self._joining: asyncio.Task[None] | None = None
        self._is_started = False
        self._closing = Closing()
        self._is_suspended = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The name of this client at brokers and in admin commands."""
        return self._session.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are assigned to this consumer now, sorted."""
        return self._member.queues if self._member is not None else []

    # Functions and subscriptions

    def on(
        self,
        topic: str,
        tags: str = ALL,
        *,
        sql: str | None = None,
        orderly: bool = False,
        manual_commit: bool = False,
    ) -> Callable[[H], H]:
        """Register a function for messages of a topic. Use it as a decorator.

        Several functions may be registered, for different topics, or for different tags of one
        topic. A function without tags receives what no other function of the topic wants. One
        function may be registered several times.

        Register all functions before `start`, or without an `await` in between: messages that no
        registered function wants are acknowledged and skipped.

        Args:
            topic: The topic.
            tags: Tags, separated by `||`; `*` for all messages.
            sql: An SQL92 expression over message properties, instead of tags. Then the topic can
                have no other function.
            orderly: Deliver the messages of a queue one after the other; see `listen`.
            manual_commit: See `listen`.

        Raises:
            BadSetting: The topic, the expression or the function is invalid, another function
                receives these messages, or `orderly` differs from that of another function.
            Closed: The consumer is closed.
        """

        def register(function: H) -> H:
            self._check_open()
            handler = MessageHandler(function, self.config.consume_message_batch_max_size)
            listener = self._make_listener(orderly=orderly, manual_commit=manual_commit)
            self._subscriptions.check(topic, tags, sql)
            self._subscribe(topic, *self._handlers.add(topic, tags, sql, handler))
            self._begin_with(listener)
            return function

        return register

    def subscribe(self, topic: str, tags: str = ALL, *, sql: str | None = None) -> None:
        """Subscribe to a topic, for the function that `listen` registers.

        May be called at any time; a second call for a topic replaces the first. All members of a
        group must have the same subscriptions.

        Args:
            topic: The topic.
            tags: Tags, separated by `||`; `*` for all messages.
            sql: An SQL92 expression over message properties, instead of tags.

        Raises:
            BadSetting: The topic or the expression is invalid.
            Closed: The consumer is closed.
        """
        self._check_open()
        self._subscriptions.check(topic, tags, sql)
        self._subscribe(topic, *self._handlers.subscribe(topic, tags, sql))

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic, and remove its functions."""
        wire_topic = self._subscriptions.remove(topic)
        self._handlers.remove(topic)
        if self._member is not None and wire_topic is not None:
            self._member.unsubscribed(wire_topic)

    def listen(
        self, handler: Handler, *, orderly: bool = False, manual_commit: bool = False
    ) -> None:
        """Register the function for all subscribed messages that have no function of `on`.

        The function receives one message; with `consume_message_batch_max_size` above 1, a list of
        messages of one queue. A plain function runs in one of `consume_threads` threads, a
        coroutine function on the loop, with as many calls at a time.

        The consumer joins its group when it is started and has a function.

        Args:
            handler: A plain function or a coroutine function.
            orderly: Deliver the messages of a queue one call after the other, in their order, in
                one member of the group at a time.
            manual_commit: With `orderly`, messages count as consumed when the function returns
                `Commit()`. Until then they stay in memory and count against the flow limits.

        Raises:
            BadSetting: The function cannot be called with one argument, or another one is
                registered.
            Closed: The consumer is closed.
        """
        self._check_open()
        registered = MessageHandler(handler, self.config.consume_message_batch_max_size)
        listener = self._make_listener(orderly=orderly, manual_commit=manual_commit)
        self._handlers.set_default(registered)
        self._begin_with(listener)

    def add_hook(self, hook: ConsumeHook) -> None:
        """Call `hook.before` and `hook.after` for each call of a function."""
        self._hooks.add(hook)

    # Life

    async def start(self) -> None:
        """Start; join the group if a function is registered.

        If it fails, the consumer is closed.

        Raises:
            Refused: A broker rejects a subscription.
            Closed: The consumer or its session is closed.
        """
        self._check_open()
        self._session.check_open()
        self._is_started = True
        if self._listener is not None:
            try:
                await self._begin()
            except BaseException:
                await self.close()
                raise

    async def ready(self) -> None:
        """Wait until the first rebalance has assigned the queues of all topics.

        It waits for topics that do not exist yet.

        Raises:
            BadSetting: The consumer is not started, or has no function.
            Refused: A broker rejects a subscription.
            Closed: The consumer is closed.
        """
        if self._joining is None or self._listener is None:
            raise BadSetting("a consumer is ready after start() and listen()")
        try:
            await asyncio.shield(self._joining)
        except asyncio.CancelledError:
            if self._closing.has_begun and self._joining.cancelled():  # and not this caller
                self._check_open()
            raise
        assert self._member is not None, "made before it joins"
        await self._member.is_ready.wait()
        self._check_open()

    def suspend(self) -> None:
        """Stop pulling until `resume`. Messages that were pulled are still delivered."""
        self._is_suspended = True
        if self._member is not None:
            self._member.suspend()

    def resume(self) -> None:
        """Pull again after `suspend`."""
        self._is_suspended = False
        if self._member is not None:
            self._member.resume()

    async def close(self, *, drain: Timeout = None) -> None:
        """Shut down gracefully: finish messages, commit offsets, leave the group.

        By default, running calls of functions get 3 seconds; messages that were pulled but not
        delivered are redelivered to other members. With `drain`, all pulled messages are consumed,
        for up to that time. Calls that still run afterwards are abandoned and their messages are
        redelivered. Releasing the queues takes up to 3 seconds more.

        Repeated calls wait for the first. Cancelling the caller does not interrupt it.

        Args:
            drain: Seconds or a timedelta; by default `await_termination_when_shutdown`.

        Raises:
            BadSetting: `drain` is negative, or not a duration.
        """
        given = self.config.await_termination_when_shutdown if drain is None else drain
        await self._closing.run(partial(self._end, duration_ms(given, "drain")))

    # Internals

    def _make_listener(self, *, orderly: bool, manual_commit: bool) -> Listener:
        if self._listener is not None:
            self._listener.check_same(orderly=orderly, manual_commit=manual_commit)
            return self._listener
        return Listener(
            self._handlers,
            self._session.clock,
            batch_max=self.config.consume_message_batch_max_size,
            orderly=orderly,
            manual_commit=manual_commit,
        )

    def _subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        wire_topic = self._subscriptions.add(topic, tags, sql)
        if self._member is not None:
            self._member.subscribed(wire_topic)

    def _begin_with(self, listener: Listener) -> None:
        self._listener = listener
        if self._is_started:
            self._begin()

    async def _end(self, drain_ms: int) -> None:
        try:
            if self._joining is not None:
                self._joining.cancel()
                await asyncio.gather(self._joining, return_exceptions=True)
            if self._member is not None:
                await self._member.leave(drain_ms)
        finally:
            await self._lease.end()

    def _begin(self) -> "asyncio.Task[None]":
        if self._joining is None:
            self._joining = asyncio.get_running_loop().create_task(self._join())
            self._joining.add_done_callback(_log_failure)
        return self._joining

    async def _join(self) -> None:
        assert self._listener is not None, "it joins when it has a function"
        self._member = PushMember(
            self._session,
            self.config,
            self._listener,
            self._subscriptions,
            self._hooks,
            self._events,
        )
        if self._is_suspended:
            self._member.suspend()
        await self._member.join()

    def _check_open(self) -> None:
        if self._closing.has_begun:
            raise Closed("this consumer is closed: make another")


def _log_failure(joining: "asyncio.Task[None]") -> None:
    if not joining.cancelled() and (error := joining.exception()) is not None:
        log.error("a consumer could not join its group: %s", error)
