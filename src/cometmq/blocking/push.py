"""The push consumer for code without asyncio."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from cometmq.blocking.face import Face, calls, waits
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, PushConsumerConfig
from cometmq.client.consumer.push import push as awaited
from cometmq.client.consumer.push.handlers import Handler
from cometmq.client.durations import Timeout
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import ALL

H = TypeVar("H", bound=Handler)


class PushConsumer(Face[awaited.PushConsumer]):
    """Deliver messages to functions, as a member of a consumer group; see `cometmq.PushConsumer`.

    Functions are plain functions, which run in threads. Callbacks of `on_assigned`, `on_revoked`
    and `on_connection` run on the client's event loop: they must not block, nor call this consumer.

        consumer = PushConsumer("billing", "127.0.0.1:9876")

        @consumer.on("orders", tags="paid")
        def charge(message):
            print(message.message_id, message.body)

        with consumer:
            threading.Event().wait()
    """

    def __init__(
        self,
        group: str | PushConsumerConfig,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: SharedSession | None = None,
    ) -> None:
        super().__init__(
            awaited.PushConsumer(group, name_servers, client=client, session=core_of(session))
        )

    subscribe = calls(awaited.PushConsumer.subscribe)
    unsubscribe = calls(awaited.PushConsumer.unsubscribe)
    listen = calls(awaited.PushConsumer.listen)
    on_assigned = calls(awaited.PushConsumer.on_assigned)
    on_revoked = calls(awaited.PushConsumer.on_revoked)
    on_connection = calls(awaited.PushConsumer.on_connection)
    add_hook = calls(awaited.PushConsumer.add_hook)
    ready = waits(awaited.PushConsumer.ready)
    suspend = calls(awaited.PushConsumer.suspend)
    resume = calls(awaited.PushConsumer.resume)

    def close(self, *, drain: Timeout = None) -> None:
        """Shut down gracefully; see `cometmq.PushConsumer.close`."""
        self._loop.wait(self._core.close(drain=drain))

    @property
    def client_id(self) -> str:
        """The name of this client at brokers and in admin commands."""
        return self._core.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are assigned to this consumer now, sorted."""
        return _queues(self)

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

        See `cometmq.PushConsumer.on`. Register all functions before the consumer is started.
        """

        def register(function: H) -> H:
            _register(
                self, topic, tags, function, sql=sql, orderly=orderly, manual_commit=manual_commit
            )
            return function

        return register


_queues = calls(lambda core: list(core.queues))
_register = calls(lambda core, topic, tags, function, **how: core.on(topic, tags, **how)(function))
