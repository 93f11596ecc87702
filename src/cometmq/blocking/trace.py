"""The blocking tracer."""

from collections.abc import Iterable

from cometmq.blocking.face import Face
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client import trace as awaited
from cometmq.client.config import ClientConfig
from cometmq.client.trace_hooks import ConsumeTracing, SendTracing
from cometmq.protocol.names import TRACE_TOPIC


class Tracer(Face[awaited.Tracer]):
    """Sends trace records of blocking producers and consumers to a topic.

    Use it as `with Tracer("127.0.0.1:9876") as tracer:` and add its hooks to blocking clients:
    `producer.add_hook(tracer.of_sends)` and
    `consumer.add_hook(tracer.of_consumption("group"))`. The arguments are those of
    `cometmq.Tracer`.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str] | None = None,
        *,
        client: ClientConfig | None = None,
        session: SharedSession | None = None,
        topic: str = TRACE_TOPIC,
    ) -> None:
        super().__init__(
            awaited.Tracer(name_servers, client=client, session=core_of(session), topic=topic)
        )

    @property
    def of_sends(self) -> SendTracing:
        """The hook for producers."""
        return self._core.of_sends

    def of_consumption(self, group: str) -> ConsumeTracing:
        """Return the hook for a consumer of this group."""
        return self._core.of_consumption(group)

    @property
    def dropped(self) -> int:
        """Records that were not sent because the buffer was full or a send failed."""
        return self._core.dropped
