"""A broker: builds the parts, wires them, starts and stops them in order; no behaviour."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig, BrokerRole
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.delivery.delay_offsets import DelayOffsets
from cometmq.broker.delivery.half_queue import HalfQueue
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.delivery.transaction_checks import TransactionChecks
from cometmq.broker.delivery.transactions import Transactions
from cometmq.broker.filtering.bit_filters import BitFilters, conditions_of
from cometmq.broker.filtering.consumer_filters import ConsumerFilters
from cometmq.broker.filtering.filters import Filters
from cometmq.broker.handlers.routes import build_routes, lane_limits
from cometmq.broker.intake import Intake
from cometmq.broker.notices import Notices
from cometmq.broker.page_cache import PageCache
from cometmq.broker.parts import Parts
from cometmq.broker.registration import Registration
from cometmq.broker.startup import CHANGES_FILE, telling_where
from cometmq.broker.statistics.stats import SAMPLE_MS, Statistics
from cometmq.broker.statistics.store_facts import StoreFacts
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.identity import Identity, identity_of
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.broker.tables.queue_locks import QueueLockTable
from cometmq.broker.tables.topics import TopicTable
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.disk import RealDisk
from cometmq.errors import BadSetting, CannotListen, StoreFailed
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.remoting.channel import Channel
from cometmq.remoting.dispatch import Dispatcher, vip_routes
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.pool import Pool
from cometmq.remoting.server import Server
from cometmq.seams import Clock, Disk, Net, RealClock, RealNet
from cometmq.settings.live_settings import LiveSettings, SettingsFile
from cometmq.settings.settings import Settings
from cometmq.settings.unused_settings import FixedBrokerConfig, IgnoredBrokerConfig
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles
from cometmq.store.message_store import MessageStore

log = logging.getLogger(__name__)

_VIP_BELOW = 2  # the second port is so much below the first
_PORTS_TRIED_MAX = 50  # when the system is to choose, until both are free
_LOOK_FOR_SILENT_MS = 10_000
_SAVE_CONDITIONS_MS = 10_000


class Broker:
    """`async with Broker(config, store_config) as broker:`; `broker.port` is where it listens."""

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        unused: tuple[Settings, ...] = (),  # settings that it stores and shows
        file: SettingsFile | None = None,  # for changes; else brokerConfigPath, or in the store
        *,
        clock: Clock | None = None,
        message_clock: Clock | None = None,  # when they are stored, due, too old; else the same
        disk: Disk | None = None,
        net: Net | None = None,
    ) -> None:
        if config.broker_role is BrokerRole.SLAVE:
            raise BadSetting("brokerRole=SLAVE: this version has masters only")
        if config.acl_enable:
            raise BadSetting("aclEnable=true: this version has no access control")
        self._config = config
        self._store_config = store_config
        self._clock = clock or RealClock()
        self._message_clock = message_clock or self._clock
        self._disk = disk or RealDisk()
        net = net or RealNet()
        unused = unused or (IgnoredBrokerConfig(), FixedBrokerConfig())
        path = config.broker_config_path or f"{store_config.store_path_root_dir}/{CHANGES_FILE}"
        self._settings = LiveSettings(
            (config, store_config, *unused), UPDATE_RULES, file or Path(path), self._disk
        )
        self._server = Server(
            self._clock, net, limits=config.limits, tls=config.tls, on_close=self._link_closed
        )
        self._pool = Pool(self._clock, net, Dispatcher({}, Lanes(0)), tls=config.client_tls)
        self._background = Background(self._clock)
        self._clients = Clients()
        self._arrivals = Arrivals(self._clock)
        self._stack = AsyncExitStack()
        self._conditions: ConsumerFilters | None = None  # of SQL92, if queues have extensions
        self._notices: Notices
        self.parts: Parts
        self.port = 0

    async def __aenter__(self) -> "Broker":
        async with AsyncExitStack() as stack:  # what was begun is ended if the rest fails
            stack.push_async_callback(self._pool.close)
            stack.push_async_callback(self._server.close)
            main, vip = self._bind()
            self.port = int(main.getsockname()[1])
            identity = identity_of(self._config, self.port)
            levels = DelayLevels(self._config.message_delay_level)
            with telling_where(self._store_config):
                self._conditions = conditions_of(
                    self._config, self._store_config, self._disk, self._message_clock
                )
                store = await stack.enter_async_context(self._store(identity, levels))
                self.parts = parts = self._build(identity, levels, store)
                self._follow_settings(parts)
                parts.schedule.load()
                parts.transactions.load()
            stack.push_async_callback(self._save)
            stack.push_async_callback(self._background.close)
            routes = build_routes(parts)
            self._server.serve(main, Dispatcher(routes, parts.lanes))
            self._server.serve(vip, Dispatcher(vip_routes(routes), parts.lanes))
            stack.push_async_callback(self._stop_serving)
            self._start_what_repeats(parts)
            stack.push_async_callback(parts.registration.leave)
            await parts.registration.start()
            self._stack = stack.pop_all()
        log.info("broker %s at %s serves", identity.name, identity.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def create_topic(self, topic: TopicConfig) -> None:
        """Have it, and return when the name servers know."""
        self.parts.topics.put(topic)
        await self.parts.registration.register(forced=True)

    # Parts

    def _bind(self) -> tuple[socket.socket, socket.socket]:
        """The two ports, one below the other by two."""
        host, port = self._config.bind_address, self._config.listen_port
        if 0 < port <= _VIP_BELOW:
            raise CannotListen(f"port {port} has none {_VIP_BELOW} below it", "listenPort")
        for _ in range(_PORTS_TRIED_MAX):
            main = self._server.bind(host, port)
            try:
                below = int(main.getsockname()[1]) - _VIP_BELOW
                return main, self._server.bind(host, below)
            except CannotListen:
                if port:
                    raise
                main.close()
        raise CannotListen(f"no two free ports on {host}", "listenPort")

    def _filters(self, store: MessageStore) -> Filters:
        conditions = self._conditions
        if conditions is None or not self._config.enable_calc_filter_bit_map:
            return Filters(self._clients, self._settings)
        conditions.newest_ms = max(conditions.newest_ms, store.recovered.last_stored_ms)
        return BitFilters(self._clients, self._settings, conditions)

    def _store(self, identity: Identity, levels: DelayLevels) -> MessageStore:
        coder = levels.unit_code
        return MessageStore(
            self._store_config,
            self._disk,
            self._message_clock,
            identity.host,
            announce=self._arrivals.announce,
            coder=coder if self._conditions is None else self._conditions.extended(coder),
        )

    def _build(self, identity: Identity, levels: DelayLevels, store: MessageStore) -> Parts:
        settings, clock, disk = self._settings, self._clock, self._disk
        message_clock = self._message_clock
        folder = Path(self._store_config.store_path_root_dir) / "config"
        topics = TopicTable(disk, folder / "topics.json", clock, settings)
        groups = GroupTable(disk, folder / "subscriptionGroup.json", clock, settings)
        offsets = ConsumerOffsets(disk, folder / "consumerOffset.json")
        locks = QueueLockTable(disk, folder / "queueLocks.json")
        for table in (topics, groups, offsets):
            table.load()
        locks.load(clock.monotonic_ms())
        stats = Statistics(clock, identity.cluster)
        intake = Intake(store, levels, message_clock, identity, stats)
        self._notices = Notices(self._clients, groups, settings, self._background)
        return Parts(
            identity=identity,
            settings=settings,
            clock=clock,
            topics=topics,
            registration=Registration(self._pool, topics, identity, settings, self._background),
            groups=groups,
            offsets=offsets,
            clients=self._clients,
            store=store,
            arrivals=self._arrivals,
            levels=levels,
            intake=intake,
            filters=self._filters(store),
            retries=Retries(store, topics, groups, self._clients),
            schedule=Schedule(
                store,
                intake,
                levels,
                DelayOffsets(
                    store, message_clock, self._background, disk, folder / "delayOffset.json"
                ),
                self._arrivals,
                message_clock,
                settings,
                stats,
            ),
            transactions=Transactions(
                store,
                intake,
                HalfQueue(store, offsets, message_clock, self._background),
                topics,
                identity,
                stats,
            ),
            locks=locks,
            notices=self._notices,
            stats=stats,
            facts=StoreFacts(store, StoreFiles.of(self._store_config), disk),
            lanes=Lanes(self._config.limits.lane_max, lane_limits(self._config), clock=clock),
            page_cache=PageCache(),
            started_ms=clock.wall_ms(),
        )

    # Starting and stopping

    def _follow_settings(self, parts: Parts) -> None:
        """Those parts that were given settings, and are not to ask for them at each message."""
        settings = self._settings
        settings.on_change(lambda: parts.store.use(settings.now(StoreConfig)))
        settings.on_change(parts.intake.follow_settings)  # after the store
        settings.on_change(parts.topics.follow_settings)

    def _start_what_repeats(self, parts: Parts) -> None:
        config = parts.settings
        background = self._background
        for table in (parts.topics, parts.groups):
            table.on_change(partial(table.file.save_soon, background))
        parts.schedule.start(background)
        TransactionChecks(
            parts.transactions,
            self._clients,
            self._arrivals,
            self._message_clock,
            config,
            background,
            parts.identity,
        ).start()

        async def save_tables() -> None:
            """Topics and groups are saved when they change; here, if that failed."""
            for table in (parts.offsets, parts.topics, parts.groups, parts.locks):
                await table.file.save()

        async def drop_the_silent() -> None:
            self._drop_the_silent(parts)

        background.every(
            lambda: config.now(BrokerConfig).flush_consumer_offset_interval,
            save_tables,
            "saving tables",
        )
        if self._conditions is not None:
            background.every(
                lambda: _SAVE_CONDITIONS_MS,
                partial(self._save_conditions, self._conditions),
                "saving filters",
            )
        background.every(lambda: SAMPLE_MS, parts.stats.sample, "sampling statistics")
        background.every(lambda: _LOOK_FOR_SILENT_MS, drop_the_silent, "looking for the silent")

    async def _save_conditions(self, conditions: ConsumerFilters) -> None:
        kept_ms = self._settings.now(BrokerConfig).filter_data_clean_time_span
        conditions.look_after(self._clients, kept_ms)
        await conditions.file.save()

    def _drop_the_silent(self, parts: Parts) -> None:
        now_ms = self._clock.monotonic_ms()
        parts.locks.forget_expired(now_ms)
        for link in self._clients.silent(now_ms):
            log.warning("client at %s is gone: silent too long", link.peer)
            link.close()

    async def _stop_serving(self) -> None:
        """Who waits for a message or for the disk gets his answer, then nobody is served."""
        self._arrivals.end()
        try:
            await self.parts.store.flush()
        except (StoreFailed, OSError) as error:
            log.error("the last sends may be lost: %s", error)
        await asyncio.sleep(0)
        await self._server.close()

    async def _save(self) -> None:
        """All tables: one that cannot be saved does not cost the others."""
        parts = self.parts
        saves = [
            parts.schedule.save,
            parts.transactions.save,
            parts.topics.file.save,
            parts.groups.file.save,
            parts.offsets.file.save,
            parts.locks.file.save,
        ]
        if self._conditions is not None:
            saves.append(self._conditions.file.save)
        for save in saves:
            try:
                await save()
            except OSError as error:
                log.error("a table could not be saved: %s", error)

    def _link_closed(self, channel: Channel) -> None:
        self._notices.groups_changed(self._clients.drop(channel))
