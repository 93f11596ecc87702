"""A name server and brokers on this loop that answer sends as a test tells them to."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cometmq.client.config import ClientConfig
from cometmq.client.session.session import Session
from cometmq.protocol.bodies.heartbeat import Heartbeat
from cometmq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.client import UnregisterClientHeader
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.headers.send import SendHeaderV2, SendReplyHeader
from cometmq.protocol.headers.transaction import EndTransactionHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message_id import OffsetId
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Dispatcher, Reply, Route
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.server import Server
from cometmq.seams import RealClock, RealNet

SILENT = object()  # no answer
CUT = object()  # the connection is closed before the answer


@dataclass
class FakeBroker:
    """Answers with the next of its answers, then with success."""

    name: str
    answers: list = field(default_factory=list)  # response codes, SILENT, CUT
    sends: list = field(default_factory=list)  # header, body
    answered: list = field(default_factory=list)  # header, answer
    beats: list = field(default_factory=list)  # heartbeats
    beat_answers: list = field(default_factory=list)  # response codes, SILENT
    links: list = field(default_factory=list)  # of those who beat
    ends: list = field(default_factory=list)  # of transactions: link, header
    gone: list = field(default_factory=list)  # groups that have left
    leaving: asyncio.Event = None  # if there is one, who leaves waits for it
    address: str = ""
    server: Server = None
    held: asyncio.Event = None  # if there is one, sends wait for it

    async def send(self, call, ask):
        self.sends.append((ask, call.command.body))
        if self.held is not None:
            await self.held.wait()
        answer = self.answers.pop(0) if self.answers else ResponseCode.SUCCESS
        self.answered.append((ask, answer))
        if answer is SILENT:
            await asyncio.Event().wait()
        if answer is CUT:
            call.link.close()
            await asyncio.Event().wait()
        place = OffsetId(Host("127.0.0.1", 10911), len(self.sends))
        is_half = ask.sys_flag & MessageFlag.PREPARED
        reply = SendReplyHeader(
            msg_id=str(place) if is_half else f"ID{len(self.sends)}",
            queue_id=ask.queue_id,
            queue_offset=len(self.sends) - 1,
        )
        return Reply(answer, header=reply, remark=None if answer == 0 else "as the test says")

    async def beat(self, call, ask):
        self.beats.append(loads(call.command.body, Heartbeat))
        if call.link not in self.links:
            self.links.append(call.link)
        answer = self.beat_answers.pop(0) if self.beat_answers else ResponseCode.SUCCESS
        if answer is SILENT:
            await asyncio.Event().wait()
        return Reply(answer, remark=None if answer == 0 else "as the test says")

    async def leave(self, call, ask):
        self.gone.append(ask.producer_group or ask.consumer_group)
        if self.leaving is not None:
            await self.leaving.wait()
        return Reply()

    def end(self, call, ask):
        self.ends.append((call.link, ask))
        return Reply()

    async def start(self, route_of):
        codes = {
            RequestCode.SEND_MESSAGE_V2: Route(self.send, SendHeaderV2, OPEN),
            RequestCode.SEND_BATCH_MESSAGE: Route(self.send, SendHeaderV2, OPEN),
            RequestCode.SEND_REPLY_MESSAGE_V2: Route(self.send, SendHeaderV2, OPEN),
            RequestCode.END_TRANSACTION: Route(self.end, EndTransactionHeader, OPEN),
            RequestCode.HEART_BEAT: Route(self.beat, NoHeader, OPEN),
            RequestCode.UNREGISTER_CLIENT: Route(self.leave, UnregisterClientHeader, OPEN),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: Route(route_of, RouteHeader, OPEN),
        }
        self.server = Server(RealClock(), RealNet())
        port = int(self.address.rpartition(":")[2]) if self.address else 0
        port = self.server.listen("127.0.0.1", port, Dispatcher(codes, Lanes(100_000)))
        self.address = f"127.0.0.1:{port}"

    async def stop(self):
        await self.server.close()


class FakeCluster:
    """Each broker is a name server too."""

    def __init__(self, *names):
        self.brokers = [FakeBroker(name) for name in names]
        self.queues = {"orders": 2}  # a broker, by topic
        self.route_asks = 0
        self.broker_id = 0  # of each; with another there is no master

    def __getitem__(self, name):
        return next(broker for broker in self.brokers if broker.name == name)

    @property
    def name_servers(self):
        return self.brokers[0].address

    @property
    def sends(self):
        return [broker.name for broker in self.brokers for _ in broker.sends]

    def session(self, clock=None, **config):
        return Session(ClientConfig(name_servers=self.name_servers, **config), clock=clock)

    def route_of(self, call, ask):
        self.route_asks += 1
        count = self.queues.get(ask.topic)
        if count is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
        route = TopicRoute(
            broker_datas=[
                BrokerData(
                    cluster="c", broker_name=each.name, broker_addrs={self.broker_id: each.address}
                )
                for each in self.brokers
            ],
            queue_datas=[
                QueueData(
                    broker_name=each.name, read_queue_nums=count, write_queue_nums=count, perm=6,
                    topic_sys_flag=0,
                )
                for each in self.brokers
            ],
        )  # fmt: skip
        return Reply(body=dumps(route))


def run(test, loop_factory=None):
    """A test that must end."""

    async def bounded():
        async with asyncio.timeout(120):
            await test()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(bounded())


async def until(true):
    """Return when it is."""
    while not true():
        await asyncio.sleep(0.001)


@asynccontextmanager
async def fake_cluster(*names):
    """Running while the test does."""
    cluster = FakeCluster(*(names or ("a",)))
    try:
        for broker in cluster.brokers:
            await broker.start(cluster.route_of)
        yield cluster
    finally:
        for broker in cluster.brokers:
            await broker.stop()
