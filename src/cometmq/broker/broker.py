"""A broker: builds the parts, wires them, starts and stops them in order; no behavior."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig, BrokerRole
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.delivery.delay_offsets import DelayOffsets
from cometmq.broker.delivery.delivery import Delivery
from cometmq.broker.delivery.half_queue import HalfQueue
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.delivery.transaction_checks import TransactionChecks
from cometmq.broker.delivery.transactions import Transactions
from cometmq.broker.filtering.bit_filters import conditions_of, filters_of
from cometmq.broker.filtering.consumer_filters import ConsumerFilters
from cometmq.broker.handlers.routes import build_routes, lane_limits
from cometmq.broker.intake import Intake
from cometmq.broker.notices import Notices
from cometmq.broker.page_cache import PageCache
from cometmq.broker.parts import BrokerContext, Parts
from cometmq.broker.ports import bind_ports
from cometmq.broker.registration import Registration
from cometmq.broker.startup import CHANGES_FILE, telling_where
from cometmq.broker.statistics.stats import SAMPLE_MS, Statistics
from cometmq.broker.statistics.store_facts import StoreFacts
from cometmq.broker.storage import Storage
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.identity import Identity, identity_of
from cometmq.broker.tables.tables import Tables
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.disk import RealDisk
from cometmq.errors import BadSetting, StoreFailed
from cometmq.log_event import LogEvent
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.remoting.dispatch import Dispatcher, Link, vip_routes
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

_EXPIRE_MS = 10_000
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
            config = self._config
            main, vip = bind_ports(self._server, config.bind_address, config.listen_port)
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
                parts.delivery.load()
            stack.push_async_callback(self._save)
            stack.push_async_callback(self._background.close)
            routes = build_routes(parts)
            self._server.serve(main, Dispatcher(routes, parts.context.lanes))
            self._server.serve(vip, Dispatcher(vip_routes(routes), parts.context.lanes))
            stack.push_async_callback(self._stop_serving)
            self._start_what_repeats(parts)
            stack.push_async_callback(parts.registration.leave)
            await parts.registration.start()
            self._stack = stack.pop_all()
        log.info(LogEvent("broker serving", broker=identity.name, address=identity.address))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def identity(self) -> Identity:
        """Name, cluster and address, once the broker has started."""
        return self.parts.context.identity

    async def create_topic(self, topic: TopicConfig) -> None:
        """Create a topic and return when the name servers know it."""
        self.parts.tables.topics.put(topic)
        await self.parts.registration.register(forced=True)

    # Parts

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
        folder = Path(self._store_config.store_path_root_dir) / "config"
        tables = Tables(disk, folder, clock, settings, self._clients)
        tables.load()
        lanes = Lanes(self._config.limits.lane_max, lane_limits(self._config), clock=clock)
        stats = Statistics(clock, identity.cluster)
        storage = Storage(
            store,
            Intake(store, levels, self._message_clock, identity, stats),
            self._arrivals,
            StoreFacts(store, StoreFiles.of(self._store_config), disk),
            PageCache(),
        )
        self._notices = Notices(self._clients, tables.groups, settings, self._background)
        return Parts(
            context=BrokerContext(identity, settings, clock, lanes, clock.wall_ms()),
            tables=tables,
            storage=storage,
            delivery=self._delivery(identity, levels, tables, storage, stats),
            filters=filters_of(
                self._clients, settings, self._conditions, store.recovered.last_stored_ms
            ),
            stats=stats,
            registration=Registration(
                self._pool, tables.topics, identity, settings, self._background
            ),
            notices=self._notices,
        )

    def _delivery(
        self,
        identity: Identity,
        levels: DelayLevels,
        tables: Tables,
        storage: Storage,
        stats: Statistics,
    ) -> Delivery:
        store, settings, clock = storage.store, self._settings, self._message_clock
        return Delivery(
            levels,
            Retries(store, tables.topics, tables.groups, tables.clients),
            Schedule(
                store,
                storage.intake,
                levels,
                DelayOffsets(
                    store,
                    clock,
                    self._background,
                    self._disk,
                    Path(self._store_config.store_path_root_dir) / "config/delayOffset.json",
                ),
                self._arrivals,
                clock,
                settings,
                stats,
            ),
            Transactions(
                store,
                storage.intake,
                HalfQueue(store, tables.offsets, clock, self._background),
                tables.topics,
                identity,
                stats,
            ),
        )

    # Starting and stopping

    def _follow_settings(self, parts: Parts) -> None:
        """Update the parts that copy settings instead of reading them for each message."""
        settings = self._settings
        settings.on_change(lambda: parts.storage.store.use(settings.now(StoreConfig)))
        settings.on_change(parts.storage.intake.follow_settings)  # after the store
        settings.on_change(parts.tables.topics.follow_settings)

    def _start_what_repeats(self, parts: Parts) -> None:
        config = parts.context.settings
        background = self._background
        parts.tables.save_changes(background)
        parts.delivery.schedule.start(background)
        TransactionChecks(
            parts.delivery.transactions,
            self._clients,
            self._arrivals,
            self._message_clock,
            config,
            background,
            parts.context.identity,
        ).start()

        background.every(
            lambda: config.now(BrokerConfig).flush_consumer_offset_interval,
            parts.tables.save,
            "saving tables",
        )
        if (conditions := self._conditions) is not None:
            background.every(
                lambda: _SAVE_CONDITIONS_MS,
                lambda: conditions.save(
                    self._clients, config.now(BrokerConfig).filter_data_clean_time_span
                ),
                "saving filters",
            )
        background.every(lambda: SAMPLE_MS, parts.stats.sample, "sampling statistics")
        background.every(
            lambda: _EXPIRE_MS, parts.tables.drop_expired, "expiring clients and locks"
        )

    async def _stop_serving(self) -> None:
        """Answer parked pulls and pending flushes, then stop serving."""
        self._arrivals.end()
        try:
            await self.parts.storage.store.flush()
        except (StoreFailed, OSError) as error:
            log.error(LogEvent("the last sends may be lost", reason=error))
        await asyncio.sleep(0)
        await self._server.close()

    async def _save(self) -> None:
        """Save all tables. A table that fails is logged, and the others are saved."""
        parts = self.parts
        saves = [
            parts.delivery.schedule.save,
            parts.delivery.transactions.save,
            parts.tables.topics.file.save,
            parts.tables.groups.file.save,
            parts.tables.offsets.file.save,
            parts.tables.locks.file.save,
        ]
        if self._conditions is not None:
            saves.append(self._conditions.file.save)
        for save in saves:
            try:
                await save()
            except OSError as error:
                log.error(LogEvent("a table could not be saved", reason=error))

    def _link_closed(self, link: Link) -> None:
        self._notices.groups_changed(self._clients.drop(link))
