"""The push consumer for code that does not await."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from cometmq.blocking.face import Face, calls, waits
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client.config import ClientConfig, PushConsumerConfig
from cometmq.client.consumer.push import push as awaited
from cometmq.client.consumer.push.listener import Handler
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import ALL

H = TypeVar("H", bound=Handler)


class PushConsumer(Face[awaited.PushConsumer]):
    """`cometmq.PushConsumer`, waited for. Its listener is a plain function, run in threads."""

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
    add_hook = calls(awaited.PushConsumer.add_hook)
    ready = waits(awaited.PushConsumer.ready)
    suspend = calls(awaited.PushConsumer.suspend)
    resume = calls(awaited.PushConsumer.resume)

    @property
    def client_id(self) -> str:
        """Who it is to brokers and operators."""
        return self._core.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """Those of its topics that are ours just now, in order."""
        return _queues(self)

    def on(
        self, topic: str, tags: str = ALL, *, sql: str | None = None, orderly: bool = False
    ) -> Callable[[H], H]:
        """`subscribe` and `listen` as a decorator; stack it on one function for several topics."""

        def register(handler: H) -> H:
            self.subscribe(topic, tags, sql=sql)
            self.listen(handler, orderly=orderly)
            return handler

        return register


_queues = calls(lambda core: list(core.queues))
