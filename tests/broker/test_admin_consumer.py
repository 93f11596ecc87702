"""Who is connected, and questions that the broker passes on to consumers."""

import pytest

from broker.desk import at_desk
from cometmq.errors import TimedOut, Unreachable
from cometmq.protocol.bodies import consumer as bodies
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.tables import KeyValues
from cometmq.protocol.codes import VERSION, RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers import consumer as headers
from cometmq.protocol.headers.client import ConsumerGroupHeader, ProducerGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import unpack_record
from cometmq.protocol.records.message_id import OffsetId

HOST = Host("127.0.0.1", 10911)


def test_connections_of_a_group(tmp_path):
    async def story(desk):
        await desk.join("G", "T", client_id="c1", expression="a || b", port=5, language="GO")
        reply = await desk.ask(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="G")
        )
        found = loads(reply.body, bodies.ConsumerConnection)
        assert found.connection_set == [
            bodies.Connection(
                client_addr="127.0.0.1:5", client_id="c1", language="GO", version=VERSION
            )
        ]
        assert found.subscription_table["T"].sub_string == "a || b"
        assert b"differing" not in reply.body
        assert found.message_model.value == "CLUSTERING"
        reply = await desk.ask(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="H")
        )
        assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE

    at_desk(tmp_path, story)


def test_members_that_subscribe_differently_are_shown(tmp_path):
    async def story(desk):
        await desk.join("G", "T", client_id="c1", expression="a", port=5)
        await desk.join("G", "T", client_id="c2", expression="b", port=6)
        await desk.join("H", "T", client_id="c1", expression="*", port=7)
        reply = await desk.ask(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="G")
        )
        found = loads(reply.body, bodies.ConsumerConnection)
        assert found.differing_subscriptions == {"T": {"c1": "a", "c2": "b"}}
        reply = await desk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert loads(reply.body, KeyValues).table["groupsSubscribingDifferently"] == "G"

    at_desk(tmp_path, story)


def test_connections_of_producers(tmp_path):
    async def story(desk):
        await desk.produce("P", client_id="p1", port=6)
        reply = await desk.ask(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(producer_group="P")
        )
        (connection,) = loads(reply.body, bodies.ProducerConnection).connection_set
        assert (connection.client_id, connection.client_addr) == ("p1", "127.0.0.1:6")
        reply = await desk.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        table = loads(reply.body, bodies.ProducerTable).data
        assert [(one.client_id, one.last_update_timestamp) for one in table["P"]] == [
            ("p1", desk.clock.wall_ms())
        ]
        reply = await desk.ask(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(producer_group="Q")
        )
        assert reply.code == ResponseCode.SYSTEM_ERROR

    at_desk(tmp_path, story)


def running(client_id):
    return headers.RunningInfoHeader(consumer_group="G", client_id=client_id, jstack_enable=True)


def test_running_info_is_the_member_s_own_answer(tmp_path):
    async def story(desk):
        link = await desk.join("G")
        link.answer = Command(code=0, body=b'{"mqTable":{}}')
        reply = await desk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, running("c1"))
        assert (reply.code, reply.body) == (0, b'{"mqTable":{}}')
        (told,) = link.told
        assert told.code == RequestCode.GET_CONSUMER_RUNNING_INFO
        assert told.header == running("c1")
        link.answer = Command(code=1, remark="no such group here")
        reply = await desk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, running("c1"))
        assert (reply.code, reply.remark) == (1, "no such group here")

    at_desk(tmp_path, story)


@pytest.mark.parametrize(
    ("client_id", "answer", "code"),
    [
        ("c2", Command(code=0), ResponseCode.SYSTEM_ERROR),
        ("c1", TimedOut("no answer in 10000 ms"), ResponseCode.CONSUME_MSG_TIMEOUT),
        ("c1", Unreachable("the connection closed"), ResponseCode.CONSUMER_NOT_ONLINE),
    ],
)
def test_a_member_that_does_not_answer(tmp_path, client_id, answer, code):
    async def story(desk):
        link = await desk.join("G")
        link.answer = answer
        reply = await desk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, running(client_id))
        assert reply.code == code
        assert "G" in reply.remark
        assert client_id in reply.remark

    at_desk(tmp_path, story)


def directly(msg_id, client_id="c1"):
    return headers.ConsumeDirectlyHeader(consumer_group="G", client_id=client_id, msg_id=msg_id)


def test_a_message_is_given_to_a_member_directly(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        desk.put("T", body=b"first")
        stored = desk.put("T", body=b"second", TAGS="a")
        link = await desk.join("G")
        link.answer = Command(code=0, body=b'{"consumeResult":"CR_SUCCESS"}')
        msg_id = str(OffsetId(HOST, stored.physical_offset))
        reply = await desk.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, directly(msg_id))
        assert (reply.code, reply.body) == (0, link.answer.body)
        (told,) = link.told
        assert unpack_record(told.body).body == b"second"
        assert told.header.broker_name == "broker-a"

    at_desk(tmp_path, story)


@pytest.mark.parametrize("msg_id", [None, "", "zz", "00" * 3, str(OffsetId(HOST, 10**9))])
def test_a_message_that_is_not_there_is_not_given(tmp_path, msg_id):
    async def story(desk):
        link = await desk.join("G")
        reply = await desk.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, directly(msg_id))
        assert reply.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.QUERY_NOT_FOUND)
        assert reply.remark
        assert not link.told

    at_desk(tmp_path, story)


def test_offsets_as_members_have_them(tmp_path):
    async def story(desk):
        answers = await desk.join("G", client_id="c1", port=5)
        queue = MessageQueue("T", "broker-a", 0)
        answers.answer = Command(
            code=0, body=dumps(bodies.ConsumerStatus(message_queue_table={queue: 7}))
        )
        silent = await desk.join("G", client_id="c2", port=6)
        silent.answer = TimedOut("no answer")
        reply = await desk.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            headers.ConsumerStatusHeader(topic="T", group="G"),
        )
        assert loads(reply.body, bodies.ConsumerStatus).consumer_table == {"c1": {queue: 7}}
        reply = await desk.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            headers.ConsumerStatusHeader(topic="T", group="G", client_addr="c2"),
        )
        assert loads(reply.body, bodies.ConsumerStatus).consumer_table == {}
        reply = await desk.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            headers.ConsumerStatusHeader(topic="T", group="H"),
        )
        assert reply.code == ResponseCode.SYSTEM_ERROR

    at_desk(tmp_path, story)
