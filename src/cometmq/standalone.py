"""A name server and a broker in one process: for a laptop, a demonstration, a test."""

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
from cometmq.seams import Clock, Disk, Net
from cometmq.settings.start_settings import Given

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - to be told from one address
BROKER_NAME = "broker-a"
# Files a hundredth the size of a server's: made in a moment, and a laptop keeps its disk.
SMALL_FILES = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
}
DEFAULT_BROKER_PORT = 10911
# Which option of the command line sets what, of each server.
_OPTIONS = {"bindAddress": "--host", "kvConfigPath": "--store", "storePathRootDir": "--store"}
_OF_NAMESRV = _OPTIONS | {"listenPort": "--port"}
_OF_BROKER = _OPTIONS | {"listenPort": "--broker-port"}


class Standalone:
    """`async with Standalone(folder) as cluster:`; `cluster.name_server` is what clients need.

    A port of 0 lets the system choose. `settings` are the broker's, by RocketMQ's names.
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
        net: Net | None = None,
    ) -> None:
        self._folder = folder
        self._host = host
        # Who listens everywhere is reached at an address that leads here.
        self._reached_at = local_ip() if host in _EVERYWHERE else host
        self._port = port
        self._broker_port = broker_port
        self._settings = dict(settings or {})
        self._clock, self._disk, self._net = clock, disk, net
        self._message_clock = message_clock
        self._stack = AsyncExitStack()
        self.broker: Broker
        self.name_server = ""  # host:port, once it runs

    @property
    def broker_address(self) -> str:
        """Where clients find the broker."""
        return f"{self._reached_at}:{self.broker.port}"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:  # what was begun is ended if the rest fails
            with _told_by(_OF_NAMESRV):
                server = await stack.enter_async_context(self._namesrv())
            self.name_server = f"{self._reached_at}:{server.port}"
            with _told_by({key: _OF_BROKER[key] for key in _OF_BROKER.keys() - self._settings}):
                self.broker = await stack.enter_async_context(self._broker())
            self._stack = stack.pop_all()
        return self

    async def create_topic(self, topic: str, queues: int) -> None:
        """With so many queues; clients find it when this returns."""
        await self.broker.create_topic(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        )

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _namesrv(self) -> NameServer:
        home = self._folder / "namesrv"
        values = {"bindAddress": self._host, "listenPort": str(self._port)}
        chosen = namesrv_settings(Given(values), home, self._disk)
        return NameServer(*chosen, clock=self._clock, disk=self._disk, net=self._net)

    def _broker(self) -> Broker:
        values = SMALL_FILES | {
            "bindAddress": self._host,
            "listenPort": str(self._broker_port),
            "brokerName": BROKER_NAME,
            "brokerIP1": self._reached_at,
            "storePathRootDir": str(self._folder / "store"),
            "namesrvAddr": self.name_server,
        }
        chosen = broker_settings(Given(self._settings, file=values), self._disk)
        return Broker(
            *chosen,
            clock=self._clock,
            message_clock=self._message_clock,
            disk=self._disk,
            net=self._net,
        )


@contextmanager
def _told_by(options: Mapping[str, str]) -> Iterator[None]:
    """Who chose something by an option is told of that, not of the setting that it became."""
    try:
        yield
    except BadPlace as error:
        raise type(error)(error.what, options.get(error.setting, error.setting)) from error


def greeting(cluster: Standalone, command: str = "cometmq") -> str:
    """What a person, who typed that command, wants to know of a cluster that has just started."""
    return "\n".join(
        [
            f"cometmq is ready: name server {cluster.name_server}, broker {cluster.broker_address}",
            "  try next:",
            f"    export NAMESRV_ADDR={cluster.name_server}",
            f"    {command} admin topicList",
            f"    {command} demo",
        ]
    )
