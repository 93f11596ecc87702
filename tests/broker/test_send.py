"""Sends: what becomes of them, how they are refused, and what an answer promises."""

import asyncio
from random import Random

import pytest

from batch_entries import BatchEntry, pack_batch
from broker.whole import at_broker, open_whole, send_header
from cometmq.broker.config import BrokerRole
from cometmq.protocol.bodies.tables import KeyValues, TopicConfigTable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.send import SendHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import CLOSED_TOPICS, HALF_TOPIC
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.dispatch import Call, Reply
from cometmq.store.config import FlushDiskType
from remoting.rig import raw_peer
from store.rig import read_all

SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
TOPICS = "/store/config/topics.json"


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def kept_topics(disk):
    file = disk._names.files.get(TOPICS)
    return loads(bytes(file.seen), TopicConfigTable).topic_config_table if file else {}


def test_a_message_is_stored_as_it_was_sent_and_the_answer_says_where():
    async def story(whole):
        whole.make_topic()
        for number in range(3):
            reply = await whole.send(
                queue_id=1, body=b"%d" % number, properties={"TAGS": "t", "k": "v"},
                flag=7, born_timestamp=5, reconsume_times=2,
            )  # fmt: skip
            assert (reply.code, reply.header.queue_id, reply.header.queue_offset) == (0, 1, number)
        stored = read_all(whole.store, "T", 1)[-1]
        assert stored.physical_offset == OffsetId.parse(reply.header.msg_id).physical_offset
        assert (stored.body, stored.flag, stored.born_ms, stored.reconsume_times) == (b"2", 7, 5, 2)
        assert stored.properties == {"TAGS": "t", "k": "v", "CLUSTER": "DefaultCluster"}
        assert (reply.header.region_id, reply.header.trace_on) == ("DefaultRegion", True)

    at_broker(story)


def test_both_forms_of_a_send_are_one():
    async def story(whole):
        whole.make_topic()
        long = SendHeader(
            **{name: getattr(send_header(), name) for name in SendHeader.__struct_fields__}
        )
        assert (await whole.ask(RequestCode.SEND_MESSAGE, long, b"x")).code == 0
        assert (await whole.send(body=b"x")).header.queue_offset == 1

    at_broker(story)


def test_below_zero_any_queue_is_meant():
    async def story(whole):
        whole.make_topic(queues=4)
        taken = {(await whole.send(queue_id=-1)).header.queue_id for _ in range(200)}
        assert taken == {0, 1, 2, 3}

    at_broker(story)


# Topics that are made by a send


def test_a_new_topic_is_on_disk_before_its_first_answer():
    async def story(whole):
        whole.disk.hold()
        sent = asyncio.ensure_future(whole.send("New"))
        await turns()
        assert not sent.done()
        assert "New" not in kept_topics(whole.disk)
        whole.disk.release()
        assert (await sent).code == 0
        assert "New" in kept_topics(whole.disk.crash(Random(7)))
        assert isinstance(whole.begin_send("New"), Reply), "the second send need not wait"

    at_broker(story)


def test_a_new_topic_that_cannot_be_kept_is_no_success():
    async def story(whole):
        whole.disk.room = 0
        reply = await whole.send("New")
        assert reply.code != 0
        assert "No space" in reply.remark
        whole.disk.room = None
        assert (await whole.send("New")).code == 0
        assert "New" in kept_topics(whole.disk)

    at_broker(story)


def test_a_new_topic_has_the_queues_that_its_producer_wants_up_to_the_pattern_s():
    async def story(whole):
        for wanted, made in ((3, 3), (100, 8)):
            name = f"New{wanted}"
            assert (await whole.send(name, default_topic_queue_nums=wanted)).code == 0
            assert whole.topics.get(name).write_queue_nums == made

    at_broker(story)


@pytest.mark.parametrize(
    "changes",
    [
        {"default_topic": "Nobody"},
        {"default_topic": "SELF_TEST_TOPIC"},
        {"default_topic_queue_nums": 0},
        {"default_topic_queue_nums": 4, "queue_id": 4},
        {"topic": "../New"},
        {"topic": "n" * 128},
        {"body": bytes(2000)},
    ],
)
def test_what_cannot_be_made_is_refused_and_not_made(changes):
    async def story(whole):
        before = whole.state()
        reply = await whole.send(**({"topic": "New"} | changes))
        assert reply.code != 0
        assert reply.remark
        assert whole.state() == before

    at_broker(story, store_settings={"max_message_size": 1024})


def test_without_auto_creation_an_unknown_topic_is_told():
    async def story(whole):
        reply = await whole.send("New")
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST
        assert "autoCreateTopicEnable" in reply.remark

    at_broker(story, auto_create_topic_enable=False)


def test_a_retry_that_a_consumer_sends_itself_makes_its_topic_with_one_queue():
    async def story(whole):
        assert (await whole.send("%RETRY%G", 3)).code == ResponseCode.SYSTEM_ERROR
        assert whole.topics.get("%RETRY%G") is None
        assert (await whole.send("%RETRY%G", max_reconsume_times=16)).code == 0
        assert whole.topics.get("%RETRY%G").write_queue_nums == 1

    at_broker(story)


# Refusals


@pytest.mark.parametrize("topic", sorted(CLOSED_TOPICS))
def test_nobody_sends_to_the_system_s_own(topic):
    async def story(whole):
        reply = await whole.send(topic)
        assert reply.code == ResponseCode.NO_PERMISSION
        assert topic in reply.remark

    at_broker(story)


def test_a_broker_that_may_not_be_written_to_refuses_new_and_ordered_topics_only():
    async def story(whole):
        whole.make_topic("Plain")
        whole.make_topic("Ordered", order=True)
        for topic, is_refused in (("Plain", False), ("Ordered", True), ("New", True)):
            reply = await whole.send(topic)
            assert (reply.code == ResponseCode.NO_PERMISSION) is is_refused
        assert "sending message is forbidden" in reply.remark

    at_broker(story, broker_permission=4)


def test_sends_before_their_time_are_refused():
    async def story(whole):
        whole.make_topic()
        reply = await whole.send()
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "startAcceptSendRequestTimeStamp" in reply.remark
        await whole.clock.advance(1_000)
        assert (await whole.send()).code == 0

    at_broker(story, start_accept_send_request_time_stamp=1_700_000_001_000)


def test_a_send_that_waited_too_long_is_refused_as_busy_with_the_limit_s_name():
    async def story(whole):
        whole.make_topic()
        now_ms = whole.clock.wall_ms()
        late = {"header": send_header(), "body": b"x"}
        code = RequestCode.SEND_MESSAGE_V2
        assert (await whole.ask(code, **late, received_ms=now_ms - 200)).code == 0
        reply = await whole.ask(code, **late, received_ms=now_ms - 201)
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert "TIMEOUT_CLEAN_QUEUE" in reply.remark
        assert "waitTimeMillsInSendQueue=200" in reply.remark
        assert whole.store.bounds("T", 0) == (0, 1)
        await whole.settings.update(b"brokerFastFailureEnable=false")
        assert (await whole.ask(code, **late, received_ms=now_ms - 201)).code == 0

    at_broker(story)


def test_after_a_write_that_took_too_long_sends_are_refused_as_busy():
    async def story(whole):
        whole.make_topic()
        put = whole.store.put

        def slowly(message, now_ms, **_):
            stored = put(message, now_ms)
            whole.clock.skip(took_ms)
            return stored

        for took_ms, busy in ((1_000, False), (1_001, True)):
            whole.store.put = slowly
            assert (await whole.send()).code == 0  # it is stored all the same
            whole.store.put = put
            info = await whole.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            told = loads(info.body, KeyValues).table["pageCacheLockTimeMills"]
            assert told == str(took_ms if busy else 0)
            reply = await whole.send()
            assert (reply.code == ResponseCode.SYSTEM_BUSY) == busy
        assert reply.remark.startswith(
            "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 0ms"
        )
        assert "took 1001ms" in reply.remark
        assert "osPageCacheBusyTimeOutMills=1000" in reply.remark
        await whole.settings.update(b"brokerFastFailureEnable=false")
        assert (await whole.send()).code == 0
        await whole.settings.update(b"brokerFastFailureEnable=true")
        assert (await whole.send()).code == ResponseCode.SYSTEM_BUSY
        whole.clock.jump(-3_600_000)  # and nobody waits an hour for it
        assert (await whole.send()).code == 0
        whole.clock.jump(3_600_000)
        await whole.clock.advance(100)
        assert (await whole.send()).code == 0

    at_broker(story)


@pytest.mark.parametrize("store_settings", [{}, SYNC])
def test_sends_of_one_read_are_refused_after_one_write_that_took_too_long(store_settings):
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        await whole.send()
        room = whole.routes[RequestCode.SEND_MESSAGE_V2]
        put = whole.store.put_all

        def send_three():
            calls = [Call(Command(code=310, body=b"x"), whole.link, whole.clock.wall_ms())] * 3
            return room.jointly(calls, [send_header()] * 3)

        def slowly(messages, now_ms, **options):
            whole.clock.skip(1_001)
            return put(messages, now_ms, **options)

        whole.store.put_all = slowly
        assert send_three() is not None
        assert send_three() is None  # they are left to `send`
        reply = await whole.send()
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert "PCBUSY_CLEAN_QUEUE" in reply.remark
        assert whole.store.bounds("T", 0) == (0, 4)

    at_broker(story, store_settings=store_settings)


def test_more_sends_that_wait_than_the_lane_takes_are_refused_as_busy():
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.hold()
        waiting = [asyncio.ensure_future(whole.begin_send()) for _ in range(3)]
        await turns()
        reply = await whole.send()
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert "REJECTREQUEST" in reply.remark
        assert "send lane, its limit, sendThreadPoolQueueCapacity=3;" in reply.remark
        whole.disk.release()
        assert [each.code for each in await asyncio.gather(*waiting)] == [0, 0, 0]

    at_broker(story, store_settings=SYNC, send_thread_pool_queue_capacity=3)


# What an answer promises


def test_every_send_status():
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.hold()
        slow = asyncio.ensure_future(whole.begin_send())
        await whole.clock.advance(5_000)
        assert (await slow).code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert slow.result().header.queue_offset == 0, "it is stored: its id is told"
        whole.disk.release()
        await turns()
        whole.disk._held = None
        assert (await whole.send()).code == ResponseCode.SUCCESS
        whole.disk.fail_sync_at = whole.disk.syncs
        assert (await whole.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        reply = await whole.send()
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "service not available now" in reply.remark

    at_broker(story, store_settings=SYNC)

    async def without_a_slave(whole):
        whole.make_topic()
        assert (await whole.send()).code == ResponseCode.SLAVE_NOT_AVAILABLE

    at_broker(without_a_slave, broker_role=BrokerRole.SYNC_MASTER)


def test_a_producer_that_does_not_wait_for_the_disk_need_not():
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.hold()
        reply = whole.begin_send(properties={"WAIT": "false", "k": "v"})
        assert isinstance(reply, Reply)
        assert "WAIT" not in read_all(whole.store)[0].properties

    at_broker(story, store_settings=SYNC)


def test_a_full_disk_says_so_and_sends_go_on_when_there_is_room():
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.room = 0
        codes = [(await whole.send(body=bytes(20 << 10))).code for _ in range(8)]
        assert codes[-1] == ResponseCode.SERVICE_NOT_AVAILABLE
        accepted = codes.count(0)
        assert codes == [0] * accepted + [ResponseCode.SERVICE_NOT_AVAILABLE] * (8 - accepted)
        whole.disk.room = None
        assert (await whole.send(body=b"after")).header.queue_offset == accepted
        assert [len(each.body) for each in read_all(whole.store)] == [20 << 10] * accepted + [5]

    at_broker(story)


# Batches


def batch(*bodies_of):
    return pack_batch([BatchEntry(body=body) for body in bodies_of])


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"topic": "%RETRY%G", "reconsume_times": 17}, "%DLQ%G"),
        ({"topic": "T", "properties": {"TRAN_MSG": "true", "PGROUP": "P"}}, HALF_TOPIC),
    ],
)
def test_the_broker_s_own_topics_are_made_when_a_message_is_in_them(changes, made):
    async def story(whole):
        for topic in ("T", "%RETRY%G"):
            whole.make_topic(topic)
        before = whole.state()
        reply = await whole.send(**changes, body=bytes(2000))
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert whole.state() == before
        assert (await whole.send(**changes)).code == 0
        topic = whole.topics.get(made)
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
        assert made in kept_topics(whole.disk)

    at_broker(story, store_settings={"max_message_size": 1024})


def test_how_long_a_send_takes_is_counted_until_it_is_safe():
    async def story(whole):
        came_ms = whole.clock.wall_ms() - 70
        await whole.ask(RequestCode.SEND_MESSAGE_V2, send_header(), received_ms=came_ms)
        assert whole.stats.took.ms_max == 70, "it waited in front of the loop"
        whole.disk.hold()
        waiting = asyncio.ensure_future(whole.send())
        await whole.clock.advance(300)
        assert whole.stats.took.ms_max == 70
        whole.disk.release()
        await waiting
        assert whole.stats.took.ms_max == 300
        assert sum(count for _, count in whole.stats.took._pairs()) == 2

    at_broker(story, store_settings=SYNC)


def test_a_batch_has_an_id_for_each_and_one_place():
    async def story(whole):
        whole.make_topic()
        await whole.send()
        ask = RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True)
        reply = await whole.ask(*ask, batch(b"a", b"b", b"c"))
        ids = reply.header.msg_id.split(",")
        assert (reply.code, reply.header.queue_offset, len(ids)) == (0, 1, 3)
        stored = read_all(whole.store)[1:]
        assert [each.body for each in stored] == [b"a", b"b", b"c"]
        assert [OffsetId.parse(each).physical_offset for each in ids] == [
            each.physical_offset for each in stored
        ]

    at_broker(story)


@pytest.mark.parametrize(
    "body", [b"", b"x", batch(b"a", b"b")[:-1], batch(b"a", bytes(2000)), batch(b"a") + b"\0\0\0"]
)
def test_a_batch_is_stored_whole_or_not_at_all(body):
    async def story(whole):
        whole.make_topic()
        before = whole.state()
        reply = await whole.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True), body)
        is_too_large = len(body) > 1024
        assert reply.code == (ResponseCode.MESSAGE_ILLEGAL if is_too_large else 1)
        assert reply.remark
        assert whole.state() == before

    at_broker(story, store_settings={"max_message_size": 1024})


def test_a_batch_to_a_retry_topic_is_stored():
    async def story(whole):
        header = send_header(topic="%RETRY%G", batch=True)
        reply = await whole.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch(b"a"))
        assert reply.code == 0, reply.remark

    at_broker(story)


# One-way


def test_a_one_way_send_is_stored_and_gets_no_answer():
    async def story():
        async with open_whole() as whole, raw_peer(whole.broker.port) as peer:
            whole.make_topic()

            def send(opaque, flag=0, topic="T"):
                return encode_frame(
                    Command(
                        code=RequestCode.SEND_MESSAGE_V2, opaque=opaque, flag=flag, body=b"x",
                        fields=write_header(send_header(topic=topic)),
                    )
                )  # fmt: skip

            oneway = CommandFlag.ONEWAY
            await peer.send(send(1, oneway) + send(2, oneway, "../bad") + send(3))
            answer = await peer.command()
            assert answer.opaque == 3
            assert whole.store.bounds("T", 0) == (0, 2)

    asyncio.run(story())


@pytest.mark.parametrize("properties", [{"MY_TRAN_MSG": "no"}, {"TRAN_MSG": "false"}])
def test_what_only_looks_like_a_half_message_is_none(properties):
    async def story(whole):
        whole.make_topic()
        await whole.send(properties=properties)
        assert whole.store.bounds("T", 0) == (0, 1)

    at_broker(story)


def test_messages_of_a_batch_are_not_delayed():
    async def story(whole):
        whole.make_topic()
        entries = [
            BatchEntry(body=b"x", properties_text=encode_properties({"DELAY": level}))
            for level in ("1", "2", "x")
        ]
        header = send_header(batch=True)
        reply = await whole.ask(RequestCode.SEND_BATCH_MESSAGE, header, pack_batch(entries))
        assert reply.code == 0, reply.remark
        assert whole.store.bounds("T", 0) == (0, 3)

    at_broker(story)


@pytest.mark.parametrize(("level", "code"), [("1", 13), ("x", 1), ("0", 0)])
def test_a_batch_that_asks_for_a_delay_is_refused(level, code):
    async def story(whole):
        whole.make_topic()
        header = send_header(batch=True, properties=encode_properties({"DELAY": level}))
        reply = await whole.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch(b"a"))
        assert reply.code == code, reply.remark

    at_broker(story)
