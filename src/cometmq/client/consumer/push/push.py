"""The push consumer: messages come to a listener of the user's, as soon as they are there."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Self, TypeVar

from cometmq.client.closing import Closing
from cometmq.client.config import ClientConfig, PushConsumerConfig, config_of
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import ConsumeHook, Handler, Listener
from cometmq.client.consumer.push.push_member import PushMember
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.bodies.heartbeat import MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import ALL

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Handler)


class PushConsumer:
    """A member of a group, which shares the queues of its topics among its members.

        async with PushConsumer("group", "127.0.0.1:9876") as consumer:
            consumer.subscribe("topic", "tagA || tagB")
            consumer.listen(handler)
            await wait_until_the_program_ends()

    Messages are consumed at least once: what was given to the listener when a process or a network
    dies, or a queue goes to another member, may come again. What the listener returns or raises
    decides what becomes of a message: see `cometmq.client.consumer.shared.outcomes`.
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
        # Offsets of a broadcasting consumer are filed under its name, which must stay.
        keep_name = self.config.message_model is MessageModel.BROADCASTING
        self._lease = lease(name_servers, client, session, keep_name=keep_name)
        self._session = self._lease.session
        namespace = self._session.config.namespace
        self._subscriptions = Subscriptions(namespace, self._session.clock)
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
        """Who it is to brokers and operators."""
        return self._session.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """Those of its topics that are ours just now, in order."""
        return self._member.queues if self._member is not None else []

    def subscribe(self, topic: str, tags: str = ALL, *, sql: str | None = None) -> None:
        """Want messages of a topic: all, or those with one of these tags, or that sql is true of.

        May be called at any time; a second call for a topic replaces the first. All members of a
        group must subscribe to the same. BadSetting, if topic or expression cannot be.
        """
        self._check_open()
        wire_topic = self._subscriptions.add(topic, tags, sql)
        if self._member is not None:
            self._member.subscribed(wire_topic)

    def unsubscribe(self, topic: str) -> None:
        """Want nothing of a topic any more; its queues are the others'."""
        wire_topic = self._subscriptions.remove(topic)
        if self._member is not None and wire_topic is not None:
            self._member.unsubscribed(wire_topic)

    def listen(
        self, handler: Handler, *, orderly: bool = False, manual_commit: bool = False
    ) -> None:
        """Have this function called with messages: it is the consumer's only one.

        It is given a message; with `consume_message_batch_max_size` above 1, always a list of
        messages of one queue. A plain function runs in one of `consume_threads` threads, a
        coroutine function on the loop, so many at a time.

        With `orderly`, messages of a queue come one call after the other, in their order, in one
        member of the group at a time. With `manual_commit`, they count as consumed when the
        listener returns `Commit()`; until then they are held, and count against the flow limits.

        The consumer joins its group once it is started and has a listener.
        """
        self._check_open()
        if self._listener is not None:
            if self._listener.handler is handler:
                return
            raise BadSetting(
                "this consumer has a listener: look at message.topic in it,"
                " or make another consumer of another group"
            )
        self._listener = Listener(
            handler,
            self._session.clock,
            batch_max=self.config.consume_message_batch_max_size,
            orderly=orderly,
            manual_commit=manual_commit,
        )
        if self._is_started:
            self._begin()

    def on(
        self, topic: str, tags: str = ALL, *, sql: str | None = None, orderly: bool = False
    ) -> Callable[[H], H]:
        """`subscribe` and `listen` as a decorator; stack it on one function for several topics."""

        def register(handler: H) -> H:
            self.subscribe(topic, tags, sql=sql)
            self.listen(handler, orderly=orderly)
            return handler

        return register

    def add_hook(self, hook: ConsumeHook) -> None:
        """Tell it of each call of the listener, before and after."""
        self._hooks.add(hook)

    async def start(self) -> None:
        """Begin. With a listener it joins its group now; Refused, if a broker objects.

        Where it fails, the consumer is closed.
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
        """Return when it has joined its group, and the queues of its topics were shared out once.

        A topic that is not there is waited for. It raises what kept it from joining.
        """
        if self._joining is None or self._listener is None:
            raise BadSetting("a consumer is ready after start() and listen()")
        try:
            await asyncio.shield(self._joining)
        except asyncio.CancelledError:
            if self._closing.has_begun and self._joining.cancelled():  # it was, and not who waits
                self._check_open()
            raise
        assert self._member is not None, "made before it joins"
        await self._member.is_ready.wait()
        self._check_open()

    def suspend(self) -> None:
        """Pull no more until `resume`; what was pulled is still consumed."""
        self._is_suspended = True
        if self._member is not None:
            self._member.suspend()

    def resume(self) -> None:
        """Pull again."""
        self._is_suspended = False
        if self._member is not None:
            self._member.resume()

    async def close(self) -> None:
        """Leave the group; what runs is waited for, within bounds, and offsets are kept.

        Calls that have begun get three seconds. With `await_termination_when_shutdown`, all that
        was pulled is consumed within that time.
        """
        await self._closing.run(self._end)

    async def _end(self) -> None:
        try:
            if self._joining is not None:
                self._joining.cancel()
                await asyncio.gather(self._joining, return_exceptions=True)
            if self._member is not None:
                await self._member.leave()
        finally:
            await self._lease.end()

    def _begin(self) -> "asyncio.Task[None]":
        if self._joining is None:
            self._joining = asyncio.get_running_loop().create_task(self._join())
            self._joining.add_done_callback(_log_failure)
        return self._joining

    async def _join(self) -> None:
        assert self._listener is not None, "nobody joins without one"
        self._member = PushMember(
            self._session, self.config, self._listener, self._subscriptions, self._hooks
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
