"""A push consumer on a fake broker, whose clock a test moves."""

import asyncio

import pytest

from client.consumer.push_broker import Gate, PushBroker, Taken, consuming, settle
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.consumer.shared.outcomes import Ack, Retry
from cometmq.errors import BadSetting, Closed, Refused
from cometmq.protocol.bodies.consumer import ConsumeResult
from cometmq.protocol.codes import RequestCode, ResponseCode

RETRY_TOPIC = "%RETRY%G"


def broker_of(**topics):
    return PushBroker(**{"T": 1, RETRY_TOPIC: 1, **topics})


def committed(broker, queue_id=0):
    return broker.committed.get(("G", broker.queue("T", queue_id)))


def test_offsets_are_kept_every_five_seconds_and_at_the_end():
    async def story():
        broker, taken = broker_of(), Taken()
        async with consuming(broker, taken):
            broker.put("T", 0, b"a", b"b")
            await settle()
            assert (taken.bodies, committed(broker)) == (["a", "b"], None)
            await broker.clock.advance(5_000)
            assert committed(broker) == 2
            broker.put("T", 0, b"c")
            await settle()
        assert committed(broker) == 3

    asyncio.run(story())


def test_an_offset_rides_on_the_next_pull():
    async def story():
        broker, taken = broker_of(), Taken()
        async with consuming(broker, taken):
            broker.put("T", 0, b"a")
            await settle()
            broker.put("T", 0, b"b")
            await settle()
            pulls = [
                header
                for _, code, header in broker.asked
                if code == RequestCode.PULL_MESSAGE and header.topic == "T"
            ]
            assert (pulls[-1].sys_flag & 1, pulls[-1].commit_offset) == (1, 1)

    asyncio.run(story())


def test_what_is_passed_over_counts_as_consumed():
    async def story():
        broker, taken = broker_of(), Taken()
        async with consuming(broker, taken, post_subscription_when_pull=True) as consumer:
            consumer.subscribe("T", "wanted")
            await settle()
            broker.put("T", 0, b"a", b"b", tags="unwanted")
            await settle()
        assert (taken.bodies, committed(broker)) == ([], 2)

    asyncio.run(story())


def test_what_a_listener_does_not_return_is_sent_back_after_a_quarter_of_an_hour():
    async def story():
        broker, gate = broker_of(), Gate()
        async with consuming(broker, gate):
            broker.put("T", 0, b"a")
            await settle()
            await broker.clock.advance(14 * 60_000)
            assert broker.sent_back == []
            await broker.clock.advance(6 * 60_000)
            (header,) = broker.sent_back
            assert (header.group, header.delay_level, header.max_reconsume_times) == ("G", 3, 16)
            await broker.clock.advance(5_000)
            assert committed(broker) == 1
            gate.open()  # it does return, too late to matter
            await settle()
            assert len(broker.sent_back) == 1

    asyncio.run(story())


def test_a_failure_is_sent_back_with_what_the_broker_needs():
    async def story():
        broker, taken = broker_of(), Taken(lambda message: Retry(delay_level=5))
        broker.put("T", 0, b"a")
        async with consuming(broker, taken, max_reconsume_times=7):
            (header,) = broker.sent_back
        assert header.offset == 0
        assert (header.origin_topic, header.origin_msg_id) == ("T", taken.messages[0].message_id)
        assert (header.delay_level, header.max_reconsume_times) == (5, 7)
        assert committed(broker) == 1

    asyncio.run(story())


def test_what_its_broker_does_not_take_back_is_sent_as_a_copy():
    async def story():
        broker, taken = broker_of(), Taken(lambda message: 1 / 0)
        broker.refuses[RequestCode.CONSUMER_SEND_MSG_BACK] = ResponseCode.SYSTEM_ERROR
        broker.put("T", 0, b"a", tags="red")
        async with consuming(broker, taken):
            ((header, body),) = broker.copies
        assert (header.topic, header.reconsume_times, body) == (RETRY_TOPIC, 1, b"a")
        assert header.max_reconsume_times == 16
        properties = dict(item.split("\x01") for item in header.properties.split("\x02"))
        assert properties["RETRY_TOPIC"] == "T"
        assert properties["TAGS"] == "red"
        assert properties["DELAY"] == "3", "ten seconds, as a broker chooses"
        assert committed(broker) == 1

    asyncio.run(story())


def test_what_nobody_takes_back_is_tried_again_here():
    async def story():
        broker = broker_of()
        taken = Taken(lambda message: 1 / 0 if not message.reconsume_times else None)
        for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
            broker.refuses[code] = ResponseCode.SYSTEM_ERROR
        async with consuming(broker, taken):
            broker.put("T", 0, b"a")
            await settle()
            await broker.clock.advance(4_990)
            assert (taken.bodies, committed(broker)) == (["a"], None)
            await broker.clock.advance(5_100)
            assert (taken.bodies, committed(broker)) == (["a", "a"], 1)

    asyncio.run(story())


def test_a_part_of_a_batch_is_sent_back():
    async def story():
        broker = broker_of()
        broker.put("T", 0, b"a", b"b", b"c")
        calls = []

        async def handler(messages):
            calls.append([message.text() for message in messages])
            return Ack(1)

        async with consuming(broker, handler, consume_message_batch_max_size=10):
            assert calls == [["a", "b", "c"]]
            assert len(broker.sent_back) == 2

    asyncio.run(story())


def test_queues_are_shared_with_members_that_come_and_go():
    async def story():
        broker = broker_of(T=4)
        async with consuming(broker, Taken()) as consumer:
            assert [queue.queue_id for queue in consumer.queues] == [0, 1, 2, 3]
            broker.others = ["127.0.0.1@aaa"]
            await broker.clock.advance(20_000)
            assert [queue.queue_id for queue in consumer.queues] == [2, 3]
            broker.others = []
            consumer._member.rebalance_soon()
            await settle()
            assert [queue.queue_id for queue in consumer.queues] == [0, 1, 2, 3]

    asyncio.run(story())


@pytest.mark.parametrize("turns", range(12))
def test_a_topic_that_is_given_up_while_queues_are_shared_is_given_up(turns):
    async def story():
        broker = broker_of(U=2)
        async with consuming(broker, Taken()) as consumer:
            consumer.subscribe("U")
            for _ in range(turns):
                await asyncio.sleep(0)
            consumer.unsubscribe("U")
            await settle()
            assert {queue.topic for queue in consumer.queues} == {"T"}

    asyncio.run(story())


def test_results_of_a_queue_that_is_anothers_count_no_more():
    async def story():
        broker, gate = broker_of(T=2), Gate(lambda message: 1 / 0)
        broker.put("T", 0, b"a")
        async with consuming(broker, gate) as consumer:
            broker.others = ["127.0.0.1@aaa"]
            consumer._member.rebalance_soon()
            await settle()
            gate.open()
            await settle()
            assert gate.ended == ["a"]
        assert (committed(broker), broker.sent_back) == (None, [])

    asyncio.run(story())


def test_a_broker_that_has_forgotten_us_is_told_again():
    async def story():
        broker, taken = broker_of(), Taken()
        async with consuming(broker, taken) as consumer:
            broker.heard["G"].clear()
            broker.others = ["127.0.0.1@aaa"]
            consumer._member.rebalance_soon()
            await settle()
            assert consumer.client_id in broker.heard["G"]
            broker.others = []
            consumer._member.rebalance_soon()
            await settle()
            broker.heard["G"].clear()
            broker.refuses[RequestCode.PULL_MESSAGE] = ResponseCode.SUBSCRIPTION_NOT_EXIST
            await broker.clock.advance(15_100)  # the pull that waits comes back first
            assert consumer.client_id in broker.heard["G"]
            beats = broker.count(RequestCode.HEART_BEAT)
            await broker.clock.advance(10_000)
            assert broker.count(RequestCode.HEART_BEAT) < beats + 30, "it is not pressed"

    asyncio.run(story())


def test_a_broker_that_is_down_is_asked_again_after_a_while():
    async def story():
        broker, taken = broker_of(), Taken()
        async with consuming(broker, taken):
            broker.is_up = False
            broker.put("T", 0, b"a")  # which wakes the pull that waits
            broker.stored[broker.queue("T")].pop()
            await broker.clock.advance(10_000)
            broker.is_up = True
            broker.put("T", 0, b"b")
            await broker.clock.advance(2_000)
            assert taken.bodies == ["b"]

    asyncio.run(story())


def test_limits_of_a_topic_are_shared_by_its_queues():
    async def story():
        broker, gate = broker_of(T=4), Gate()
        for queue_id in range(4):
            broker.put("T", queue_id, *[b"x"] * 50)
        settings = {"pull_threshold_for_topic": 40, "pull_batch_size": 4, "consume_threads": 1}
        async with consuming(broker, gate, **settings) as consumer:
            held = consumer._member._owned.of("T")
            assert [len(each.process) for each in held] == [12, 12, 12, 12]
            gate.open()
            await settle()
            assert len(gate.ended) > 48

    asyncio.run(story())


def test_an_offset_that_is_gone_is_mended_and_kept():
    async def story():
        broker, taken = broker_of(), Taken()
        broker.put("T", 0, b"a", b"b", b"c")
        broker.lowest[broker.queue("T")] = 2
        async with consuming(broker, taken):
            assert taken.bodies == ["c"]
        assert committed(broker) == 3

    asyncio.run(story())


def test_offsets_are_reset_and_calls_that_are_out_change_nothing():
    async def story():
        broker, gate = broker_of(), Gate(lambda message: 1 / 0)
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, gate, consume_threads=1) as consumer:
            consumer._member.reset_offsets("T", {broker.queue("T"): 1})
            await settle()
            assert committed(broker) == 1
            assert consumer._member.offsets_of("T") == {broker.queue("T"): 1}
            gate.open()
            await settle()
            assert gate.ended == ["a", "b"], "what stood in line was not begun"
            assert {header.offset for header in broker.sent_back} == {100}

    asyncio.run(story())


def test_close_waits_for_what_a_listener_has():
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, b"a", b"b", b"c")
        async with consuming(broker, gate, consume_threads=1) as consumer:
            closing = asyncio.create_task(consumer.close())
            await settle()
            assert not closing.done()
            gate.open()
            await closing
            assert committed(broker) == len(gate.ended) < 3
            with pytest.raises(Closed):
                consumer.subscribe("T")
            assert broker.heard["G"] == {}

    asyncio.run(story())


def test_close_may_wait_for_all_that_was_pulled():
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, *[b"x"] * 20)
        settings = {"consume_threads": 1, "await_termination_when_shutdown": 10}
        async with consuming(broker, gate, **settings) as consumer:
            closing = asyncio.create_task(consumer.close())
            await settle()
            gate.open()
            await closing
        assert committed(broker) == 20

    asyncio.run(story())


def test_what_a_broker_may_ask():
    async def story():
        broker = broker_of()
        said = [None, Retry(), Ack(0)]
        taken = Taken(lambda message: said.pop(0) if said else 1 / 0)
        async with consuming(broker, taken) as consumer:
            broker.put("T", 0, b"a")
            await settle()
            member, (stored,) = consumer._member, broker.stored[broker.queue("T")]
            results = [
                (await member.consume_directly(stored, "broker-a")).consume_result for _ in range(3)
            ]
            assert results == [
                ConsumeResult.LATER, ConsumeResult.LATER, ConsumeResult.THROW_EXCEPTION,
            ]  # fmt: skip
            info = member.running_info(with_stacks=True)
            assert info.properties["consumerGroup"] == "G"
            assert info.mq_table[broker.queue("T")].commit_offset == 1
            assert {each.topic for each in info.subscription_set} == {"T", RETRY_TOPIC}
            assert info.status_table["T"].consume_ok_tps > 0
            assert "MainThread" in info.jstack

    asyncio.run(story())


def test_what_keeps_it_from_joining_is_told():
    async def story():
        broker = broker_of()
        broker.refuses[RequestCode.CHECK_CLIENT_CONFIG] = ResponseCode.SUBSCRIPTION_PARSE_FAILED
        async with broker.session() as session:
            consumer = PushConsumer("G", session=session)
            consumer.subscribe("T", sql="a > 5")
            consumer.listen(Taken())
            with pytest.raises(Refused, match="SUBSCRIPTION_PARSE_FAILED"):
                await consumer.start()
            with pytest.raises(BadSetting):
                PushConsumer("G", "127.0.0.1:9876", session=session)

    asyncio.run(story())
