"""Where groups are, and where queues begin and end, as clients ask for them."""

import pytest

from broker.whole import at_broker
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.offset import (
    QueryOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateOffsetHeader,
)

BOUNDS = {"first": RequestCode.GET_MIN_OFFSET, "end": RequestCode.GET_MAX_OFFSET}


def query(whole, group="G", topic="T", queue_id=0):
    header = QueryOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id)
    return whole.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)


def update(whole, offset, group="G", topic="T", queue_id=0):
    header = UpdateOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )
    return whole.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def test_an_offset_is_what_was_last_committed():
    async def story(whole):
        whole.make_topic()
        for offset in (5, 3):
            assert (await update(whole, offset)).code == 0
            assert (await query(whole)).header.offset == offset
        assert (await query(whole, queue_id=1)).header.offset == 0
        assert whole.groups.get("G") is None, "a commit makes no group"

    at_broker(story)


def test_a_new_group_starts_at_the_beginning_of_a_young_queue():
    """Of one whose beginning is gone, or far from its end, the client decides for itself."""

    async def story(whole):
        whole.make_topic()
        for _ in range(3):
            await whole.send()
        assert (await query(whole)).header.offset == 0
        whole.store.is_hot = lambda *_: False
        reply = await query(whole)
        assert reply.code == ResponseCode.QUERY_NOT_FOUND
        assert "T queue 0" in reply.remark

    at_broker(story)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"topic": "Nobody"}, {}),
        ({"queue_id": 2}, {}),
        ({"queue_id": -1}, {}),
        ({"offset": -1}, {"T@G": {0: -1}}),
    ],
)
def test_any_commit_succeeds_but_only_known_queues_have_offsets(changes, found):
    async def story(whole):
        whole.make_topic()
        reply = await update(whole, **({"offset": 5} | changes))
        assert reply.code == 0, reply.remark
        assert whole.offsets.body.offset_table == found

    at_broker(story)


def test_an_offset_below_0_counts_as_none():
    async def story(whole):
        whole.make_topic()
        await update(whole, -1)
        assert (await query(whole)).header.offset == 0

    at_broker(story)


@pytest.mark.parametrize("changes", [{"group": "../x"}, {"topic": "a@b"}])
def test_an_offset_under_a_bad_name_is_refused(changes):
    async def story(whole):
        whole.make_topic()
        before = whole.state()
        reply = await update(whole, **({"offset": 5} | changes))
        assert (reply.code, bool(reply.remark)) == (ResponseCode.SYSTEM_ERROR, True)
        assert whole.state() == before

    at_broker(story)


def test_bounds_of_a_queue():
    async def story(whole):
        whole.make_topic()
        for _ in range(3):
            await whole.send(queue_id=1)
        for queue_id, bounds in ((0, (0, 0)), (1, (0, 3))):
            header = QueueHeader(topic="T", queue_id=queue_id)
            found = [(await whole.ask(code, header)).header.offset for code in BOUNDS.values()]
            assert tuple(found) == bounds
        for code in BOUNDS.values():
            for topic, queue_id in (("T", 9), ("T", -1), ("Nobody", 0)):
                reply = await whole.ask(code, QueueHeader(topic=topic, queue_id=queue_id))
                assert (reply.code, reply.header.offset) == (0, 0), "as an empty queue"

    at_broker(story)


def test_offsets_by_time_and_the_time_of_the_first():
    async def story(whole):
        whole.make_topic()
        start_ms = whole.clock.wall_ms()
        for _ in range(5):
            await whole.send()
            await whole.clock.advance(1_000)
        found = []
        for wanted_ms in (0, start_ms, start_ms + 2_000, start_ms + 60_000):
            header = SearchOffsetHeader(topic="T", queue_id=0, timestamp=wanted_ms)
            reply = await whole.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
            found.append(reply.header.offset)
        assert found[:3] == [0, 0, 2]
        assert found[3] in (4, 5)
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        reply = await whole.ask(code, QueueHeader(topic="T", queue_id=0))
        assert reply.header.timestamp == start_ms

    at_broker(story)


def test_offsets_are_written_every_five_seconds():
    async def story(whole):
        whole.make_topic()
        await update(whole, 5)
        await whole.clock.advance(4_999)
        assert not whole.offsets.file.is_saved
        await whole.clock.advance(1)
        assert whole.offsets.file.is_saved

    at_broker(story)
