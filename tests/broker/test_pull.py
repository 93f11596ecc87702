"""Pulls: what is found, what is corrected, who waits, and what wakes him."""

import asyncio

import msgspec
import pytest

from broker.whole import (
    BROADCASTING,
    COMMIT,
    SUSPEND,
    WITH_SUBSCRIPTION,
    at_broker,
    bodies,
    open_whole,
    place,
    pull_header,
    send_header,
)
from cometmq.protocol.bodies.consumer import OffsetMoved
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.topic import TopicHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import OFFSET_MOVED_TOPIC
from cometmq.remoting.dispatch import Reply
from cometmq.store.message_store import MessageStore
from remoting.rig import raw_peer, until
from store.rig import read_all

FOUND, NOTHING = ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND
MOVED, AGAIN = ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY
WAITS = SUSPEND | WITH_SUBSCRIPTION
SQL = {"subscription": "a > 5", "expression_type": "SQL92"}


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def parked(whole, count=1, **changes):
    """Tasks of pulls that wait; one, if only one is wanted."""
    tasks = [whole.begin_pull(**({"sys_flag": WAITS} | changes)) for _ in range(count)]
    await turns()
    assert not any(isinstance(task, Reply) or task.done() for task in tasks), tasks
    return tasks[0] if count == 1 else tasks


# What is found


def test_messages_from_an_offset_and_where_to_read_on():
    async def story(whole):
        whole.make_topic()
        for number in range(5):
            await whole.send(body=b"%d" % number)
        reply = await whole.pull(queue_offset=1, max_msg_nums=3)
        assert (reply.code, bodies(reply)) == (FOUND, [b"1", b"2", b"3"])
        assert place(reply) == (4, 0, 5)
        assert reply.header.suggest_which_broker_id == 0

    at_broker(story)


@pytest.mark.parametrize(
    ("offset", "code", "following"),
    [(5, NOTHING, 5), (6, MOVED, 5), (2**63 - 1, MOVED, 5), (-1, MOVED, 0), (-(2**63), MOVED, 0)],
)
def test_an_offset_outside_of_the_queue_is_corrected_and_a_note_is_left(offset, code, following):
    async def story(whole):
        whole.make_topic()
        for _ in range(5):
            await whole.send()
        reply = await whole.pull(queue_offset=offset)
        assert (reply.code, place(reply)) == (code, (following, 0, 5))
        notes = read_all(whole.store, OFFSET_MOVED_TOPIC)
        assert len(notes) == (code == MOVED)
        for note in notes:
            told = loads(note.body, OffsetMoved)
            assert (told.consumer_group, told.offset_request) == ("G", offset)
            assert (told.offset_new, told.message_queue.queue_id) == (following, 0)

    at_broker(story)


def test_an_empty_queue_is_empty_and_any_other_offset_of_it_is_corrected():
    async def story(whole):
        whole.make_topic()
        assert (await whole.pull()).code == NOTHING
        reply = await whole.pull(queue_offset=7)
        assert (reply.code, place(reply)[0]) == (MOVED, 0)

    at_broker(story)


def test_where_nothing_matches_the_consumer_reads_on_at_once():
    async def story(whole):
        whole.make_topic()
        for tag in ("red", "red", "blue"):
            await whole.send(properties={"TAGS": tag})
        reply = await whole.pull(subscription="blue")
        assert (reply.code, place(reply)[0]) == (FOUND, 3)
        reply = await whole.pull(subscription="green")
        assert (reply.code, place(reply)) == (AGAIN, (3, 0, 3))

    at_broker(story)


def test_sql_looks_at_properties():
    async def story(whole):
        whole.make_topic()
        for number in (1, 9, 6):
            await whole.send(body=b"%d" % number, properties={"a": str(number)})
        assert bodies(await whole.pull(**SQL)) == [b"9", b"6"]

    at_broker(story, enable_property_filter=True)


# Refusals


def test_refusals_by_their_codes():
    async def story(whole):
        whole.make_topic()
        whole.make_topic("Closed", perm=2)
        before = whole.state()
        cases = [
            ({"topic": "Nobody"}, ResponseCode.TOPIC_NOT_EXIST, "Nobody"),
            ({"topic": "Closed"}, ResponseCode.NO_PERMISSION, "pulling message is forbidden"),
            ({"queue_id": 2}, ResponseCode.SYSTEM_ERROR, "2 queues"),
            ({"queue_id": -1}, ResponseCode.SYSTEM_ERROR, "queueId[-1]"),
            ({"sys_flag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST, "heartbeat"),
            ({"max_msg_nums": -1}, ResponseCode.SYSTEM_ERROR, "maxMsgNums"),
            ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse"),
            ({"consumer_group": "../x"}, ResponseCode.SYSTEM_ERROR, "group"),
        ]
        for changes, code, told in cases:
            reply = await whole.pull(**changes)
            assert (reply.code, told in reply.remark) == (code, True), (changes, reply)
        assert whole.state() == before
        await whole.consume("G", ("T", "*"), version=5)
        reply = await whole.pull(sys_flag=0, sub_version=6)
        assert reply.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        whole.groups.put(msgspec.structs.replace(whole.groups.get("G"), consume_enable=False))
        reply = await whole.pull()
        assert (reply.code, "consumeEnable" in reply.remark) == (ResponseCode.NO_PERMISSION, True)

    at_broker(story)


def test_a_group_is_made_by_its_first_pull():
    async def story(whole):
        whole.make_topic()
        assert whole.groups.get("G") is None
        await whole.pull()
        assert whole.groups.get("G").group_name == "G"

    at_broker(story)


def test_unknown_groups_are_refused_where_none_is_made():
    async def story(whole):
        whole.make_topic()
        reply = await whole.pull()
        assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert "autoCreateSubscriptionGroup" in reply.remark

    at_broker(story, auto_create_subscription_group=False)


def test_a_broker_that_may_not_be_read_from_says_so():
    async def story(whole):
        whole.make_topic()
        assert (await whole.pull()).code == ResponseCode.NO_PERMISSION

    at_broker(story, broker_permission=2)


def test_a_broadcasting_group_needs_the_permission():
    async def story(whole):
        whole.make_topic()
        await whole.consume("G", ("T", "*"), message_model=BROADCASTING)
        assert (await whole.pull(sys_flag=0)).code == NOTHING
        whole.groups.put(
            msgspec.structs.replace(whole.groups.get("G"), consume_broadcast_enable=False)
        )
        assert (await whole.pull(sys_flag=0)).code == ResponseCode.NO_PERMISSION

    at_broker(story)


# Who waits


def test_a_message_wakes_a_parked_pull():
    async def story(whole):
        whole.make_topic()
        task = await parked(whole)
        await whole.send(body=b"at last")
        reply = await task
        assert (bodies(reply), place(reply)) == ([b"at last"], (1, 0, 1))
        assert whole.lanes.in_flight("pull") == 0

    at_broker(story)


def test_a_message_that_comes_before_the_wait_has_begun_is_not_missed():
    """A pull and a send may be read from their connections in one turn of the loop."""

    async def story(whole):
        whole.make_topic()
        task = whole.begin_pull(sys_flag=WAITS)
        await whole.send(body=b"at once")  # stored before the loop turns
        await turns()
        assert task.done()
        assert bodies(task.result()) == [b"at once"]

    at_broker(story)


def test_many_parked_pulls_are_woken_by_one_message_and_others_stay():
    async def story(whole):
        whole.make_topic()
        tasks, other = await parked(whole, 200), await parked(whole, queue_id=1)
        await whole.send(body=b"x")
        assert [bodies(reply) for reply in await asyncio.gather(*tasks)] == [[b"x"]] * 200
        assert not other.done()
        assert whole.lanes.in_flight("pull") == 1
        await whole.clock.advance(15_000)
        assert other.result().code == NOTHING

    at_broker(story)


@pytest.mark.parametrize(("asked_ms", "waited_ms"), [(15_000, 15_000), (20_000, 20_000),
                                                     (2**63 - 1, 60_000)])  # fmt: skip
def test_a_parked_pull_is_answered_at_its_deadline(asked_ms, waited_ms):
    async def story(whole):
        whole.make_topic()
        task = await parked(whole, suspend_timeout_millis=asked_ms)
        await whole.clock.advance(waited_ms - 1)
        assert not task.done()
        await whole.clock.advance(1)
        assert (task.result().code, place(task.result())) == (NOTHING, (0, 0, 0))

    at_broker(story)


def test_without_long_polling_it_waits_a_second():
    async def story(whole):
        whole.make_topic()
        task = await parked(whole)
        await whole.clock.advance(999)
        assert not task.done()
        await whole.clock.advance(1)
        assert task.result().code == NOTHING

    at_broker(story, long_polling_enable=False)


def test_who_does_not_want_to_wait_does_not():
    async def story(whole):
        whole.make_topic()
        assert isinstance(whole.begin_pull(), Reply)
        assert isinstance(whole.begin_pull(sys_flag=WAITS, suspend_timeout_millis=0), Reply)
        assert isinstance(whole.begin_pull(sys_flag=WAITS, queue_offset=9), Reply)

    at_broker(story)


def test_only_a_tag_that_is_wanted_wakes_and_the_others_are_passed_over():
    async def story(whole):
        whole.make_topic()
        task = await parked(whole, subscription="blue")
        for tag in ("red", "red"):
            await whole.send(properties={"TAGS": tag})
        await turns()
        assert not task.done()
        await whole.send(body=b"sky", properties={"TAGS": "blue"})
        reply = await task
        assert (bodies(reply), place(reply)) == ([b"sky"], (3, 0, 3))

    at_broker(story)


def test_only_properties_that_match_wake_and_the_rest_is_passed_over():
    async def story(whole):
        whole.make_topic()
        task = await parked(whole, **SQL)
        for number in (1, 2, 3):
            await whole.send(properties={"a": str(number)})
            await turns()
            assert not task.done()
        await whole.send(body=b"six", properties={"a": "6"})
        reply = await task
        assert (bodies(reply), place(reply)) == ([b"six"], (4, 0, 4))

    at_broker(story, enable_property_filter=True)


def test_what_was_passed_over_is_told_at_the_deadline():
    async def story(whole):
        whole.make_topic()
        task = await parked(whole, **SQL)
        await whole.send(properties={"a": "1"})
        await whole.clock.advance(10_000)
        await whole.send(properties={"a": "2"})
        await whole.clock.advance(4_999)
        assert not task.done(), "a message that is not wanted gives no more time, and takes none"
        await whole.clock.advance(1)
        assert place(task.result())[0] == 2
        assert task.result().code in (NOTHING, AGAIN)

    at_broker(story, enable_property_filter=True)


def test_an_offset_rides_on_a_pull_when_it_comes_and_not_when_it_is_answered():
    async def story(whole):
        whole.make_topic()
        task = await parked(whole, sys_flag=WAITS | COMMIT, commit_offset=7)
        assert whole.offsets.get("G", "T", 0) == 7
        whole.offsets.commit("G", "T", 0, 9)  # another member, meanwhile
        await whole.send()
        await task
        assert whole.offsets.get("G", "T", 0) == 9

    at_broker(story)


def test_no_offset_is_taken_without_its_flag_or_below_zero():
    async def story(whole):
        whole.make_topic()
        await whole.pull(commit_offset=7)
        await whole.pull(sys_flag=WITH_SUBSCRIPTION | COMMIT, commit_offset=-1)
        assert whole.offsets.get("G", "T", 0) is None

    at_broker(story)


def test_the_second_port_answers_everything_but_pulls():
    async def story():
        async with open_whole() as whole, raw_peer(whole.broker.port - 2) as peer:
            whole.make_topic()
            for code, header, answer in (
                (RequestCode.PULL_MESSAGE, pull_header(), ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
                (RequestCode.SEND_MESSAGE_V2, send_header(), ResponseCode.SUCCESS),
            ):
                command = Command(code=code, opaque=1, fields=write_header(header))
                await peer.send(encode_frame(command))
                assert (await peer.command()).code == answer

    asyncio.run(story())


@pytest.mark.parametrize(("is_far", "suggested"), [(True, 7), (False, 3)])
def test_a_far_read_is_sent_to_a_slave_if_it_may_be(is_far, suggested):
    async def story(whole):
        whole.make_topic()
        await whole.send()
        found = msgspec.structs.replace(whole.store.get("T", 0, 0, 32), from_slave=is_far)
        whole.store.get = lambda *_: found
        group = GroupConfig(group_name="G", broker_id=3, which_broker_when_consume_slowly=7)
        whole.groups.put(group)
        assert (await whole.pull()).header.suggest_which_broker_id == 0
        await whole.settings.update(b"slaveReadEnable=true")
        assert (await whole.pull()).header.suggest_which_broker_id == suggested

    at_broker(story)


def test_a_parked_pull_reads_the_store_once_before_it_parks(monkeypatch):
    reads = []
    get = MessageStore.get
    monkeypatch.setattr(
        MessageStore, "get", lambda self, *given: reads.append(given[:3]) or get(self, *given)
    )

    async def story(whole):
        whole.make_topic()
        task = await parked(whole)
        assert reads == [("T", 0, 0)]
        await whole.send(body=b"a")
        assert bodies(await task) == [b"a"]
        assert len(reads) == 2

    at_broker(story)


def test_a_message_that_arrives_before_the_parked_pull_runs_wakes_it():
    async def story(whole):
        whole.make_topic()
        task = whole.begin_pull(sys_flag=WAITS)
        sent = whole.send(body=b"a")
        await sent
        assert bodies(await task) == [b"a"]

    at_broker(story)


def test_a_lost_connection_frees_its_parked_pull():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            await turns()
            others = whole.arrivals.count  # delays and transactions wait there too
            async with raw_peer(whole.broker.port) as peer:
                fields = write_header(pull_header(sys_flag=WAITS))
                pull = Command(code=RequestCode.PULL_MESSAGE, opaque=1, fields=fields)
                await peer.send(encode_frame(pull))
                await until(lambda: whole.arrivals.count == others + 1, "a parked pull")
                assert whole.lanes.in_flight("pull") == 1
            await until(lambda: whole.arrivals.count == others, "its end")
            assert whole.lanes.in_flight("pull") == 0

    asyncio.run(story())


def test_more_parked_pulls_than_the_lane_takes_are_refused_as_busy():
    async def story(whole):
        whole.make_topic()
        tasks = await parked(whole, 3)
        reply = await whole.pull(sys_flag=WAITS)
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert "pull lane" in reply.remark
        await whole.send()
        await asyncio.gather(*tasks)

    at_broker(story, pull_thread_pool_queue_capacity=3)


def test_when_the_broker_stops_every_parked_pull_is_answered():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            tasks = await parked(whole, 5)
        assert {(await task).code for task in tasks} == {NOTHING}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("before", "after"),
    [(("T", "A"), ("T", "A||B")), (("T", "a = 1", "SQL92"), ("T", "a < 9", "SQL92"))],
    ids=["tags", "sql"],
)
def test_a_group_that_subscribes_anew_while_it_waits_misses_nothing(before, after):
    async def story(whole):
        whole.make_topic()
        await whole.consume("G", before, version=1)
        task = await parked(whole, sys_flag=SUSPEND, sub_version=1)
        await whole.send(body=b"passed over", properties={"TAGS": "B", "a": "2"})
        await turns()
        await whole.consume("G", after, version=2)
        assert not task.done()
        await whole.send(body=b"wakes it", properties={"TAGS": "A", "a": "1"})
        assert bodies(await task) == [b"passed over", b"wakes it"]

    at_broker(story, enable_property_filter=True)


def test_a_group_that_is_no_more_is_told_so_when_its_wait_is_over():
    async def story(whole):
        whole.make_topic()
        link = await whole.consume("G", ("T", "A"))
        task = await parked(whole, sys_flag=SUSPEND)
        whole.clients.drop(link)
        await whole.clock.advance(15_000)
        assert task.result().code == ResponseCode.SUBSCRIPTION_NOT_EXIST

    at_broker(story)


def test_who_waits_is_told_when_his_group_may_read_no_more():
    async def story(whole):
        whole.make_topic()
        whole.groups.put(GroupConfig(group_name="G"))
        task = await parked(whole)
        whole.groups.put(GroupConfig(group_name="G", consume_enable=False))
        await whole.send(body=b"not for G")
        assert (await task).code == ResponseCode.NO_PERMISSION

    at_broker(story)


def test_who_waits_is_told_that_the_topic_is_no_more():
    async def story(whole):
        whole.make_topic()
        await whole.send()
        task = await parked(whole, queue_offset=1)
        header = TopicHeader(topic="T")
        assert (await whole.ask(RequestCode.DELETE_TOPIC_IN_BROKER, header)).code == 0
        await whole.clock.advance(15_000)
        assert (await task).code == ResponseCode.TOPIC_NOT_EXIST
        assert read_all(whole.store, OFFSET_MOVED_TOPIC, 0) == []

    at_broker(story)
