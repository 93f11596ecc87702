"""Messages that come again, later and later, and are buried at last."""

import msgspec
import pytest

from broker.desk import FakeLink
from broker.whole import consumer_beat
from broker.works import PRODUCER, at_work, new
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.handlers.send_back import SendBackHandlers
from cometmq.broker.tables.clients import Client
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.send import SendBackHeader
from cometmq.protocol.records.message_id import OffsetId
from cometmq.store.config import StoreConfig
from store.rig import NOON_MS

LEVEL_MS = (1_000, 5_000, 10_000, 30_000)


def back(offset, delay_level=0, **fields):
    return SendBackHeader(offset=offset, group="g", delay_level=delay_level, **fields)


def handler(works):
    return SendBackHandlers(
        Checks(works.topics, works.groups, works.settings, works.identity),
        works.retries,
        works.intake,
        SafeAnswers(works.topics, works.intake),
        works.stats,
    )


def sends_back(works, ask, link=None):
    return works.answer(handler(works).send_back, ask, link)


def joins(works, port):
    """A member of the group; its connection."""
    link = FakeLink(port)
    works.clients.heard(consumer_beat("g"), Client(link, f"c{port}", "JAVA", 407, 0, 0))
    return link


def dead(works):
    return len(works.stored("%DLQ%g"))


def test_the_first_retry_has_level_3_and_knows_where_it_comes_from():
    async def story(works):
        sent = works.put("T", 3, b"x", TAGS="a", UNIQ_KEY="U1")
        assert (await sends_back(works, back(sent.physical_offset))).code == 0
        await works.clock.advance(LEVEL_MS[2] - 1)
        assert works.stored("%RETRY%g") == []
        await works.clock.advance(1)
        (again,) = works.stored("%RETRY%g")
        (first,) = works.stored("T", 3)
        assert (again.body, again.flag, again.born_ms) == (b"x", 5, NOON_MS)
        assert again.born_host == PRODUCER
        assert again.reconsume_times == 1
        assert again.properties == {
            "TAGS": "a",
            "UNIQ_KEY": "U1",
            "WAIT": "false",
            "RETRY_TOPIC": "T",
            "ORIGIN_MESSAGE_ID": str(OffsetId(first.store_host, first.physical_offset)),
            "DELAY": "3",
            "REAL_TOPIC": "%RETRY%g",
            "REAL_QID": "0",
        }
        assert works.topics.get("%RETRY%g").perm == 6
        assert works.stats.returns.by_name["T@g"][0].count == 1

    at_work(story)


def test_the_next_retry_is_later_and_keeps_its_origin():
    async def story(works):
        sent = works.put()
        await sends_back(works, back(sent.physical_offset))
        await works.clock.advance(LEVEL_MS[2])
        (again,) = works.stored("%RETRY%g")
        await sends_back(works, back(again.physical_offset))
        await works.clock.advance(LEVEL_MS[3] - 1)
        assert len(works.stored("%RETRY%g")) == 1
        await works.clock.advance(1)
        third = works.stored("%RETRY%g")[1]
        assert third.reconsume_times == 2
        assert third.properties["RETRY_TOPIC"] == "T"
        assert third.properties["ORIGIN_MESSAGE_ID"] == again.properties["ORIGIN_MESSAGE_ID"]

    at_work(story)


def test_a_consumer_may_choose_the_delay():
    async def story(works):
        await sends_back(works, back(works.put().physical_offset, 1))
        await works.clock.advance(LEVEL_MS[0])
        (again,) = works.stored("%RETRY%g")
        assert again.properties["DELAY"] == "1"

    at_work(story)


def test_retries_are_spread_over_the_queues_of_the_group():
    async def story(works):
        works.groups.put(msgspec.structs.replace(works.groups.find("g"), retry_queue_nums=3))
        sent = works.put()
        for _ in range(60):
            await sends_back(works, back(sent.physical_offset, 1))
        await works.clock.advance(LEVEL_MS[0])
        counts = [len(works.stored("%RETRY%g", queue_id)) for queue_id in range(3)]
        assert sum(counts) == 60
        assert all(counts)
        assert works.topics.get("%RETRY%g").write_queue_nums == 3

    at_work(story)


@pytest.mark.parametrize(
    ("reconsume_times", "delay_level", "maximum", "is_dead"),
    [
        (15, 0, None, False),
        (16, 0, None, True),
        (0, -1, None, True),
        (1, 0, 2, False),
        (2, 0, 2, True),
        (16, 0, 17, False),
        (0, 0, 0, True),
        (1000, 0, -1, False),
    ],
)
def test_after_the_maximum_it_is_a_dead_letter_at_once(
    reconsume_times, delay_level, maximum, is_dead
):
    async def story(works):
        sent = works.put(reconsume_times=reconsume_times, DELAY="0", TAGS="a")
        ask = back(sent.physical_offset, delay_level, max_reconsume_times=maximum)
        assert (await sends_back(works, ask)).code == 0
        assert len(works.stored("%DLQ%g")) == is_dead
        if is_dead:
            (dead,) = works.stored("%DLQ%g")
            assert dead.reconsume_times == reconsume_times + 1
            assert dead.properties["RETRY_TOPIC"] == "T"
            assert dead.properties["DELAY"] == "0"
            topic = works.topics.get("%DLQ%g")
            assert (topic.perm, topic.write_queue_nums, topic.read_queue_nums) == (6, 1, 1)

    at_work(story)


def test_the_maximum_of_the_last_to_join_is_that_of_the_group():
    """Whoever has a message last, it comes again as often."""

    async def story(works):
        old, new_ = joins(works, 1), joins(works, 2)
        place = works.put(reconsume_times=4).physical_offset
        await sends_back(works, back(place, max_reconsume_times=5), old)
        assert dead(works) == 0
        await sends_back(works, back(place, max_reconsume_times=3), new_)
        assert dead(works) == 1
        await sends_back(works, back(place, max_reconsume_times=5), old)
        assert dead(works) == 2
        joins(works, 1)  # by its next heartbeat: it is not newer for that
        await sends_back(works, back(place, max_reconsume_times=5), old)
        assert dead(works) == 3
        # One that joins and says nothing, or was never a member, goes by what was said.
        for link in (joins(works, 3), FakeLink(4)):
            before = dead(works)
            await sends_back(works, back(place), link)
            assert dead(works) == before + 1
        works.clients.drop(new_)
        await sends_back(works, back(place, max_reconsume_times=5), old)
        assert dead(works) == 5

    at_work(story)


def test_a_client_that_is_no_member_decides_for_itself_alone():
    async def story(works):
        member = joins(works, 1)
        place = works.put(reconsume_times=4).physical_offset
        await sends_back(works, back(place, max_reconsume_times=3), FakeLink(2))
        assert dead(works) == 1
        await sends_back(works, back(place), member)
        assert dead(works) == 1

    at_work(story)


def test_the_maximum_of_the_group_bounds_what_an_orderly_member_sends():
    async def story(works):
        member = joins(works, 1)
        await sends_back(works, back(works.put().physical_offset, max_reconsume_times=3), member)
        late = new("%RETRY%g", 0, reconsume_times=4, RETRY_TOPIC="T")
        assert works.retries.limited(late, FakeLink(2), 20).topic == "%DLQ%g"

    at_work(story)


def test_a_group_without_retry_queues_wants_none():
    async def story(works):
        works.groups.put(msgspec.structs.replace(works.groups.find("g"), retry_queue_nums=0))
        end = works.put().end
        assert (await sends_back(works, back(0))).code == 0
        assert works.store.log_bounds[1] == end
        assert works.topics.get("%RETRY%g") is None

    at_work(story)


def test_what_cannot_be_sent_back_changes_nothing():
    async def story(works):
        sent = works.put()
        before = works.topics.names(), works.store.log_bounds
        for offset in (-1, 1, sent.end, 2**62):
            with pytest.raises(Refused, match="look message by offset failed") as refused:
                await sends_back(works, back(offset))
            assert refused.value.code == ResponseCode.SYSTEM_ERROR
        assert (works.topics.names(), works.store.log_bounds) == before

    at_work(story)


@pytest.mark.parametrize(("level", "topic"), [(0, "%RETRY%g"), (-1, "%DLQ%g")])
def test_the_topic_is_made_when_the_message_is_stored(level, topic):
    async def story(works):
        sent = works.put(body=bytes(600))
        before = works.topics.names()
        config = works.settings.now(StoreConfig)
        works.store.use(msgspec.structs.replace(config, max_message_size=500))
        with pytest.raises(Refused, match="maxMessageSize"):
            await sends_back(works, back(sent.physical_offset, delay_level=level))
        assert works.topics.names() == before
        works.store.use(config)
        reply = await sends_back(works, back(sent.physical_offset, delay_level=level))
        assert reply.code == 0
        assert set(works.topics.names()) == {*before, topic}

    at_work(story)


def test_an_unknown_group_is_refused_where_none_is_made():
    async def story(works):
        sent = works.put()
        with pytest.raises(Refused) as refused:
            await sends_back(works, back(sent.physical_offset))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        with pytest.raises(Refused) as refused:
            works.retries.limited(new("%RETRY%g"), FakeLink(), None)
        assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert works.topics.get("%RETRY%g") is None

    at_work(story, auto_create_subscription_group=False)


def test_a_topic_that_is_closed_to_writes_takes_no_retries():
    async def story(works):
        sent = works.put()
        works.topics.put(msgspec.structs.replace(works.topics.ensure("%RETRY%g", 1), perm=4))
        with pytest.raises(Refused) as refused:
            await sends_back(works, back(sent.physical_offset))
        assert refused.value.code == ResponseCode.NO_PERMISSION

    at_work(story)


def test_a_broker_that_takes_nothing_takes_no_retries():
    async def story(works):
        with pytest.raises(Refused) as refused:
            await sends_back(works, back(works.put().physical_offset))
        assert refused.value.code == ResponseCode.NO_PERMISSION

    at_work(story, broker_permission=4)


def test_it_is_acknowledged_when_its_topic_is_on_disk():
    async def story(works):
        sent = works.put()
        await works.topics.file.save()
        assert (await sends_back(works, back(sent.physical_offset))).code == 0
        assert works.topics.file.is_saved
        await works.kill()
        assert works.topics.get("%RETRY%g") is not None

    at_work(story)


@pytest.mark.parametrize(
    ("times", "maximum", "is_dead"),
    [(15, None, False), (16, None, True), (2, 3, False), (3, 3, True), (20, 21, False)],
)
def test_an_orderly_consumer_sends_to_the_retry_topic_itself(times, maximum, is_dead):
    async def story(works):
        message = new("%RETRY%g", 0, reconsume_times=times, DELAY="4", RETRY_TOPIC="T")
        limited = works.retries.limited(message, FakeLink(), maximum)
        if not is_dead:
            assert limited is message
            return
        assert (limited.topic, limited.queue_id) == ("%DLQ%g", 0)
        works.intake.put(limited, works.clock.wall_ms())
        (dead,) = works.stored("%DLQ%g")  # at once, whatever delay its consumer asked for
        assert (dead.reconsume_times, dead.properties["RETRY_TOPIC"]) == (times, "T")

    at_work(story)
