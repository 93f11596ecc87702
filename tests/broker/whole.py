"""A whole broker on a disk in memory, by a clock that stands still; asked as connections ask."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from broker.desk import FakeLink
from cometmq.broker.broker import Broker
from cometmq.broker.config import BrokerConfig
from cometmq.broker.handlers.routes import build_routes
from cometmq.protocol.bodies.heartbeat import ConsumerData, Heartbeat, MessageModel, ProducerData
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.protocol.codes import VERSION, RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.records.message import unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.dispatch import Call, Dispatcher, Reply
from cometmq.settings.settings import as_texts
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk

FOLDER = Path("/store")
SMALL = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 20 * 50,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
    # The store does nothing by itself: what is on disk is there because somebody asked for it.
    "flush_interval_commit_log": 1 << 40,
    "flush_interval_consume_queue": 1 << 40,
    "clean_resource_interval": 1 << 40,
}
SUSPEND = int(PullFlag.SUSPEND)
COMMIT = int(PullFlag.COMMIT_OFFSET)
WITH_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)


class Whole:
    """A running broker: its parts by name, and ways to ask it."""

    def __init__(self, broker, clock, disk):
        self.broker, self.clock, self.disk = broker, clock, disk
        self.parts = broker.parts
        self.routes = build_routes(broker.parts)
        self.link = FakeLink()
        self._dispatcher = Dispatcher(self.routes, broker.parts.context.lanes)

    def __getattr__(self, part):
        """A part by its name, whichever concept it belongs to."""
        parts = self.parts
        for group in (parts, parts.context, parts.tables, parts.storage, parts.delivery):
            if hasattr(group, part):
                return getattr(group, part)
        raise AttributeError(part)

    def begin(self, code, header=None, body=b"", link=None, received_ms=None):
        """A reply, or an awaitable of it. A header, or extension fields as they came."""
        fields = raw_fields(header) if isinstance(header, dict) else write_header(header)
        command = Command(code=code, version=VERSION, language="JAVA", fields=fields, body=body)
        if received_ms is None:
            received_ms = self.clock.wall_ms()
        return self._dispatcher.answer(Call(command, link or self.link, received_ms))

    async def ask(self, code, header=None, body=b"", link=None, received_ms=None):
        outcome = self.begin(code, header, body, link, received_ms)
        return outcome if isinstance(outcome, Reply) else await outcome

    def begin_send(self, topic="T", queue_id=0, body=b"hello", properties=None, **changes):
        text = encode_properties(properties or {})
        header = send_header(topic=topic, queue_id=queue_id, properties=text, **changes)
        return self.begin(RequestCode.SEND_MESSAGE_V2, header, body)

    async def send(self, topic="T", queue_id=0, body=b"hello", properties=None, **changes):
        outcome = self.begin_send(topic, queue_id, body, properties, **changes)
        return outcome if isinstance(outcome, Reply) else await outcome

    def begin_pull(self, **changes):
        """A reply, or a task that waits for it."""
        link = changes.pop("link", None)
        outcome = self.begin(RequestCode.PULL_MESSAGE, pull_header(**changes), link=link)
        return outcome if isinstance(outcome, Reply) else asyncio.ensure_future(outcome)

    async def pull(self, **changes):
        outcome = self.begin_pull(**changes)
        return outcome if isinstance(outcome, Reply) else await outcome

    def make_topic(self, name="T", queues=2, **fields):
        self.topics.put(
            TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **fields)
        )

    def put_aside(self, topic, **properties):
        """A message where no producer may send; its place in the log."""
        message = NewMessage(
            topic=topic, queue_id=0, body=b"aside", born_host=self.link.peer,
            properties_text=encode_properties(properties),
        )  # fmt: skip
        return self.store.put(message, self.clock.wall_ms()).physical_offset

    async def consume(self, group="G", *wanted, client_id="c1", port=2, **fields):
        """A consumer that has sent a heartbeat; its connection."""
        link = FakeLink(port)
        beat = consumer_beat(group, *wanted, client_id=client_id, **fields)
        reply = await self.ask(RequestCode.HEART_BEAT, body=dumps(beat), link=link)
        assert reply.code == 0, reply.remark
        await self.clock.advance(0)
        return link

    async def produce(self, group="P", client_id="p1", port=3):
        link = FakeLink(port)
        beat = Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])
        reply = await self.ask(RequestCode.HEART_BEAT, body=dumps(beat), link=link)
        assert reply.code == 0, reply.remark
        return link

    def state(self):
        """Everything that a request could change, to be compared."""
        parts, store = self, self.store
        store._index.settle()  # whoever asks by key makes that of keys which wait to be put
        queues = [
            (name, queue_id, store.bounds(name, queue_id))
            for name in self.disk.names(FOLDER / "consumequeue")
            for queue_id in map(int, self.disk.names(FOLDER / "consumequeue" / name))
        ]
        return {
            "topics": dumps(parts.topics.body),
            "groups": dumps(parts.groups.body),
            "offsets": dumps(parts.offsets.body),
            "log": store.log_bounds,
            "queues": queues,
            "settings": [as_texts(each) for each in parts.settings.all],
            "producers": {name: list(found) for name, found in parts.clients.producers.items()},
            "consumers": {
                name: (list(found.members), dict(found.subscriptions))
                for name, found in parts.clients.consumers.items()
            },
            "locks": {
                group: {queue: (hold.client_id, hold.until_ms) for queue, hold in held.items()}
                for group, held in parts.locks._holds.items()
                if held
            },
            "files": {
                path: len(file.seen) if "commitlog" in path else bytes(file.seen)
                for path, file in self.disk._names.files.items()
            },
        }


def raw_fields(fields):
    """Escaped, so that a text may hold what UTF-8 cannot."""
    return msgspec.Raw(json.dumps(fields).encode())


def send_header(**changes):
    fields = {
        "producer_group": "P", "topic": "T", "default_topic": "TBW102",
        "default_topic_queue_nums": 4, "queue_id": 0, "sys_flag": 0, "born_timestamp": 1,
        "flag": 0,
    }  # fmt: skip
    return SendHeaderV2(**(fields | changes))


def pull_header(**changes):
    fields = {
        "consumer_group": "G", "topic": "T", "queue_id": 0, "queue_offset": 0,
        "max_msg_nums": 32, "sys_flag": WITH_SUBSCRIPTION, "commit_offset": 0,
        "suspend_timeout_millis": 15_000, "subscription": "*", "sub_version": 0,
    }  # fmt: skip
    return PullHeader(**(fields | changes))


def consumer_beat(group="G", *wanted, client_id="c1", version=0, **fields):
    """Each wanted: a topic, an expression, and its kind if it is none of tags."""
    subscriptions = [subscription_of(*each, version=version) for each in wanted or [("T", "*")]]
    data = ConsumerData(group_name=group, subscription_data_set=subscriptions, **fields)
    return Heartbeat(client_id=client_id, consumer_data_set=[data])


BROADCASTING = MessageModel.BROADCASTING


def bodies(reply):
    """Of the messages in the answer to a pull."""
    return [each.body for each in unpack_records(memoryview(reply.body))]


def place(reply):
    """Next, first and end of the queue, as the answer to a pull says."""
    header = reply.header
    assert isinstance(header, PullReplyHeader)
    return header.next_begin_offset, header.min_offset, header.max_offset


@asynccontextmanager
async def open_whole(store_settings=None, disk=None, clock=None, **config):
    clock, disk = clock or ManualClock(), disk or ShadowDisk()
    settings = BrokerConfig(
        broker_name="broker-a", broker_ip1="127.0.0.1", bind_address="127.0.0.1", listen_port=0,
        **config,
    )  # fmt: skip
    stored = StoreConfig(store_path_root_dir=str(FOLDER), **(SMALL | (store_settings or {})))
    async with Broker(settings, stored, clock=clock, disk=disk) as broker:
        try:
            yield Whole(broker, clock, disk)
        finally:
            disk.release()
            disk._held = None  # or its end would wait for work that is held


def at_broker(story, **how):
    """Run an async story that is given a whole broker."""

    async def told():
        async with asyncio.timeout(120), open_whole(**how) as whole:
            return await story(whole)

    return asyncio.run(told())
