"""Messages by key and by place, and units of queues."""

import threading

import msgspec
import pytest

from broker.desk import at_desk
from cometmq.broker.filtering.expressions import _COMPILERS
from cometmq.protocol.bodies.stats import QueueUnits
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers import query as headers
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.message import unpack_records

EVER_MS = 2**62


def by_key(key, max_num=32, topic="T", begin=0, end=EVER_MS, unique=None):
    return headers.QueryMessageHeader(
        topic=topic, key=key, max_num=max_num, begin_timestamp=begin, end_timestamp=end,
        unique_key_query=unique,
    )  # fmt: skip


def bodies(reply):
    assert reply.code == 0, reply.remark
    return [message.body for message in unpack_records(reply.body)]


def test_messages_by_key(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        desk.make_topic("U")
        desk.put("T", body=b"1", KEYS="k other")
        desk.put("T", body=b"2", KEYS="k", UNIQ_KEY="ID2")
        desk.put("U", body=b"3", KEYS="k")
        code = RequestCode.QUERY_MESSAGE
        reply = await desk.ask(code, by_key("k"))
        assert sorted(bodies(reply)) == [b"1", b"2"]
        assert reply.header.index_last_update_phyoffset == desk.store.log_bounds[1]
        assert len(bodies(await desk.ask(code, by_key("k", max_num=1)))) == 1
        assert bodies(await desk.ask(code, by_key("other"))) == [b"1"]
        assert bodies(await desk.ask(code, by_key("ID2", max_num=-5, unique=True))) == [b"2"]
        now_ms = desk.clock.wall_ms()
        for ask in (by_key("none"), by_key("k", begin=now_ms + 1), by_key("k", end=now_ms - 1)):
            reply = await desk.ask(code, ask)
            assert (reply.code, reply.body) == (ResponseCode.QUERY_NOT_FOUND, b"")
        assert (await desk.ask(code, by_key("k", max_num=0))).code == ResponseCode.QUERY_NOT_FOUND
        assert (await desk.ask(code, by_key("k", max_num=-1))).code == ResponseCode.SYSTEM_ERROR
        reply = await desk.ask(code, by_key("k", topic="V"))
        assert reply.code == ResponseCode.QUERY_NOT_FOUND

    at_desk(tmp_path, story)


def test_an_answer_fits_a_frame(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        for _ in range(6):
            desk.put("T", body=bytes(3 << 20), KEYS="k")
        assert len(bodies(await desk.ask(RequestCode.QUERY_MESSAGE, by_key("k")))) == 2

    at_desk(tmp_path, story, store_settings={"mapped_file_size_commit_log": 32 << 20})


def test_without_an_index_nothing_is_found_by_key_and_that_is_said(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        reply = await desk.ask(RequestCode.QUERY_MESSAGE, by_key("k"))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "messageIndexEnable" in reply.remark

    at_desk(tmp_path, story, store_settings={"message_index_enable": False})


def test_a_message_by_its_place(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        desk.put("T", body=b"1")
        stored = desk.put("T", body=b"2", TAGS="a")
        ask = headers.ViewMessageHeader(offset=stored.physical_offset)
        reply = await desk.ask(RequestCode.VIEW_MESSAGE_BY_ID, ask)
        view = desk.store.get("T", 0, 1, 1).views[0]
        assert (reply.code, reply.body) == (0, bytes(view)), "the same bytes as in the log"

    at_desk(tmp_path, story)


@pytest.mark.parametrize("offset", [-1, 3, 10**9, 2**63 - 1, -(2**63)])
def test_a_place_without_a_message(tmp_path, offset):
    async def story(desk):
        desk.put("T")
        ask = headers.ViewMessageHeader(offset=offset)
        reply = await desk.ask(RequestCode.VIEW_MESSAGE_BY_ID, ask)
        assert (reply.code, reply.body) == (ResponseCode.SYSTEM_ERROR, b"")
        assert str(offset) in reply.remark

    at_desk(tmp_path, story)


def of_queue(queue_id=0, index=0, count=10, topic="T", group=None):
    return headers.QueryConsumeQueueHeader(
        topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group
    )


def test_units_of_a_queue(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        stored = [desk.put("T", TAGS=tag) for tag in ("a", "b", "a")]
        reply = await desk.ask(RequestCode.QUERY_CONSUME_QUEUE, of_queue(index=1))
        found = loads(reply.body, QueueUnits)
        assert (found.min_queue_index, found.max_queue_index) == (0, 3)
        assert [(unit.physic_offset, unit.physic_size) for unit in found.queue_data] == [
            (each.physical_offset, each.size) for each in stored[1:]
        ]
        assert [unit.tags_code for unit in found.queue_data] == [hash_code("b"), hash_code("a")]
        assert not any(unit.evaluated for unit in found.queue_data), "no group, no filter"

    at_desk(tmp_path, story)


def test_units_as_a_group_s_filter_sees_them(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        for tag in ("a", "b"):
            desk.put("T", TAGS=tag)
        await desk.join("G", "T", expression="b")
        reply = await desk.ask(RequestCode.QUERY_CONSUME_QUEUE, of_queue(group="G"))
        found = loads(reply.body, QueueUnits)
        assert not any(unit.evaluated for unit in found.queue_data), "of extensions only"
        assert found.subscription_data.sub_string == "b"
        reply = await desk.ask(RequestCode.QUERY_CONSUME_QUEUE, of_queue(group="H"))
        found = loads(reply.body, QueueUnits)
        assert (found.filter_data, len(found.queue_data)) == ("H@T is not online!", 2)

    at_desk(tmp_path, story)


def test_a_long_filter_of_a_group_is_compiled_on_a_thread(tmp_path, monkeypatch):
    threads = []
    compile_condition = _COMPILERS["SQL92"]

    def watched(text):
        threads.append(threading.current_thread())
        return compile_condition(text)

    monkeypatch.setitem(_COMPILERS, "SQL92", watched)

    async def story(desk):
        desk.make_topic("T")
        desk.put("T")
        await desk.join("G", "T")
        subscriptions = desk.clients.consumers["G"].subscriptions
        subscriptions["T"] = msgspec.structs.replace(
            subscriptions["T"], sub_string=" OR ".join(["a > 1"] * 500), expression_type="SQL92"
        )
        reply = await desk.ask(RequestCode.QUERY_CONSUME_QUEUE, of_queue(group="G"))
        assert len(loads(reply.body, QueueUnits).queue_data) == 1
        assert threads and threading.main_thread() not in threads

    at_desk(tmp_path, story, enable_property_filter=True)


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (of_queue(queue_id=1), 0),  # empty
        (of_queue(index=1), 0),
        (of_queue(index=-1), 0),
        (of_queue(queue_id=2), 0),  # as an empty one
        (of_queue(queue_id=-1), 0),
        (of_queue(topic="U"), ResponseCode.SYSTEM_ERROR),
        (headers.QueryConsumeQueueHeader(), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_units_that_are_not_there(tmp_path, ask, code):
    async def story(desk):
        desk.make_topic("T")
        desk.put("T")
        reply = await desk.ask(RequestCode.QUERY_CONSUME_QUEUE, ask)
        assert (reply.code, reply.body) == (code, b"")
        assert reply.remark

    at_desk(tmp_path, story)


def test_how_many_are_found_by_a_key(tmp_path):
    """As many as are asked for, up to maxMsgsNumBatch; by a unique one, defaultQueryMaxNum."""

    async def story(desk):
        desk.make_topic("T")
        for number in range(70):
            desk.put("T", body=b"%d" % number, KEYS="k", UNIQ_KEY="ID")
        code = RequestCode.QUERY_MESSAGE
        counts = [
            len(bodies(await desk.ask(code, ask)))
            for ask in (by_key("k", 40), by_key("k", 100), by_key("ID", 100, unique=True))
        ]
        assert counts == [40, 64, 32]

    at_desk(tmp_path, story)
