"""A name server without a socket: its table of routes, called directly."""

import asyncio

import pytest

from cometmq.disk import RealDisk
from cometmq.namesrv.config import UPDATE_RULES, NamesrvConfig
from cometmq.namesrv.handlers import build_routes
from cometmq.namesrv.kv_table import KvTable
from cometmq.namesrv.route_table import RouteTable
from cometmq.protocol.codes import VERSION
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.records.hosts import Host
from cometmq.remoting.dispatch import Call, Dispatcher, Reply
from cometmq.remoting.lanes import Lanes
from cometmq.settings.live_settings import LiveSettings
from cometmq.settings.unused_settings import FixedServerConfig, IgnoredServerConfig
from cometmq.testing.clock import ManualClock


class FakeLink:
    """A connection that only knows its peer."""

    peer = Host("127.0.0.1", 1)


class Desk:
    """Asks the dispatcher as a connection would."""

    def __init__(self, folder):
        self.config = NamesrvConfig(
            kv_config_path=str(folder / "kvConfig.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )
        self.clock = ManualClock()
        self.live = LiveSettings(
            (self.config, IgnoredServerConfig(), FixedServerConfig()),
            UPDATE_RULES,
            folder / "namesrv.properties",
            RealDisk(),
        )
        self.kv = KvTable(RealDisk(), folder / "kvConfig.json")
        self.table = RouteTable()
        self.routes = build_routes(self.table, self.kv, self.live, self.clock)
        self._dispatcher = Dispatcher(self.routes, Lanes(10))
        self.link = FakeLink()

    def ask(self, code, header=None, body=b"", version=VERSION):
        command = Command(code=code, version=version, fields=write_header(header), body=body)
        outcome = self._dispatcher.answer(Call(command, self.link, 0))
        return outcome if isinstance(outcome, Reply) else asyncio.run(_awaited(outcome))


async def _awaited(outcome):
    return await outcome


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)
