"""A name server and a broker inside a test: real sockets on loopback, a real store."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cometmq.client.durations import Duration, duration_ms
from cometmq.client.fields import Folder, Text, Whole
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.java.values import java_text
from cometmq.standalone import Standalone
from cometmq.testing.faulty_disk import FaultyDisk
from cometmq.testing.hurried_clock import HurriedClock

_TOPIC = Text(blank=False)
_QUEUES = Whole(4, 1, 65_535)


class EmbeddedCluster:
    """A name server and a broker in the process of the test.

    Use it as `async with EmbeddedCluster() as cluster:` and give clients `cluster.name_server`.
    `advance` moves the broker's clock, so that tests need not wait for delays and retries.

    Args:
        folder: Folder of the store, which is kept. The default is a temporary folder, which is
            deleted when the cluster is closed.
        settings: Settings of the broker, by RocketMQ's names.
        disk: The disk of the broker, for example a `FaultyDisk`. The default is the file system.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        disk: FaultyDisk | None = None,
    ) -> None:
        self.folder = Folder().check("folder", folder)  # a temporary one: None until start()
        self._is_temporary = folder is None
        self._settings = _checked(settings)
        self._clock = HurriedClock()
        self._disk = disk
        self._standalone: Standalone | None = None

    @property
    def name_server(self) -> str:
        """The address of the name server, `host:port`, for clients."""
        return self._running.name_server

    @property
    def broker_address(self) -> str:
        """The address of the broker, `host:port`."""
        return self._running.broker_address

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start both servers. Raises Closed if they are already started."""
        if self._standalone is not None:
            raise Closed("the cluster is already started")
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="cometmq-"))
        clock = self._clock
        self._standalone = Standalone(
            self.folder,
            settings=self._settings,
            clock=clock.of_connections,
            message_clock=clock,
            disk=self._disk,
        )
        try:
            await self._standalone.__aenter__()
        except BaseException:
            self._end()
            raise

    async def close(self) -> None:
        """Stop both servers and delete a temporary folder. Further calls do nothing."""
        if self._standalone is None:
            return
        try:
            await self._standalone.__aexit__()
        finally:
            self._end()

    def _end(self) -> None:
        self._standalone = None
        if self._is_temporary and self.folder is not None:
            shutil.rmtree(self.folder)
            self.folder = None

    @property
    def _running(self) -> Standalone:
        if self._standalone is None:
            raise Closed("the cluster is not started: use `async with`, or await start()")
        return self._standalone

    def __repr__(self) -> str:
        state = f"at {self.name_server}" if self._standalone is not None else "not started"
        return f"<EmbeddedCluster {state}>"

    def advance(self, time: Duration) -> None:
        """Advance the broker's clock by a number of seconds or a timedelta.

        Delayed messages, retries and transaction checks become due as if that time had passed.
        Clocks of clients do not change.
        """
        self._clock.advance(duration_ms(time, "time"))

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic. Without this call, the first send creates it with 4 queues."""
        await self._running.create_topic(
            _TOPIC.check("topic", topic), _QUEUES.check("queues", queues)
        )


def _checked(settings: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Check that names are strings and values are strings, integers or bools."""
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise BadSetting(f"settings is {settings!r}: it must be a mapping of names to texts")
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str | int):
            raise BadSetting(
                f"settings has {name!r}: {value!r}: a name must be a string, and a value a string,"
                " a whole number or a bool"
            )
    return {name: java_text(value) for name, value in settings.items()}
