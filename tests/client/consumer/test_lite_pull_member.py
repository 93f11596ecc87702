"""A lite pull consumer as a member: its share, its troubles, what brokers ask of it."""

import asyncio

import pytest

from client.consumer.fake_broker import NAMESRV, FakeBroker
from client.consumer.lite_scene import GROUP, committed, consumer_of, run, started, taken
from cometmq.client.config import ClientConfig
from cometmq.client.consumer.lite.lite_pull import LitePullConsumer
from cometmq.errors import BadSetting, Closed, NoRoute, Refused
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.records.message import StoredMessage

# Queues that come and go


def test_queues_that_are_assigned_are_nobody_elses_to_share():
    async def scene(broker, consumer):
        broker.put("orders", 1, b"b")
        broker.others = ["127.0.0.1@another"]
        await consumer.start()
        queues = await consumer.fetch_queues("orders")
        consumer.assign(queues[1:])
        await broker.clock.advance(30_000)
        assert consumer.assignment() == queues[1:]
        assert await taken(broker, consumer) == {1: [0]}
        assert next(iter(broker.heard[GROUP].values())).subscription_data_set == []
        consumer.assign(queues[:1])
        await broker.clock.advance(0)
        assert consumer.assignment() == queues[:1]
        assert committed(broker, 1) == 1

    run(scene)


def test_a_queue_assigned_again_at_once_goes_on_where_it_was():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 5)
        queue = broker.queue("orders")
        consumer.assign([queue])
        await consumer.start()
        await broker.clock.advance(0)
        assert len(await consumer.poll(0)) == 5
        await consumer.poll(0)
        broker.delays_ms[RequestCode.UPDATE_CONSUMER_OFFSET] = 500
        consumer.assign([])
        consumer.assign([queue])
        await broker.clock.advance(499)
        assert consumer.position(queue) is None
        await broker.clock.advance(1)
        assert consumer.position(queue) == 5

    run(scene)


def test_a_member_that_comes_gets_its_share_and_goes_on_where_we_were():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 3)
        broker.put("orders", 1, *[b"b"] * 3)
        await started(broker, consumer)
        await taken(broker, consumer)
        broker.others = ["127.0.0.2@zz"]
        consumer._member.rebalance_soon()
        await broker.clock.advance(0)
        assert consumer.assignment() == [broker.queue("orders", 0)]
        assert committed(broker, 1) == 3
        broker.others = []
        await broker.clock.advance(20_000)
        assert len(consumer.assignment()) == 2
        assert await taken(broker, consumer) == {}

    run(scene)


def test_a_topic_that_is_given_up_during_a_rebalance_stays_so():
    async def scene(broker, consumer):
        broker.delays_ms[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = 100
        await started(broker, consumer)
        consumer.unsubscribe("orders")
        await broker.clock.advance(1_000)
        assert consumer.assignment() == []

    run(scene)


def test_new_queues_are_found_and_told_of():
    async def scene(broker, consumer):
        told = []

        async def tell(topic, queues):
            told.append((topic, queues))

        consumer.on_queues_changed("orders", tell)
        consumer.on_queues_changed("orders", lambda *_: 1 / 0)
        await started(broker, consumer)
        await broker.clock.advance(60_000)
        assert told == []
        broker.queues["orders"] = 3
        await broker.clock.advance(30_000)
        queues = [broker.queue("orders", each) for each in range(3)]
        assert told == [("orders", queues)]
        assert consumer.assignment() == queues
        broker.has_names = False
        await broker.clock.advance(30_000)
        broker.has_names = True
        del broker.queues["orders"]
        await broker.clock.advance(30_000)
        assert told[1:] == [("orders", [])]

    run(scene)


def test_a_topic_that_comes_later_is_read_soon():
    async def scene(broker, consumer):
        await started(broker, consumer, "later")
        await broker.clock.advance(60_000)
        assert consumer.assignment() == []
        broker.queues["later"] = 1
        broker.put("later", 0, b"a")
        await broker.clock.advance(20_000)
        assert await taken(broker, consumer) == {0: [0]}

    run(scene)


# Trouble


def test_a_broker_that_comes_back_is_read_on():
    async def scene(broker, consumer):
        broker.put("orders", 0, b"a")
        await started(broker, consumer)
        assert await taken(broker, consumer) == {0: [0]}
        broker.is_up = broker.has_names = False
        broker.put("orders", 0, b"b")
        await broker.clock.advance(0)
        await taken(broker, consumer)
        broker.put("orders", 0, b"c")
        await broker.clock.advance(120_000)
        broker.is_up = broker.has_names = True
        await broker.clock.advance(1_000)
        assert consumer.position(broker.queue("orders")) is not None
        await taken(broker, consumer)
        assert consumer.position(broker.queue("orders")) == 3

    run(scene)


def test_a_topic_that_is_deleted_and_made_again_is_read_on():
    async def scene(broker, consumer):
        await started(broker, consumer)
        del broker.queues["orders"]
        broker.put("orders", 0, b"wakes the pull")
        await broker.clock.advance(60_000)
        await taken(broker, consumer)
        broker.queues["orders"] = 2
        broker.put("orders", 0, b"again")
        await broker.clock.advance(1_000)
        await taken(broker, consumer)
        assert consumer.position(broker.queue("orders")) == 2

    run(scene)


def test_it_starts_before_anybody_is_there_and_ends_when_nobody_is():
    async def scene(broker, consumer):
        broker.is_up = broker.has_names = False
        await started(broker, consumer)
        assert await consumer.poll(0) == []
        broker.is_up = broker.has_names = True
        broker.put("orders", 0, b"a")
        await broker.clock.advance(600)
        assert await taken(broker, consumer) == {0: [0]}
        broker.is_up = broker.has_names = False
        await asyncio.gather(consumer.close(), consumer.close())
        await consumer.close()

    run(scene)


def test_a_shared_session_that_ends_first_is_no_hang():
    async def main():
        broker = FakeBroker(orders=1)
        session = broker.session()
        consumer = consumer_of(broker, session)
        await started(broker, consumer)
        reading = asyncio.create_task(anext(aiter(consumer)))
        await broker.clock.advance(0)
        await session.close()
        await broker.clock.advance(1_000)
        with pytest.raises(Closed):
            await reading
        with pytest.raises(Closed):
            await consumer.poll(0)
        await consumer.close()

    asyncio.run(main())


def test_seeks_and_shares_that_change_leave_no_tasks_behind():
    async def scene(broker, consumer):
        await started(broker, consumer)
        queue = broker.queue("orders")

        async def turn():
            await consumer.seek_to_end(queue)
            consumer.pause([queue])
            consumer.resume([queue])
            broker.others = ["127.0.0.2@zz"]
            consumer._member.rebalance_soon()
            await broker.clock.advance(10)
            broker.others = []
            consumer._member.rebalance_soon()
            await broker.clock.advance(10)

        await turn()
        before = len(asyncio.all_tasks())
        for _ in range(50):
            await turn()
        assert len(asyncio.all_tasks()) == before

    run(scene)


def test_a_strategy_that_fails_is_asked_again():
    class Moody:
        name = "MOODY"
        is_moody = True

        def allocate(self, client_id, queues, clients):
            if self.is_moody:
                raise ZeroDivisionError
            return list(queues)

    moody = Moody()

    async def scene(broker, consumer):
        await started(broker, consumer)
        assert consumer.assignment() == []
        moody.is_moody = False
        await broker.clock.advance(20_000)
        assert len(consumer.assignment()) == 2

    run(scene, allocation=moody)


# What brokers ask


def test_an_operator_resets_offsets():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        await started(broker, consumer)
        await taken(broker, consumer)
        member = consumer._member
        strange = MessageQueue("orders", "broker-z", 9)
        member.reset_offsets("orders", {broker.queue("orders"): 17, strange: 3})
        await broker.clock.advance(0)
        assert committed(broker) == 17
        assert member.offsets_of("orders")[broker.queue("orders")] == 17
        assert await taken(broker, consumer) == {0: [17, 18, 19]}

    run(scene)


def test_an_operator_sees_what_runs():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        await started(broker, consumer)
        await consumer.poll(0)
        info = consumer._member.running_info(with_stacks=True)
        row = info.mq_table[broker.queue("orders")]
        assert (row.cached_msg_count, row.cached_msg_min_offset, row.commit_offset) == (10, 10, 0)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert info.properties["PROP_NAMESERVER_ADDR"] == NAMESRV
        assert "QueuePuller.run" in info.jstack
        with pytest.raises(Refused, match="no listener"):
            await consumer._member.consume_directly(StoredMessage(topic="orders"), "broker-a")

    run(scene)


# What cannot be


def test_misuse_is_told_and_changes_nothing():
    async def scene(broker, consumer):
        with pytest.raises(Closed, match="not started"):
            await consumer.poll()
        await consumer.start()
        with pytest.raises(BadSetting, match="nothing to poll"):
            await consumer.poll()
        with pytest.raises(BadSetting):
            consumer.subscribe("no spaces")
        with pytest.raises(BadSetting):
            consumer.subscribe("orders", sql="a >")
        with pytest.raises(NoRoute):
            await consumer.fetch_queues("unknown")
        consumer.subscribe("orders")
        await broker.clock.advance(0)
        with pytest.raises(BadSetting, match="subscribes"):
            consumer.assign([broker.queue("orders")])
        strange = MessageQueue("orders", "broker-z", 0)
        for verb in (consumer.pause, consumer.resume, lambda queues: consumer.position(*queues)):
            with pytest.raises(BadSetting, match="is not assigned to this consumer"):
                verb([strange])
        with pytest.raises(BadSetting, match="is not assigned to this consumer"):
            await consumer.seek(strange, 0)
        with pytest.raises(BadSetting, match="is not assigned to this consumer"):
            await consumer.commit([strange])
        with pytest.raises(BadSetting, match=r"^timeout is -1: it must be"):
            await consumer.poll(-1)

    run(scene)


def test_a_second_of_its_group_is_refused_and_the_first_goes_on():
    async def scene(broker, consumer):
        await started(broker, consumer)
        second = consumer_of(broker, consumer._session)
        second.subscribe("orders")
        with pytest.raises(BadSetting, match="use a separate session"):
            await second.start()
        with pytest.raises(Closed):
            await second.start()
        assert broker.count(RequestCode.UNREGISTER_CLIENT) == 0
        broker.put("orders", 0, b"a")
        await broker.clock.advance(0)
        assert await taken(broker, consumer) == {0: [0]}

    run(scene)


def test_it_is_given_one_way_to_its_brokers():
    client = ClientConfig(name_servers=NAMESRV)
    with pytest.raises(BadSetting, match="mutually exclusive"):
        LitePullConsumer(GROUP, NAMESRV, client=client)
    with pytest.raises(BadSetting):
        LitePullConsumer("no spaces", NAMESRV)


def test_a_broker_that_cannot_do_what_is_wanted_says_so_at_the_start():
    async def scene(broker, consumer):
        broker.refuses[RequestCode.CHECK_CLIENT_CONFIG] = ResponseCode.SUBSCRIPTION_PARSE_FAILED
        consumer.subscribe("orders", sql="a > 5")
        with pytest.raises(Refused, match="SUBSCRIPTION_PARSE_FAILED"):
            await consumer.start()

    run(scene)


def test_a_broker_that_cannot_do_what_is_wanted_later_keeps_nothing_else(caplog):
    async def scene(broker, consumer):
        await started(broker, consumer)
        broker.refuses[RequestCode.CHECK_CLIENT_CONFIG] = ResponseCode.SUBSCRIPTION_PARSE_FAILED
        consumer.subscribe("other", sql="a > 5")
        consumer.subscribe("third")
        await broker.clock.advance(1_000)
        assert {queue.topic for queue in consumer.assignment()} == {"orders", "other", "third"}
        assert "SUBSCRIPTION_PARSE_FAILED" in caplog.text

    run(scene, topics={"orders": 1, "other": 1, "third": 1})
