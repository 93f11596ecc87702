"""A name server and a broker in one process, for laptops, demonstrations and tests."""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Self

from cometmq.broker.broker import Broker
from cometmq.broker.startup import broker_settings
from cometmq.errors import BadPlace
from cometmq.local_address import local_ip
from cometmq.namesrv.server import NameServer
from cometmq.namesrv.startup import namesrv_settings
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.seams import Clock, Disk
from cometmq.settings.start_settings import Given

LOOPBACK = "127.0.0.1"
_ALL_INTERFACES = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
BROKER_NAME = "broker-a"
# Files of a hundredth of the default size: quick to create, and small on a laptop's disk.
SMALL_FILES = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
}
DEFAULT_BROKER_PORT = 10911
# Settings of the two servers, and the options of the command line that set them.
_OPTIONS = {"bindAddress": "--host", "kvConfigPath": "--store", "storePathRootDir": "--store"}
_OF_NAMESRV = _OPTIONS | {"listenPort": "--port"}
_OF_BROKER = _OPTIONS | {"listenPort": "--broker-port"}


class Standalone:
    """`async with Standalone(folder) as cluster:`; clients connect to `cluster.name_server`.

    With port 0 the system chooses a free one. `settings` are those of the broker, under RocketMQ's
    names. `message_clock` decides when messages are stored, due and expired; it is `clock` by
    default.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        broker_port: int = 0,
        settings: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        message_clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._folder = folder
        self._host = host
        self._advertised = local_ip() if host in _ALL_INTERFACES else host
        self._port = port
        self._broker_port = broker_port
        self._settings = dict(settings or {})
        self._clock, self._message_clock = clock, message_clock
        self._disk = disk
        self._stack = AsyncExitStack()
        self.broker: Broker
        self.name_server = ""  # host:port, set when it runs

    @property
    def broker_address(self) -> str:
        """The host:port that the broker advertises."""
        return f"{self._advertised}:{self.broker.port}"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:  # closes the name server if the broker fails
            with _naming_options(_OF_NAMESRV):
                server = await stack.enter_async_context(self._namesrv())
            self.name_server = f"{self._advertised}:{server.port}"
            options = {key: _OF_BROKER[key] for key in _OF_BROKER.keys() - self._settings}
            with _naming_options(options):
                self.broker = await stack.enter_async_context(self._broker())
            self._stack = stack.pop_all()
        return self

    async def create_topic(self, topic: str, queues: int) -> None:
        """Create a topic. When this returns, the name server knows its route."""
        await self.broker.create_topic(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        )

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _namesrv(self) -> NameServer:
        home = self._folder / "namesrv"
        values = {"bindAddress": self._host, "listenPort": str(self._port)}
        return NameServer(*namesrv_settings(Given(values), home), clock=self._clock)

    def _broker(self) -> Broker:
        values = SMALL_FILES | {
            "bindAddress": self._host,
            "listenPort": str(self._broker_port),
            "brokerName": BROKER_NAME,
            "brokerIP1": self._advertised,
            "storePathRootDir": str(self._folder / "store"),
            "namesrvAddr": self.name_server,
        }
        chosen = broker_settings(Given(self._settings, file=values))
        return Broker(
            *chosen, clock=self._clock, message_clock=self._message_clock, disk=self._disk
        )


@contextmanager
def _naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Make errors name the option of the command line instead of the setting that it sets."""
    try:
        yield
    except BadPlace as error:
        raise type(error)(error.what, options.get(error.setting, error.setting)) from error


def greeting(cluster: Standalone, command: str = "cometmq") -> str:
    """The first lines for a user who has just started a cluster with `command`."""
    return "\n".join(
        [
            f"cometmq is ready: name server {cluster.name_server}, broker {cluster.broker_address}",
            "  try next:",
            f"    export NAMESRV_ADDR={cluster.name_server}",
            f"    {command} admin topicList",
            f"    {command} demo",
        ]
    )
