"""How far groups are, and moves of them."""

import asyncio

from broker.desk import at_desk
from cometmq.errors import Unreachable
from cometmq.protocol.bodies import stats as bodies
from cometmq.protocol.bodies.consumer import CorrectionOffsets, ResetOffsets, ResetOffsetsFlat
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.tables import ConsumerOffsetTable, DelayOffsetTable, GroupConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers import consumer as headers
from cometmq.protocol.java.fastjson import loads
from remoting.rig import until

NO_CORRECTION = 2**63 - 1


def queue(queue_id, topic="T"):
    return MessageQueue(topic, "broker-a", queue_id)


async def fill(desk, topic="T", count=4, queue_id=0, queues=2):
    """A message a second, the first one now."""
    desk.make_topic(topic, queues)
    begin_ms = desk.clock.wall_ms()
    for _ in range(count):
        desk.put(topic, queue_id)
        await desk.clock.advance(1000)
    return begin_ms


async def consumed(desk, group="G", topic=None):
    reply = await desk.ask(
        RequestCode.GET_CONSUME_STATS, headers.ConsumeStatsHeader(consumer_group=group, topic=topic)
    )
    assert reply.code == 0, reply.remark
    return loads(reply.body, bodies.ConsumeStats)


def test_progress_of_a_group(tmp_path):
    async def story(desk):
        begin_ms = await fill(desk)
        await fill(desk, "U")
        desk.offsets.commit("G", "T", 0, 3)
        desk.offsets.commit("G", "U", 1, 0)
        desk.offsets.commit("G", "gone", 1, 0)
        desk.stats.got("G", "T", 0, 20, 1)
        desk.stats.got("G", "U", 0, 10, 1)
        found = await consumed(desk)
        assert found.consume_tps == 3.0
        assert {str(each): each for each in found.offset_table}.keys() == {
            str(queue(queue_id, topic)) for queue_id in (0, 1) for topic in ("T", "U")
        }
        place = found.offset_table[queue(0)]
        assert (place.broker_offset, place.consumer_offset) == (4, 3)
        assert place.last_timestamp == begin_ms + 2000, "of the last message that it consumed"
        found = await consumed(desk, topic="T")
        assert (found.consume_tps, len(found.offset_table)) == (2.0, 2)
        assert (await consumed(desk, topic="unknown")).offset_table == {}

    at_desk(tmp_path, story)


def test_a_topic_that_the_members_left_is_not_shown(tmp_path):
    async def story(desk):
        await fill(desk)
        desk.offsets.commit("G", "T", 0, 3)
        await desk.join("G", "U")
        assert (await consumed(desk)).offset_table == {}

    at_desk(tmp_path, story)


def test_progress_of_all_groups(tmp_path):
    async def story(desk):
        await fill(desk)
        desk.make_topic("O", 1, order=True)
        desk.put("O")
        for group in ("G", "H"):
            desk.groups.put(GroupConfig(group_name=group))
        desk.offsets.commit("G", "T", 0, 1)
        desk.offsets.commit("H", "O", 0, 0)

        async def shown(is_order):
            reply = await desk.ask(
                RequestCode.GET_BROKER_CONSUME_STATS,
                headers.BrokerConsumeStatsHeader(is_order=is_order),
            )
            return loads(reply.body, bodies.ConsumeStatsList)

        found = await shown(False)
        assert (found.total_diff, found.broker_addr) == (4, "127.0.0.1:10911")
        stats = {name: each for one in found.consume_stats_list for name, each in one.items()}
        assert {name for name, topics in stats.items() if topics} == {"G", "H"}
        found = await shown(True)
        stats = {name: each for one in found.consume_stats_list for name, each in one.items()}
        assert {name for name, topics in stats.items() if topics} == {"H"}
        assert stats["G"] == []
        assert found.total_diff == 1

    at_desk(tmp_path, story)


def test_time_spans(tmp_path):
    async def story(desk):
        begin_ms = await fill(desk)
        desk.offsets.commit("G", "T", 0, 2)
        reply = await desk.ask(
            RequestCode.QUERY_CONSUME_TIME_SPAN, headers.TimeSpanHeader(topic="T", group="G")
        )
        spans = loads(reply.body, bodies.QueueTimeSpans).consume_time_span_set
        full, empty = spans
        assert (full.min_ms, full.max_ms) == (begin_ms, begin_ms + 3000)
        assert (full.consume_ms, full.delay_time) == (begin_ms + 1000, 2000)
        assert (empty.min_ms, empty.max_ms, empty.consume_ms, empty.delay_time) == (-1, -1, -1, 0)
        assert (full.message_queue, empty.message_queue) == (queue(0), queue(1))
        reply = await desk.ask(
            RequestCode.QUERY_CONSUME_TIME_SPAN, headers.TimeSpanHeader(topic="U", group="G")
        )
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST

    at_desk(tmp_path, story)


def test_corrections(tmp_path):
    async def story(desk):
        await fill(desk)
        desk.offsets.commit("me", "T", 0, 3)
        desk.offsets.commit("me", "T", 1, 0)
        for group, offset in (("slow", 1), ("fast", 4), ("left-out", 0)):
            desk.offsets.commit(group, "T", 0, offset)
        desk.offsets.commit("slow", "T", 1, 2)
        reply = await desk.ask(
            RequestCode.QUERY_CORRECTION_OFFSET,
            headers.CorrectionHeader(topic="T", compare_group="me", filter_groups="x,left-out"),
        )
        found = loads(reply.body, CorrectionOffsets).correction_offsets
        assert found == {0: 1, 1: 0}
        left_out = headers.CorrectionHeader(
            topic="T", compare_group="me", filter_groups="x,left-out,me"
        )
        reply = await desk.ask(RequestCode.QUERY_CORRECTION_OFFSET, left_out)
        found = loads(reply.body, CorrectionOffsets).correction_offsets
        assert found == {0: 1, 1: NO_CORRECTION}

    at_desk(tmp_path, story)


def test_tables_for_a_slave(tmp_path):
    async def story(desk):
        desk.offsets.commit("G", "T", 0, 3)
        reply = await desk.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert loads(reply.body, ConsumerOffsetTable).offset_table == {"T@G": {0: 3}}
        reply = await desk.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert loads(reply.body, DelayOffsetTable).offset_table == {1: 7}

    at_desk(tmp_path, story)


def reset(timestamp, is_force=True, topic="T", group="G"):
    return headers.ResetOffsetHeader(
        topic=topic, group=group, timestamp=timestamp, is_force=is_force
    )


async def moved(desk, ask, **more):
    reply = await desk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ask, **more)
    assert reply.code == 0, reply.remark
    return loads(reply.body, ResetOffsets).offset_table


def test_members_are_notified_of_a_reset_in_their_format(tmp_path):
    async def story(desk):
        begin_ms = await fill(desk)
        desk.offsets.commit("G", "T", 0, 4)
        java = await desk.join("G", client_id="java", port=5)
        cpp = await desk.join("G", client_id="cpp", port=6, language="CPP")
        gone = await desk.join("G", client_id="gone", port=7)
        gone.answer = Unreachable("closed")
        await desk.clock.advance(0)
        for link in (java, cpp, gone):
            link.told.clear()
        assert await moved(desk, reset(begin_ms + 2000)) == {queue(0): 2, queue(1): 0}
        assert desk.offsets.of("G", "T") == {0: 2, 1: 0}
        (told,) = java.told
        assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert told.header == reset(begin_ms + 2000)
        assert loads(told.body, ResetOffsets).offset_table == {queue(0): 2, queue(1): 0}
        flat = loads(cpp.told[0].body, ResetOffsetsFlat).offset_table
        assert [(one.topic, one.broker_name, one.queue_id, one.offset) for one in flat] == [
            ("T", "broker-a", 0, 2), ("T", "broker-a", 1, 0),
        ]  # fmt: skip
        await moved(desk, reset(begin_ms), language="CPP")
        assert java.told[1].body == cpp.told[1].body, "an administrator may ask for the flat form"

    at_desk(tmp_path, story)


def test_members_are_notified_of_a_reset_after_the_requester_left(tmp_path):
    """Else they would soon set the offsets back."""

    async def story(desk):
        begin_ms = await fill(desk)
        desk.offsets.commit("G", "T", 0, 4)
        member = await desk.join("G", client_id="java", port=5)
        await desk.clock.advance(0)
        member.told.clear()
        asker = asyncio.ensure_future(moved(desk, reset(begin_ms)))
        await asyncio.sleep(0)
        asker.cancel()
        await asyncio.gather(asker, return_exceptions=True)
        assert (asker.cancelled(), member.told) == (True, [])
        await until(lambda: member.told)
        assert member.told[0].code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    at_desk(tmp_path, story)


def test_a_group_that_is_not_online_is_reset_too(tmp_path):
    async def story(desk):
        begin_ms = await fill(desk)
        desk.groups.put(GroupConfig(group_name="never-consumed"))
        table = await moved(desk, reset(begin_ms + 1000, False, group="never-consumed"))
        assert table == {queue(0): 1, queue(1): 0}
        kept = loads((tmp_path / "config/consumerOffset.json").read_bytes(), ConsumerOffsetTable)
        assert kept.offset_table == {"T@never-consumed": {0: 1, 1: 0}}

    at_desk(tmp_path, story)


def test_a_group_goes_forward_only_by_force(tmp_path):
    async def story(desk):
        begin_ms = await fill(desk)
        desk.offsets.commit("G", "T", 0, 2)
        assert (await moved(desk, reset(begin_ms + 3000, False)))[queue(0)] == 2
        assert (await moved(desk, reset(begin_ms + 3000)))[queue(0)] == 3
        assert (await moved(desk, reset(begin_ms + 1000, False)))[queue(0)] == 1
        assert (await moved(desk, reset(-1)))[queue(0)] == 4, "past all messages"

    at_desk(tmp_path, story)


def test_a_reset_of_unknown_names_changes_nothing(tmp_path):
    async def story(desk):
        await fill(desk)
        before = desk.offsets.body
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        assert (await desk.ask(code, reset(0, group="nobody"))).code == ResponseCode.SYSTEM_ERROR
        reply = await desk.ask(code, reset(0, topic="nothing"))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert desk.offsets.body == before

    at_desk(tmp_path, story)


def test_a_group_is_put_where_another_is(tmp_path):
    async def story(desk):
        for topic in ("T", "U"):
            desk.make_topic(topic)
            desk.offsets.commit("G", topic, 0, 3)
        desk.offsets.commit("G", "gone", 0, 3)
        code = RequestCode.CLONE_GROUP_OFFSET
        await desk.ask(code, headers.CloneOffsetHeader(src_group="G", dest_group="one", topic="T"))
        await desk.ask(code, headers.CloneOffsetHeader(src_group="G", dest_group="all"))
        assert desk.offsets.topics_of("one") == ["T"]
        assert desk.offsets.topics_of("all") == ["T", "U"]
        await desk.join("G", "T")
        await desk.ask(code, headers.CloneOffsetHeader(src_group="G", dest_group="now"))
        assert desk.offsets.topics_of("now") == ["T"], "what its members subscribe to"
        await desk.ask(
            code, headers.CloneOffsetHeader(src_group="G", dest_group="ever", offline=True)
        )
        assert desk.offsets.topics_of("ever") == ["T", "U"]
        bad = headers.CloneOffsetHeader(src_group="nobody", dest_group="one")
        reply = await desk.ask(code, bad)
        assert (reply.code, "nobody" in reply.remark) == (ResponseCode.SYSTEM_ERROR, True)
        bad = headers.CloneOffsetHeader(src_group="G", dest_group="one", topic="nowhere")
        assert (await desk.ask(code, bad)).code == 0, "nothing is cloned"
        bad = headers.CloneOffsetHeader(src_group="G", dest_group="a@b")
        assert (await desk.ask(code, bad)).code == ResponseCode.SYSTEM_ERROR

    at_desk(tmp_path, story)
