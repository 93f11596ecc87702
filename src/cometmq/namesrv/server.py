"""A name server: builds the parts, listens, expires brokers, stops."""

import asyncio
import logging
from pathlib import Path

from cometmq.disk import RealDisk
from cometmq.namesrv.config import UPDATE_RULES, NamesrvConfig
from cometmq.namesrv.handlers import build_routes
from cometmq.namesrv.kv_table import KvTable
from cometmq.namesrv.route_table import RouteTable
from cometmq.remoting.dispatch import Dispatcher, Link
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.server import Server
from cometmq.seams import Clock, Disk, Net, RealClock, RealNet
from cometmq.settings.live_settings import LiveSettings, SettingsFile
from cometmq.settings.settings import Settings
from cometmq.settings.unused_settings import FixedServerConfig, IgnoredServerConfig

log = logging.getLogger(__name__)


class NameServer:
    """`async with NameServer(config) as server:` runs one; `server.port` is where it listens."""

    def __init__(
        self,
        config: NamesrvConfig,
        unused: tuple[Settings, ...] = (),  # settings that it stores and shows
        file: SettingsFile | None = None,  # for changes; else configStorePath
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        net: Net | None = None,
    ) -> None:
        self._config = config
        self._clock = clock or RealClock()
        disk = disk or RealDisk()
        self._table: RouteTable[Link] = RouteTable()
        kv = KvTable(disk, Path(config.kv_config_path))
        unused = unused or (IgnoredServerConfig(), FixedServerConfig())
        file = file or SettingsFile(Path(config.config_store_path))
        self._settings = live = LiveSettings((config, *unused), UPDATE_RULES, file, disk)
        limits = config.limits
        routes = build_routes(self._table, kv, live, self._clock)
        self._dispatcher = Dispatcher(routes, Lanes(limits.lane_max, clock=self._clock))
        self._server = Server(
            self._clock, net or RealNet(), limits=limits, tls=config.tls, on_close=self._link_closed
        )
        self._expiry: asyncio.Task[None] | None = None
        self.port = 0

    async def __aenter__(self) -> "NameServer":
        self.port = self._server.listen(
            self._config.bind_address, self._config.listen_port, self._dispatcher
        )
        self._expiry = asyncio.get_running_loop().create_task(self._expire())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.gather(self._expiry, return_exceptions=True)
        await self._server.close()

    def _link_closed(self, link: Link) -> None:
        for address in self._table.drop(link):
            log.info("broker at %s is gone: its connection closed", address)

    async def _expire(self) -> None:
        while True:
            config = self._settings.now(NamesrvConfig)
            await self._clock.sleep_ms(config.scan_not_active_broker_interval)
            silence_ms_max = self._settings.now(NamesrvConfig).broker_channel_expired_time
            for address, link in self._table.expire(self._clock.monotonic_ms(), silence_ms_max):
                log.warning("broker at %s is gone: silent for %d ms", address, silence_ms_max)
                link.close()
