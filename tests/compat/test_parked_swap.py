"""What one broker has put aside, delayed or undecided, the other delivers and asks about."""

import asyncio
import itertools
import time

import pytest

from cometmq.protocol.bodies.heartbeat import Heartbeat, ProducerData
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.offset import OffsetReplyHeader, QueueHeader
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.headers.send import SendHeaderV2, SendReplyHeader
from cometmq.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.records.message import unpack_record, unpack_records
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Dispatcher, Reply, Route
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.pool import Pool
from cometmq.seams import RealClock, RealNet
from peers import ports
from peers.apache import ApacheBroker
from peers.comet import CometBroker, CometNamesrv

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

TOPIC, GROUP = "Parked", "parkers"
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
CONF = {
    "messageDelayLevel": "1s 20s",
    "transactionTimeOut": 3_000,  # what is decided at once is not asked for, on a busy machine too
    "transactionCheckInterval": 2_000,
}
PATIENCE_S = 60
PATIENCE_MS = 20_000


class Producer:
    """One connection to a broker, on which questions come in, too."""

    def __init__(self, address):
        self._address = address
        self.questions = asyncio.Queue()
        routes = {
            RequestCode.CHECK_TRANSACTION_STATE: Route(self._asked, CheckTransactionHeader, OPEN)
        }
        self._pool = Pool(RealClock(), RealNet(), Dispatcher(routes, Lanes(10)))

    async def __aenter__(self):
        beat = Heartbeat(client_id="p1", producer_data_set=[ProducerData(group_name=GROUP)])
        await self.ask(RequestCode.HEART_BEAT, None, dumps(beat))
        return self

    async def __aexit__(self, *_):
        await self._pool.close()

    async def ask(self, code, header, body=b""):
        reply = await self._pool.invoke(self._address, code, header, body, timeout_ms=PATIENCE_MS)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply

    def _asked(self, call, ask):
        self.questions.put_nowait((unpack_record(call.command.body).body, ask))
        return Reply()

    async def send(self, body, **properties):
        """Where it is: half messages are ended by that."""
        header = SendHeaderV2(
            producer_group=GROUP, topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=1,
            queue_id=0, sys_flag=4 if "TRAN_MSG" in properties else 0, flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            properties=encode_properties({"UNIQ_KEY": body.decode()} | properties),
        )  # fmt: skip
        reply = await self.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        return read_header(reply, SendReplyHeader)

    async def prepare(self, body):
        return await self.send(body, TRAN_MSG="true", PGROUP=GROUP)

    async def end(self, queue_offset, physical_offset, decision, **fields):
        header = EndTransactionHeader(
            producer_group=GROUP, tran_state_table_offset=queue_offset,
            commit_log_offset=physical_offset, commit_or_rollback=decision, msg_id="", **fields,
        )  # fmt: skip
        await self._pool.send_oneway(
            self._address, RequestCode.END_TRANSACTION, header, timeout_ms=PATIENCE_MS
        )

    async def decide(self, sent, decision):
        offset = OffsetId.parse(sent.msg_id).physical_offset
        await self.end(sent.queue_offset, offset, decision)

    async def answer(self, decision):
        """The next question; which message it is about."""
        body, question = await asyncio.wait_for(self.questions.get(), PATIENCE_S)
        await self.end(
            question.tran_state_table_offset, question.commit_log_offset, decision,
            from_transaction_check=True,
        )  # fmt: skip
        return body

    async def stored(self, count):
        """The bodies in the topic's queue, once there are so many."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            reply = await self.ask(RequestCode.GET_MAX_OFFSET, QueueHeader(topic=TOPIC, queue_id=0))
            if read_header(reply, OffsetReplyHeader).offset >= count:
                break
            assert time.monotonic() < deadline, "they did not come"
            await asyncio.sleep(0.1)
        found = []
        while len(found) < count:
            pull = PullHeader(
                consumer_group="takers", topic=TOPIC, queue_id=0, queue_offset=len(found),
                max_msg_nums=32, sys_flag=4, commit_offset=0, suspend_timeout_millis=0,
                subscription="*", sub_version=0,
            )  # fmt: skip
            found += unpack_records((await self.ask(RequestCode.PULL_MESSAGE, pull)).body)
        return [message.body for message in found]


async def put_aside(address):
    async with Producer(address) as producer:
        await producer.send(b"early", DELAY="1")
        await producer.send(b"late", DELAY="2")
        await producer.decide(await producer.prepare(b"committed"), COMMIT)
        await producer.decide(await producer.prepare(b"rolled back"), ROLLBACK)
        await producer.prepare(b"asked before")
        assert await producer.answer(UNKNOWN) == b"asked before"
        assert sorted(await producer.stored(2)) == [b"committed", b"early"]
        await producer.prepare(b"not yet asked")


UNDECIDED = {b"asked before", b"not yet asked"}
VISIBLE = UNDECIDED | {b"committed", b"early", b"late"}


async def go_on(address):
    async with Producer(address) as producer:
        asked = {await producer.answer(COMMIT), await producer.answer(COMMIT)}
        assert asked == UNDECIDED
        assert sorted(await producer.stored(5)) == sorted(VISIBLE)
        assert producer.questions.empty()


async def go_on_after_a_kill(address):
    """Nothing is lost or made up. What was done last, and not noted, may be done once more."""
    async with Producer(address) as producer:
        asked = set()
        while asked != UNDECIDED:
            asked.add(await producer.answer(COMMIT))
            assert asked <= UNDECIDED
        for count in itertools.count(len(VISIBLE)):
            found = set(await producer.stored(count))
            assert found <= VISIBLE
            if found == VISIBLE:
                return


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    ("first", "second"), [(ApacheBroker, CometBroker), (CometBroker, ApacheBroker)]
)
def test_the_other_goes_on(apache_class_path, tmp_path, first, second, kill):
    stories = (first, put_aside), (second, go_on_after_a_kill if kill else go_on)
    with CometNamesrv(tmp_path / "namesrv") as namesrv:
        port = ports.free_broker_port()
        for kind, story in stories:
            broker = kind(tmp_path / "broker", namesrv=namesrv.address, conf=CONF, port=port)
            broker.start()
            try:
                asyncio.run(story(broker.address))
                if not kill:
                    broker.stop()
            finally:
                broker.kill()
