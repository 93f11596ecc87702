"""Replies to requests: pushed to who asked, and kept."""

import pytest

from broker.desk import FakeLink, at_desk
from cometmq.errors import TimedOut
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.send import SendHeader, SendHeaderV2
from cometmq.protocol.records.message import unpack_records
from cometmq.protocol.records.properties import decode_properties, encode_properties

TOPIC = "DefaultCluster_REPLY_TOPIC"


def header(shape=SendHeader, topic=TOPIC, queue_id=0, client_id="p1", default_topic="TBW102"):
    properties = {"CORRELATION_ID": "42", "REPLY_TO_CLIENT": client_id}
    return shape(
        producer_group="G", topic=topic, default_topic=default_topic, default_topic_queue_nums=4,
        queue_id=queue_id, sys_flag=0, born_timestamp=5, flag=0, reconsume_times=0,
        properties=encode_properties(properties),
    )  # fmt: skip


def kept(desk):
    found = desk.store.get(TOPIC, 0, 0, 32)
    return [one for view in found.views for one in unpack_records(view)]


@pytest.mark.parametrize(
    ("code", "shape"),
    [(RequestCode.SEND_REPLY_MESSAGE, SendHeader),
     (RequestCode.SEND_REPLY_MESSAGE_V2, SendHeaderV2)],
)  # fmt: skip
def test_a_reply_reaches_the_requester(tmp_path, code, shape):
    async def story(desk):
        asker = await desk.produce("P", client_id="p1")
        reply = await desk.ask(code, header(shape), b"answer", link=FakeLink(9))
        assert reply.code == 0, reply.remark
        assert reply.header.queue_offset == 0
        (told,) = asker.told
        assert (told.code, told.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"answer")
        properties = decode_properties(told.header.properties)
        assert properties["CORRELATION_ID"] == "42"
        assert properties["PUSH_REPLY_TIME"] == str(desk.clock.wall_ms())
        assert told.header.born_host == "/127.0.0.1:9"
        assert told.header.store_host == "/127.0.0.1:10911"
        (message,) = kept(desk)
        assert (message.body, message.properties["CORRELATION_ID"]) == (b"answer", "42")
        assert desk.stats.messages_put.now == 1

    at_desk(tmp_path, story)


def test_a_reply_without_a_requester_is_refused_and_stored(tmp_path):
    async def story(desk):
        reply = await desk.ask(RequestCode.SEND_REPLY_MESSAGE, header(), b"answer")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == "push reply message fail, channel of <p1> not found."
        reply = await desk.ask(RequestCode.SEND_REPLY_MESSAGE, header(client_id=None), b"answer")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "REPLY_TO_CLIENT" in reply.remark
        assert len(kept(desk)) == 2

    at_desk(tmp_path, story)


@pytest.mark.parametrize("answer", [TimedOut("no answer"), Command(code=1, remark="no answer")])
def test_a_reply_that_is_not_taken(tmp_path, answer):
    async def story(desk):
        asker = await desk.produce("P", client_id="p1")
        asker.answer = answer
        reply = await desk.ask(RequestCode.SEND_REPLY_MESSAGE, header(), b"answer")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "<p1>" in reply.remark
        assert "no answer" in reply.remark

    at_desk(tmp_path, story)


def test_replies_need_not_be_kept(tmp_path):
    async def story(desk):
        await desk.produce("P", client_id="p1")
        reply = await desk.ask(RequestCode.SEND_REPLY_MESSAGE, header(), b"answer")
        assert (reply.code, reply.header.msg_id) == (0, "0")
        assert kept(desk) == []

    at_desk(tmp_path, story, store_reply_message_enable=False)


def test_a_reply_that_cannot_be_kept_is_pushed_all_the_same(tmp_path):
    async def story(desk):
        asker = await desk.produce("P", client_id="p1")
        reply = await desk.ask(RequestCode.SEND_REPLY_MESSAGE, header(), bytes(2000))
        assert reply.code == 0
        assert len(asker.told) == 1
        assert kept(desk) == []

    at_desk(tmp_path, story, store_settings={"max_message_size": 1024})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "unknown", "default_topic": "none"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"topic": "a/b"}, ResponseCode.SYSTEM_ERROR),
        ({"queue_id": 1}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_reply_to_a_bad_topic_is_refused(tmp_path, changes, code):
    async def story(desk):
        asker = await desk.produce("P", client_id="p1")
        reply = await desk.ask(RequestCode.SEND_REPLY_MESSAGE, header(**changes), b"answer")
        assert (reply.code, asker.told, kept(desk)) == (code, [], [])

    at_desk(tmp_path, story)
