"""The embedded cluster for tests without asyncio."""

from collections.abc import Mapping
from pathlib import Path

from cometmq.blocking.face import Face, calls, waits
from cometmq.testing import embedded as awaited
from cometmq.testing.faulty_disk import FaultyDisk


class EmbeddedCluster(Face[awaited.EmbeddedCluster]):
    """A name server and a broker in the process of the test, on a separate thread.

    Use it as `with EmbeddedCluster() as cluster:` and give clients of any language
    `cluster.name_server`. The arguments are those of `cometmq.testing.EmbeddedCluster`.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        disk: FaultyDisk | None = None,
    ) -> None:
        super().__init__(awaited.EmbeddedCluster(folder, settings=settings, disk=disk))

    @property
    def name_server(self) -> str:
        """The address of the name server, `host:port`, for clients."""
        return self._core.name_server

    @property
    def broker_address(self) -> str:
        """The address of the broker, `host:port`."""
        return self._core.broker_address

    def __repr__(self) -> str:
        return repr(self._core)

    create_topic = waits(awaited.EmbeddedCluster.create_topic)
    advance = calls(awaited.EmbeddedCluster.advance)
