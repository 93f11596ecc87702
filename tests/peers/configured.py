"""Our servers with a settings file that a test writes, byte for byte."""

import asyncio
from pathlib import Path

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.java.values import parse_properties
from peers.comet import CometBroker, CometNamesrv
from peers.raw import RawClient


class ConfiguredBroker(CometBroker):
    """`cometmq broker WORDS`; the words name its port, its store and perhaps its file."""

    def __init__(self, folder: Path, *words: str, port: int | None = None) -> None:
        super().__init__(folder, namesrv="", port=port)
        self.words = words

    def _arguments(self) -> list[str]:
        return ["broker", *self.words, *own_settings(self.folder, self.port)]


class ConfiguredNamesrv(CometNamesrv):
    """`cometmq namesrv WORDS`."""

    def __init__(self, folder: Path, *words: str, port: int | None = None) -> None:
        super().__init__(folder, port=port)
        self.words = words

    def _arguments(self) -> list[str]:
        kv = f"kvConfigPath={self.folder}/kv.json"
        return ["namesrv", *self.words, "bindAddress=127.0.0.1", f"listenPort={self.port}", kv]


def own_settings(folder: Path, port: int) -> list[str]:
    """What a broker of a test needs on its command line."""
    return [
        "bindAddress=127.0.0.1", "brokerIP1=127.0.0.1", f"listenPort={port}", "namesrvAddr=",
        f"storePathRootDir={folder}/store", "mappedFileSizeCommitLog=1048576",
        "maxHashSlotNum=1000", "maxIndexNum=4000", "diskMaxUsedSpaceRatio=95",
    ]  # fmt: skip


def ask(address: str, code: int, body: bytes = b"") -> Command:
    """The answer to one request, whatever its code."""

    async def story() -> Command:
        async with RawClient(address) as client:
            return await client.ask_any(code, NoHeader(), body)

    return asyncio.run(story())


def update(server: CometBroker | CometNamesrv, text: str) -> Command:
    """Of its settings, by a request."""
    is_broker = isinstance(server, CometBroker)
    code = RequestCode.UPDATE_BROKER_CONFIG if is_broker else RequestCode.UPDATE_NAMESRV_CONFIG
    return ask(server.address, code, text.encode())


def shown(server: CometBroker | CometNamesrv) -> dict[str, str]:
    """All its settings."""
    is_broker = isinstance(server, CometBroker)
    code = RequestCode.GET_BROKER_CONFIG if is_broker else RequestCode.GET_NAMESRV_CONFIG
    return parse_properties(ask(server.address, code).body.decode())
