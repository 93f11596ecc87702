"""Retries, delays and transactions of a broker, on a disk that can lose its power."""

import asyncio
from pathlib import Path
from random import Random

from cometmq.background import Background
from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.broker.delivery.delay_offsets import DelayOffsets
from cometmq.broker.delivery.half_queue import HalfQueue
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.delivery.transaction_checks import TransactionChecks
from cometmq.broker.delivery.transactions import Transactions
from cometmq.broker.intake import Intake
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.clients import Client, Clients
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.identity import identity_of
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.broker.tables.topics import TopicTable
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.protocol.bodies.heartbeat import Heartbeat, ProducerData
from cometmq.protocol.command import Command
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.dispatch import Call, Reply
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk
from store.rig import NOON_MS, read_all

FOLDER = Path("/store")
PRODUCER = Host("10.0.0.7", 4321)
SMALL = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 20 * 50,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
    # The store does nothing by itself: what is on disk is there because somebody asked for it.
    "flush_interval_commit_log": 1 << 40,
    "flush_interval_consume_queue": 1 << 40,
    "clean_resource_interval": 1 << 40,
}


class ProducerLink:
    """A producer's connection: what it was asked, by whom, and whether it can be reached."""

    def __init__(self, port=1):
        self.peer = Host("10.0.0.7", port)
        self.asked = []  # header and body
        self.failure = None

    async def send_oneway(self, code, header=None, body=b"", *, timeout_ms):
        if self.failure is not None:
            raise self.failure
        assert code == 39
        self.asked.append((header, body))


class Works:
    """`async with`; `kill` and `cut_power` open it again after what they say."""

    def __init__(self, store_settings=None, **config):
        self.clock, self.disk = ManualClock(NOON_MS), ShadowDisk()
        broker = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", **config)
        stored = StoreConfig(store_path_root_dir=str(FOLDER), **(SMALL | (store_settings or {})))
        self.use(broker, stored)

    def use(self, *settings):
        self.settings = LiveSettings(settings, UPDATE_RULES, FOLDER / "b.properties", self.disk)

    async def __aenter__(self):
        config, stored = self.settings.now(BrokerConfig), self.settings.now(StoreConfig)
        clock, disk, folder = self.clock, self.disk, FOLDER / "config"
        self.identity = identity_of(config, 10911)
        self.arrivals, self.background = Arrivals(clock), Background(clock)
        self.levels = DelayLevels(config.message_delay_level)
        self.store = MessageStore(
            stored, disk, clock, self.identity.host,
            announce=self.arrivals.announce, coder=self.levels.unit_code,
        )  # fmt: skip
        await self.store.__aenter__()
        self.topics = TopicTable(disk, folder / "topics.json", clock, self.settings)
        self.groups = GroupTable(disk, folder / "subscriptionGroup.json", clock, self.settings)
        self.offsets = ConsumerOffsets(disk, folder / "consumerOffset.json")
        for table in (self.topics, self.groups, self.offsets):
            table.load()
        self.clients = Clients()
        self.stats = Statistics(clock, self.identity.cluster)
        self.intake = Intake(self.store, self.levels, clock, self.identity, self.stats)
        self.retries = Retries(self.store, self.topics, self.groups, self.clients)
        self.schedule = Schedule(
            self.store, self.intake, self.levels,
            DelayOffsets(self.store, clock, self.background, disk, folder / "delayOffset.json"),
            self.arrivals, clock, self.settings, self.stats,
        )  # fmt: skip
        self.transactions = Transactions(
            self.store, self.intake,
            HalfQueue(self.store, self.offsets, clock, self.background),
            self.topics, self.identity, self.stats,
        )  # fmt: skip
        self.checks = TransactionChecks(
            self.transactions, self.clients, self.arrivals, clock, self.settings,
            self.background, self.identity,
        )  # fmt: skip
        self.schedule.load()
        self.transactions.load()
        self.schedule.start(self.background)
        self.checks.start()
        return self

    async def __aexit__(self, *_):
        await self.background.close()
        await self.schedule.save()
        await self.transactions.save()
        for table in (self.topics, self.groups, self.offsets):
            await table.file.save()
        await self.store.__aexit__(None, None, None)

    async def kill(self):
        await self._again(self.disk.kill())

    async def cut_power(self, chance):
        await self._again(self.disk.crash(chance))

    async def fall(self, how, seed=0):
        """By the name of one of the three ways."""
        await (self.cut_power(Random(seed)) if how == "cut" else getattr(self, how)())

    async def reopen(self):
        await self.__aexit__()
        await self.__aenter__()

    async def _again(self, disk):
        await self.background.close()
        await self.store.abandon()
        self.disk = disk
        await self.__aenter__()

    async def pass_ms(self, ms):
        """Let time pass; offsets are saved on the way, as a broker does."""
        await self.clock.advance(ms)
        await self.offsets.file.save()

    def put(self, topic="T", queue_id=0, body=b"hello", reconsume_times=0, **properties):
        """Stored, or put aside, as a send is."""
        return self.intake.put(
            new(topic, queue_id, body, reconsume_times, **properties), self.clock.wall_ms()
        )

    def stored(self, topic, queue_id=0):
        return read_all(self.store, topic, queue_id)

    def bodies(self, topic, queue_id=0):
        return [message.body for message in self.stored(topic, queue_id)]

    def producer(self, group, port=1):
        """One that has sent a heartbeat."""
        link = ProducerLink(port)
        beat = Heartbeat(client_id=f"c{port}", producer_data_set=[ProducerData(group_name=group)])
        now_ms = self.clock.monotonic_ms()
        self.clients.heard(beat, Client(link, f"c{port}", "JAVA", 1, now_ms, now_ms))
        return link

    async def answer(self, handler, ask, link=None):
        """The reply of a handler that is called as the dispatcher does."""
        call = Call(Command(code=0), link or ProducerLink(), self.clock.wall_ms())
        outcome = handler(call, ask)
        return outcome if isinstance(outcome, Reply) else await outcome


def new(topic="T", queue_id=0, body=b"hello", reconsume_times=0, **properties):
    return NewMessage(
        topic=topic, queue_id=queue_id, body=body, reconsume_times=reconsume_times,
        properties_text=encode_properties(properties), flag=5, born_host=PRODUCER, born_ms=NOON_MS,
    )  # fmt: skip


def at_work(story, store_settings=None, **config):
    """Run an async story that is given open works."""

    async def told():
        works = Works(store_settings, **config)
        await works.__aenter__()
        try:
            return await story(works)
        finally:
            await works.background.close()
            await works.store.abandon()

    return asyncio.run(told())
