"""A broker without a socket: real parts on a folder, a clock that stands still, fake links."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.filtering.filters import Filters
from cometmq.broker.handlers import admin_routes
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.handlers.client import ClientHandlers
from cometmq.broker.intake import Intake
from cometmq.broker.notices import Notices
from cometmq.broker.page_cache import PageCache
from cometmq.broker.parts import BrokerContext
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.statistics.store_facts import StoreFacts
from cometmq.broker.storage import Storage
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.identity import identity_of
from cometmq.broker.tables.tables import Tables
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.disk import RealDisk
from cometmq.protocol.bodies.heartbeat import ConsumerData, Heartbeat, ProducerData
from cometmq.protocol.bodies.tables import DelayOffsetTable, TopicConfig
from cometmq.protocol.codes import VERSION, RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.headers.base import NoHeader, write_fields, write_header
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Call, Dispatcher, Reply, Route
from cometmq.remoting.lanes import Lanes
from cometmq.settings.live_settings import LiveSettings
from cometmq.settings.unused_settings import FixedBrokerConfig, IgnoredBrokerConfig
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.testing.clock import ManualClock

PORT = 10911
SIZES = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 1000,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}


class RoomyDisk(RealDisk):
    """Says that there is room, however full the machine is: nothing is deleted for it."""

    def used_ratio(self, folder):
        return 0.25


class Told(NamedTuple):
    """What the broker said to a client."""

    code: int
    header: object
    body: bytes


class FakeLink:
    """A client's end of a connection: remembers what it was told, and answers as it is set to."""

    def __init__(self, port=1):
        self.peer = Host("127.0.0.1", port)
        self.told = []
        self.answer = Command(code=0)  # or what it raises
        self.is_closed = False

    async def invoke(self, code, header=None, body=b"", *, timeout_ms):
        await self.send_oneway(code, header, body, timeout_ms=timeout_ms)
        return self.answer

    async def send_oneway(self, code, header=None, body=b"", *, timeout_ms):
        self.told.append(Told(code, header, body))
        if isinstance(self.answer, Exception):
            raise self.answer

    def close(self):
        self.is_closed = True


class Desk:
    """The parts by name, and `ask`, which asks the dispatcher as a connection would."""

    def __init__(self, folder, config, store, clock, disk, settings, arrivals, levels):
        self.folder, self.store, self.clock, self.disk = folder, store, clock, disk
        self.settings, self.arrivals, self.levels = settings, arrivals, levels
        self.identity = identity_of(config, PORT)
        self.background = Background(clock)
        self.tables = tables = Tables(disk, folder / "config", clock, settings, Clients())
        tables.load()
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        settings.on_change(self.topics.follow_settings)
        self.registration = SimpleNamespace(settled=partial(asyncio.sleep, 0))
        self.clients = tables.clients
        self.stats = Statistics(clock, self.identity.cluster)
        self.intake = Intake(store, levels, clock, self.identity, self.stats)
        self.filters = Filters(self.clients, settings)
        self.notices = Notices(self.clients, self.groups, settings, self.background)
        self.schedule = SimpleNamespace(
            body=DelayOffsetTable(offset_table={1: 7}), progress={1: (7, 9)}
        )
        self.checks = Checks(self.topics, self.groups, settings, self.identity)
        self.lanes = Lanes(10)
        self.page_cache = PageCache()
        self.link = FakeLink()
        files = StoreFiles.of(settings.now(StoreConfig))
        self.facts = StoreFacts(store, files, disk)
        self.context = BrokerContext(self.identity, settings, clock, self.lanes, clock.wall_ms())
        self.storage = Storage(store, self.intake, arrivals, self.facts, self.page_cache)
        self.delivery = SimpleNamespace(schedule=self.schedule)
        self.routes = self._build_routes()
        self._dispatcher = Dispatcher(self.routes, self.lanes)

    def _build_routes(self):
        clients = ClientHandlers(self.tables, self.filters, self.notices, self.clock)
        return (
            admin_routes.topic_routes(self, self.checks)
            | admin_routes.consumer_routes(self, self.checks)
            | admin_routes.message_routes(self, self.checks)
            | admin_routes.runtime_routes(self)
            | admin_routes.declined_routes()
            | {RequestCode.HEART_BEAT: Route(clients.heartbeat, NoHeader, OPEN, "heartbeat")}
        )

    async def ask(self, code, header=None, body=b"", link=None, language="JAVA"):
        """`header` may be a dict of extension fields, too."""
        raw = write_fields(header) if isinstance(header, dict) else write_header(header)
        command = Command(code=code, version=VERSION, language=language, fields=raw, body=body)
        call = Call(command, link or self.link, self.clock.wall_ms())
        outcome = self._dispatcher.answer(call)
        return outcome if isinstance(outcome, Reply) else await outcome

    def make_topic(self, name="T", queues=2, **fields):
        topic = TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **fields
        )
        self.topics.put(topic)

    def put(self, topic="T", queue_id=0, body=b"hello", **properties):
        """A stored message, with properties by name: TAGS, KEYS, UNIQ_KEY..."""
        message = NewMessage(
            topic=topic, queue_id=queue_id, body=body, born_host=self.link.peer,
            properties_text=encode_properties(properties),
        )  # fmt: skip
        return self.store.put(message, self.clock.wall_ms())

    async def join(self, group, topic="T", client_id="c1", expression="*", port=2, language="JAVA"):
        """A consumer that has sent a heartbeat; its connection."""
        link = FakeLink(port)
        beat = Heartbeat(
            client_id=client_id,
            consumer_data_set=[
                ConsumerData(
                    group_name=group, subscription_data_set=[subscription_of(topic, expression)]
                )
            ],
        )
        reply = await self.ask(
            RequestCode.HEART_BEAT, body=dumps(beat), link=link, language=language
        )
        assert reply.code == 0, reply.remark
        await self.clock.advance(0)
        link.told.clear()  # that its group changed
        return link

    async def produce(self, group, client_id="p1", port=3):
        """A producer that has sent a heartbeat; its connection."""
        link = FakeLink(port)
        beat = Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])
        reply = await self.ask(RequestCode.HEART_BEAT, body=dumps(beat), link=link)
        assert reply.code == 0, reply.remark
        return link


@asynccontextmanager
async def open_desk(folder: Path, store_settings=None, **config):
    """A desk whose store is open."""
    clock, disk = ManualClock(), RoomyDisk()
    broker = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", **config)
    stored = StoreConfig(store_path_root_dir=str(folder), **(SIZES | (store_settings or {})))
    unused = IgnoredBrokerConfig(), FixedBrokerConfig()
    file = folder / "broker.properties"
    settings = LiveSettings((broker, stored, *unused), UPDATE_RULES, file, disk)
    arrivals, levels = Arrivals(clock), DelayLevels(broker.message_delay_level)
    store = MessageStore(
        stored, disk, clock, Host("127.0.0.1", PORT),
        announce=arrivals.announce, coder=levels.unit_code,
    )  # fmt: skip
    async with store:
        desk = Desk(folder, broker, store, clock, disk, settings, arrivals, levels)
        try:
            yield desk
        finally:
            await desk.background.close()


def at_desk(folder, story, **config):
    """Run an async story that is given a desk."""

    async def told():
        async with open_desk(folder, **config) as desk:
            return await story(desk)

    return asyncio.run(told())
