"""One broker and its name server, behind the pool of a session: what consumers ask, answered."""

import asyncio
from collections import defaultdict

from cometmq.client.config import ClientConfig
from cometmq.client.session.session import Session
from cometmq.errors import Unreachable
from cometmq.protocol.bodies.heartbeat import ConsumerIds, decode_heartbeat
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.filter.tags import tag_codes
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers import offset as headers
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.pull import PullReplyHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.protocol.records.properties import TAGS, decode_properties, encode_properties
from cometmq.testing.clock import ManualClock

NAMESRV = "127.0.0.1:9876"
BROKER = "broker-a"


class FakeBroker:
    """Tests change its fields while consumers ask."""

    def __init__(self, **topics: int) -> None:
        self.clock = ManualClock()
        self.address = "127.0.0.1:10911"
        self.nodes = {0: self.address}
        self.queues = dict(topics)  # how many, by topic
        self.stored: dict[MessageQueue, list[StoredMessage]] = defaultdict(list)
        self.lowest: dict[MessageQueue, int] = defaultdict(int)
        self.committed: dict[tuple[str, MessageQueue], int] = {}
        self.heard: dict[str, dict[str, object]] = defaultdict(dict)  # group: client id: data
        self.others: list[str] = []  # members of any group that we do not run
        self.is_up = True
        self.has_names = True
        self.refuses: dict[RequestCode, int] = {}
        self.delays_ms: dict[RequestCode, int] = {}
        self.asked: list[tuple[str, RequestCode, object]] = []
        self.suggests = 0
        self._arrivals: set[asyncio.Future[None]] = set()

    def session(self, instance="one", **config) -> Session:
        """A client of it."""
        settings = ClientConfig(
            name_servers=NAMESRV, client_ip="127.0.0.1", instance_name=instance, **config
        )
        session = Session(settings, clock=self.clock)
        session.pool.invoke = self.invoke
        return session

    def queue(self, topic: str, queue_id: int = 0) -> MessageQueue:
        """One of its queues."""
        return MessageQueue(topic, BROKER, queue_id)

    def put(self, topic: str, queue_id: int = 0, *bodies: bytes, tags: str | None = None) -> None:
        """Store them, and answer who waits."""
        queue = self.queue(topic, queue_id)
        for body in bodies:
            message = StoredMessage(
                topic=topic, queue_id=queue_id, queue_offset=len(self.stored[queue]), body=body,
                physical_offset=len(self.stored[queue]) * 100,
                store_host=Host("127.0.0.1", 10911), born_host=Host("127.0.0.1", 1),
                stored_ms=self.clock.wall_ms(),
                properties_text=encode_properties({TAGS: tags} if tags else {}),
            )  # fmt: skip
            self.stored[queue].append(message)
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_result(None)

    def count(self, code: RequestCode) -> int:
        """How often this was asked."""
        return sum(each == code for _, each, _ in self.asked)

    async def invoke(self, address, code, header=None, body=b"", *, timeout_ms):
        """As the pool's."""
        await asyncio.sleep(0)
        self.asked.append((address, code, header))
        if address == NAMESRV:
            if not self.has_names:
                raise Unreachable(f"no connection to {address}")
            return self._route(header)
        if not self.is_up or address not in self.nodes.values():
            raise Unreachable(f"no connection to {address}")
        if code in self.delays_ms:
            await self.clock.sleep_ms(self.delays_ms[code])
        if code in self.refuses:
            return Command(code=self.refuses[code], remark="the test wants it so")
        return await self._answers[code](self, header, body)

    def _route(self, header) -> Command:
        count = self.queues.get(header.topic)
        if count is None:
            return Command(code=ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
        route = TopicRoute(
            broker_datas=[
                BrokerData(broker_name=BROKER, cluster="c", broker_addrs=dict(self.nodes))
            ],
            queue_datas=[
                QueueData(broker_name=BROKER, perm=6, read_queue_nums=count, write_queue_nums=count)
            ],
        )
        return Command(code=ResponseCode.SUCCESS, body=dumps(route))

    async def _beat(self, header, body) -> Command:
        heartbeat = decode_heartbeat(body)
        for data in heartbeat.consumer_data_set:
            self.heard[data.group_name][heartbeat.client_id] = data
        return Command(code=ResponseCode.SUCCESS)

    async def _unregister(self, header, body) -> Command:
        self.heard[header.consumer_group].pop(header.client_id, None)
        return Command(code=ResponseCode.SUCCESS)

    async def _members(self, header, body) -> Command:
        members = [*self.heard[header.consumer_group], *self.others]
        ids = ConsumerIds(consumer_id_list=members)
        return Command(code=ResponseCode.SUCCESS, body=dumps(ids))

    async def _committed(self, header, body) -> Command:
        queue = self.queue(header.topic, header.queue_id)
        offset = self.committed.get((header.consumer_group, queue))
        if offset is None:
            return Command(code=ResponseCode.QUERY_NOT_FOUND, remark="none")
        return _offset(offset)

    async def _commit(self, header, body) -> Command:
        queue = self.queue(header.topic, header.queue_id)
        self.committed[header.consumer_group, queue] = header.commit_offset
        return Command(code=ResponseCode.SUCCESS)

    async def _max(self, header, body) -> Command:
        return _offset(len(self.stored[self.queue(header.topic, header.queue_id)]))

    async def _min(self, header, body) -> Command:
        return _offset(self.lowest[self.queue(header.topic, header.queue_id)])

    async def _at(self, header, body) -> Command:
        stored = self.stored[self.queue(header.topic, header.queue_id)]
        far = [abs(message.stored_ms - header.timestamp) for message in stored]
        return _offset(far.index(min(far)) if far else 0)  # the nearest, as brokers say

    async def _pull(self, header, body) -> Command:
        if header.topic not in self.queues:
            return Command(code=ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
        queue = self.queue(header.topic, header.queue_id)
        stored = self.stored[queue]
        if header.queue_offset == len(stored) and header.sys_flag & PullFlag.SUSPEND:
            await self._arrival(header.suspend_timeout_millis)
        lowest, end, begin = self.lowest[queue], len(stored), header.queue_offset
        if not lowest <= begin <= end:
            moved = lowest if begin < lowest else end
            return self._pulled(ResponseCode.PULL_OFFSET_MOVED, moved, lowest, end)
        if begin == end:
            return self._pulled(ResponseCode.PULL_NOT_FOUND, begin, lowest, end)
        page = stored[begin : begin + header.max_msg_nums]
        codes = tag_codes(header.subscription or "*")
        found = [
            each
            for each in page
            if codes is None
            or hash_code(decode_properties(each.properties_text).get(TAGS, "")) in codes
        ]
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_RETRY_IMMEDIATELY
        records = b"".join(map(pack_record, found))
        return self._pulled(code, begin + len(page), lowest, end, records)

    def _pulled(self, code, next_offset, lowest, end, body=b"") -> Command:
        header = PullReplyHeader(
            suggest_which_broker_id=self.suggests, next_begin_offset=next_offset,
            min_offset=lowest, max_offset=end,
        )  # fmt: skip
        return Command(code=code, fields=write_header(header), body=body)

    async def _arrival(self, timeout_ms) -> None:
        arrival = asyncio.get_running_loop().create_future()
        self._arrivals.add(arrival)
        timer = self.clock.call_later(
            timeout_ms, lambda: arrival.done() or arrival.set_result(None)
        )
        try:
            await arrival
        finally:
            timer.cancel()
            self._arrivals.discard(arrival)

    _answers = {
        RequestCode.HEART_BEAT: _beat,
        RequestCode.UNREGISTER_CLIENT: _unregister,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: _members,
        RequestCode.QUERY_CONSUMER_OFFSET: _committed,
        RequestCode.UPDATE_CONSUMER_OFFSET: _commit,
        RequestCode.GET_MAX_OFFSET: _max,
        RequestCode.GET_MIN_OFFSET: _min,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _at,
        RequestCode.PULL_MESSAGE: _pull,
    }


def _offset(offset: int) -> Command:
    header = headers.OffsetReplyHeader(offset=offset)
    return Command(code=ResponseCode.SUCCESS, fields=write_header(header))
