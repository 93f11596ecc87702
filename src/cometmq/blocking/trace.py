"""The tracer for code that does not await."""

from collections.abc import Iterable

from cometmq.blocking.face import Face
from cometmq.blocking.session import SharedSession, core_of
from cometmq.client import trace as awaited
from cometmq.client.config import ClientConfig
from cometmq.protocol.names import TRACE_TOPIC


class Tracer(Face[awaited.Tracer]):
    """`cometmq.Tracer`, waited for. Its hooks are for blocking clients, which share its loop."""

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
    def of_sends(self) -> awaited.SendTracing:
        """The hook of producers."""
        return self._core.of_sends

    def of_consumption(self, group: str) -> awaited.ConsumeTracing:
        """The hook of a consumer of this group."""
        return self._core.of_consumption(group)

    @property
    def dropped(self) -> int:
        """Records that were never sent."""
        return self._core.dropped
