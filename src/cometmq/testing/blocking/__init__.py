"""The embedded cluster for tests that do not await."""

from collections.abc import Mapping
from pathlib import Path

from cometmq.blocking.face import Face, calls, waits
from cometmq.testing import embedded as awaited


class EmbeddedCluster(Face[awaited.EmbeddedCluster]):
    """`with EmbeddedCluster() as cluster:`, then any client, of any language, on its name server.

    It runs on a thread of its own, so that a test may wait as it likes.
    """

    def __init__(
        self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(awaited.EmbeddedCluster(folder, settings=settings))

    @property
    def name_server(self) -> str:
        """What clients are given: `host:port`."""
        return self._core.name_server

    @property
    def broker_address(self) -> str:
        """For those who ask the broker itself."""
        return self._core.broker_address

    create_topic = waits(awaited.EmbeddedCluster.create_topic)
    advance = calls(awaited.EmbeddedCluster.advance)
