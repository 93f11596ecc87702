"""Heartbeats, leave-taking, members of a group, and checks of a client's filters."""

import asyncio

import pytest

from broker.desk import FakeLink
from broker.whole import at_broker, consumer_beat, open_whole
from cometmq.broker.tables.clients import SILENCE_MS_MAX
from cometmq.protocol.bodies.heartbeat import CheckClient, ConsumerIds, Heartbeat, ProducerData
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.client import ConsumerGroupHeader, UnregisterClientHeader
from cometmq.protocol.java.fastjson import dumps, loads
from remoting.rig import raw_peer, until


async def members(whole, group="G"):
    code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    reply = await whole.ask(code, ConsumerGroupHeader(consumer_group=group))
    return loads(reply.body, ConsumerIds).consumer_id_list if reply.code == 0 else reply.remark


def test_a_heartbeat_makes_the_group_and_its_retry_topic():
    async def story(whole):
        whole.groups.put(GroupConfig(group_name="H", retry_queue_nums=3))
        await whole.consume("G", ("T", "*"), unit_mode=True)
        await whole.consume("H", ("T", "*"), client_id="c2", port=4)
        assert whole.groups.get("G") == GroupConfig(group_name="G")
        assert whole.topics.get("%RETRY%G").write_queue_nums == 1
        assert whole.topics.get("%RETRY%G").topic_sys_flag == 1
        assert whole.topics.get("%RETRY%H").write_queue_nums == 3

    at_broker(story)


def test_members_are_listed_by_id_and_an_empty_group_is_refused():
    async def story(whole):
        assert "no consumer for this group" in await members(whole)
        first = await whole.consume(client_id="b", port=1)
        await whole.consume(client_id="a", port=2)
        await whole.consume(client_id="a", port=3)  # a second connection of the same client
        assert await members(whole) == ["a", "b"]
        leave = UnregisterClientHeader(client_id="b", consumer_group="G", producer_group="")
        assert (await whole.ask(RequestCode.UNREGISTER_CLIENT, leave, link=first)).code == 0
        assert await members(whole) == ["a"]

    at_broker(story)


def test_a_client_cannot_unregister_another():
    async def story(whole):
        await whole.consume(client_id="c1", port=1)
        leave = UnregisterClientHeader(client_id="c1", consumer_group="G")
        await whole.ask(RequestCode.UNREGISTER_CLIENT, leave, link=FakeLink(9))
        assert await members(whole) == ["c1"]

    at_broker(story)


def test_one_heartbeat_with_a_bad_group_changes_nothing_of_the_others():
    async def story(whole):
        before = whole.state()
        good = consumer_beat("Good").consumer_data_set
        for bad in ("../x", "g" * 125):
            beat = Heartbeat(
                client_id="c1",
                consumer_data_set=[*good, *consumer_beat(bad).consumer_data_set],
                producer_data_set=[ProducerData(group_name="P")],
            )
            reply = await whole.ask(RequestCode.HEART_BEAT, body=dumps(beat))
            assert reply.code == ResponseCode.SYSTEM_ERROR
        assert whole.state() == before

    at_broker(story)


def test_an_unknown_group_costs_the_others_of_a_client_nothing_where_none_is_made():
    """A client beats for all groups of its process at once; the pulls of this one are refused."""

    async def story(whole):
        whole.make_topic()
        whole.groups.put(GroupConfig(group_name="G"))
        groups = [consumer_beat(name, ("T", "*")).consumer_data_set[0] for name in ("G", "H")]
        beat = Heartbeat(
            client_id="c1",
            consumer_data_set=groups,
            producer_data_set=[ProducerData(group_name="P")],
        )
        assert (await whole.ask(RequestCode.HEART_BEAT, body=dumps(beat))).code == 0
        assert await members(whole) == ["c1"]
        assert "P" in whole.clients.producers
        assert whole.groups.get("H") is None
        assert whole.topics.get("%RETRY%H") is None
        read = await whole.pull(consumer_group="G", sys_flag=0)
        assert read.code == ResponseCode.PULL_NOT_FOUND
        refused = await whole.pull(consumer_group="H", sys_flag=0)
        assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    at_broker(story, auto_create_subscription_group=False)


def test_a_silent_client_is_dropped_and_one_that_talks_stays():
    async def story(whole):
        silent = await whole.consume(client_id="silent", port=1)
        talker = await whole.consume(client_id="talker", port=2)
        for _ in range(4):
            await whole.clock.advance(SILENCE_MS_MAX // 3)
            beat = dumps(consumer_beat(client_id="talker"))
            await whole.ask(RequestCode.HEART_BEAT, body=beat, link=talker)
        assert (silent.is_closed, talker.is_closed) == (True, False)

    at_broker(story)


def test_a_client_that_left_its_groups_keeps_its_connection():
    async def story(whole):
        link = await whole.consume(client_id="c1", port=1)
        leave = UnregisterClientHeader(client_id="c1", consumer_group="G")
        await whole.ask(RequestCode.UNREGISTER_CLIENT, leave, link=link)
        await whole.clock.advance(3 * SILENCE_MS_MAX)
        assert not link.is_closed

    at_broker(story)


def test_a_lost_connection_takes_its_client_along():
    async def story():
        async with open_whole() as whole:
            async with raw_peer(whole.broker.port) as peer:
                beat = Command(code=RequestCode.HEART_BEAT, opaque=1, body=dumps(consumer_beat()))
                await peer.send(encode_frame(beat))
                assert (await peer.command()).code == 0
                assert await members(whole) == ["c1"]
            await until(lambda: not whole.clients.consumers, "its end")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("subscription", "code"),
    [
        (subscription_of("T", "a || b"), 0),
        (subscription_of("T", "a > 5", "SQL92"), 0),
        (subscription_of("T", "a >", "SQL92"), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_a_client_can_have_its_filter_checked(subscription, code):
    async def story(whole):
        body = dumps(CheckClient(client_id="c1", group="G", subscription_data=subscription))
        reply = await whole.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        assert reply.code == code

    at_broker(story, enable_property_filter=True)


def test_a_broker_without_sql_says_which_setting_would_allow_it():
    async def story(whole):
        subscription = subscription_of("T", "a > 5", "SQL92")
        body = dumps(CheckClient(client_id="c1", group="G", subscription_data=subscription))
        reply = await whole.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "enablePropertyFilter" in reply.remark

    at_broker(story)
