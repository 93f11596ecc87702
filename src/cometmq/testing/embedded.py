"""A whole cluster inside a test: real sockets on loopback, a real store in a folder of its own."""

import shutil
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Self

from cometmq.client.fields import Folder, Text, Whole
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.java.values import java_text
from cometmq.standalone import Standalone
from cometmq.testing.hurried_clock import HurriedClock

_TOPIC = Text(blank=False)
_QUEUES = Whole(4, 1, 65_535)


class EmbeddedCluster:
    """`async with EmbeddedCluster() as cluster:`, then any client on `cluster.name_server`.

    The folder is a temporary one, and gone at the end, unless one is given. Time can be put
    forward, for delays and retries that a test does not want to wait for: the broker's, not the
    clients'.
    """

    def __init__(
        self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = Folder().check(
            "folder", folder
        )  # None until it starts, if it is a temporary one
        self._is_temporary = folder is None
        self._settings = _checked(settings)
        self._clock = HurriedClock()
        self._standalone: Standalone | None = None

    @property
    def name_server(self) -> str:
        """What clients are given: `host:port`."""
        return self._running.name_server

    @property
    def broker_address(self) -> str:
        """For those who ask the broker itself."""
        return self._running.broker_address

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Serve from now on."""
        if self._standalone is not None:
            raise Closed("it is started already")
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="cometmq-"))
        clock = self._clock
        self._standalone = Standalone(
            self.folder, settings=self._settings, clock=clock.of_connections, message_clock=clock
        )
        try:
            await self._standalone.__aenter__()
        except BaseException:
            self._end()
            raise

    async def close(self) -> None:
        """Stop, and take a temporary folder away. May be called again."""
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

    def advance(self, time: timedelta | float) -> None:
        """Put the broker's clock forward, by so much or so many seconds."""
        if isinstance(time, timedelta):
            time = time.total_seconds()
        if not isinstance(time, int | float) or isinstance(time, bool) or time < 0:
            raise BadSetting(f"time is {time!r}: it must be a timedelta or seconds, 0 or more")
        self._clock.advance(round(time * 1000))

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic now; else it is made by the first send, with 4 queues."""
        await self._running.create_topic(
            _TOPIC.check("topic", topic), _QUEUES.check("queues", queues)
        )


def _checked(settings: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Names are texts, and values are texts as in a file, numbers or bools."""
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise BadSetting(f"settings is {settings!r}: it must be a mapping of names to texts")
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str | int):
            raise BadSetting(
                f"settings has {name!r}: {value!r}: a name must be a text, and a value a text,"
                " a whole number or a bool"
            )
    return {name: java_text(value) for name, value in settings.items()}
