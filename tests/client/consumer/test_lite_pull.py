"""What a lite pull consumer reads, and what it commits."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from client.consumer.fake_broker import FakeBroker
from client.consumer.lite_scene import GROUP, committed, consumer_of, run, started, taken
from cometmq.errors import BadSetting, Closed, Refused, Unreachable, UserError
from cometmq.protocol.bodies.heartbeat import ConsumeFrom, ConsumeType
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import PullFlag

# Reading


def test_a_subscriber_reads_all_queues_in_order():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 50)
        broker.put("orders", 1, *[b"b"] * 3)
        await started(broker, consumer)
        assert consumer.assignment() == [broker.queue("orders", 0), broker.queue("orders", 1)]
        assert await taken(broker, consumer) == {0: list(range(50)), 1: [0, 1, 2]}

    run(scene)


def test_a_poll_returns_a_batch_or_waits_as_long_as_it_is_told():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 7)
        await started(broker, consumer)
        assert [len(await consumer.poll(0)) for _ in range(3)] == [5, 2, 0]
        for given in (3, 3.0, timedelta(seconds=3)):
            polling = asyncio.create_task(consumer.poll(given))
            await broker.clock.advance(2999)
            assert not polling.done()
            await broker.clock.advance(1)
            assert await polling == []
        polling = asyncio.create_task(consumer.poll())
        await broker.clock.advance(4000)
        broker.put("orders", 1, b"late")
        await broker.clock.advance(0)
        assert [message.body for message in await polling] == [b"late"]

    run(scene, pull_batch_size=5)


def test_it_says_what_it_is_to_brokers_and_pulls_as_java_does():
    async def scene(broker, consumer):
        await started(broker, consumer)
        (data,) = broker.heard[GROUP].values()
        assert (data.consume_type, data.consume_from_where) == (
            ConsumeType.ACTIVELY, ConsumeFrom.FIRST_OFFSET,
        )  # fmt: skip
        assert [each.topic for each in data.subscription_data_set] == ["orders"]
        pull = next(each for _, code, each in broker.asked if code == RequestCode.PULL_MESSAGE)
        assert pull.sys_flag == PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL
        assert pull.suspend_timeout_millis == 20_000

    run(scene)


def test_messages_can_be_iterated_one_by_one_and_batch_by_batch():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 30)
        await started(broker, consumer)
        seen = []
        async for message in consumer:
            seen.append(message.queue_offset)
            if len(seen) == 15:
                break
        async for batch in consumer.batches():
            seen += [message.queue_offset for message in batch]
            if len(seen) == 30:
                break
        assert seen == list(range(30))

    run(scene)


def test_iteration_ends_when_the_consumer_is_closed():
    async def scene(broker, consumer):
        broker.put("orders", 0, b"a")
        await started(broker, consumer)

        async def each():
            return [message.body async for message in consumer]

        reading = asyncio.create_task(each())
        await broker.clock.advance(100)
        await consumer.close()
        assert await reading == [b"a"]
        with pytest.raises(Closed):
            await consumer.poll(0)

    run(scene)


def test_who_polls_when_it_is_closed_is_told():
    async def scene(broker, consumer):
        await started(broker, consumer)
        polling = asyncio.create_task(consumer.poll())
        await broker.clock.advance(100)
        await consumer.close()
        with pytest.raises(Closed):
            await polling

    run(scene)


@pytest.mark.parametrize("way", ["poll", "next", "batches"])
def test_a_second_reader_is_refused_while_the_first_one_waits(way):
    async def scene(broker, consumer):
        await started(broker, consumer)
        first = asyncio.create_task(consumer.poll(60))
        await broker.clock.advance(0)
        second = {
            "poll": lambda: consumer.poll(0),
            "next": lambda: anext(consumer),
            "batches": lambda: anext(consumer.batches()),
        }
        with pytest.raises(UserError, match="one reader at a time"):
            await second[way]()
        broker.put("orders", 0, b"a")
        await broker.clock.advance(0)
        (message,) = await first
        assert message.body == b"a"
        assert await consumer.poll(0) == [], "and then another may"

    run(scene)


def test_a_filter_is_sent_along_and_what_it_leaves_out_is_passed_over():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"no"] * 40, tags="no")
        broker.put("orders", 0, b"yes", tags="yes")
        consumer.subscribe("orders", "yes || also")
        await consumer.start()
        await broker.clock.advance(0)
        assert await taken(broker, consumer) == {0: [40]}
        await consumer.poll(0)
        await consumer.commit()
        assert (committed(broker), committed(broker, 1)) == (41, 0)

    run(scene)


def test_namespaces_are_on_the_wire_alone():
    async def main():
        broker = FakeBroker(**{"ns%orders": 1})
        broker.put("ns%orders", 0, b"a")
        session = broker.session(namespace="ns")
        async with consumer_of(broker, session) as consumer:
            consumer.subscribe("orders")
            await broker.clock.advance(0)
            await broker.clock.advance(300)
            queue = broker.queue("orders")
            assert consumer.assignment() == await consumer.fetch_queues("orders") == [queue]
            (message,) = await consumer.poll(0)
            assert message.topic == "orders"
            await consumer.seek(message.queue, 0)
            await broker.clock.advance(0)
            assert len(await consumer.poll(0)) == 1
            await consumer.commit([queue])
            assert await consumer.committed(queue) == 1
            assert broker.committed == {("ns%g", broker.queue("ns%orders")): 1}
        await session.close()

    asyncio.run(main())


# Offsets


def test_what_was_polled_before_the_last_poll_is_committed_in_time():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        await started(broker, consumer)
        await consumer.poll(0)
        await broker.clock.advance(5_000)
        assert committed(broker) == 0
        await consumer.poll(0)
        await broker.clock.advance(5_000)
        assert committed(broker) == 10

    run(scene)


def test_a_commit_covers_what_was_polled_and_no_more():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        await started(broker, consumer)
        await consumer.poll(0)
        await consumer.commit()
        assert (committed(broker), committed(broker, 1)) == (10, 0)
        await broker.clock.advance(60_000)
        assert committed(broker) == 10
        message = await anext(aiter(consumer))
        await consumer.commit([message.queue])
        assert committed(broker) == 11
        await consumer.commit({message.queue: 4})
        assert committed(broker) == 4 == await consumer.committed(message.queue)

    run(scene)


def test_without_auto_commit_nothing_is_committed_unasked():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        await started(broker, consumer)
        await taken(broker, consumer)
        await broker.clock.advance(60_000)
        consumer.unsubscribe("orders")
        await broker.clock.advance(0)
        await consumer.close()
        assert broker.committed == {}

    run(scene, auto_commit=False)


def test_a_commit_that_fails_is_told_and_changes_nothing():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 5)
        await started(broker, consumer)
        await consumer.poll(0)
        broker.refuses[RequestCode.UPDATE_CONSUMER_OFFSET] = ResponseCode.SYSTEM_ERROR
        with pytest.raises(Refused):
            await consumer.commit()
        broker.is_up = False
        with pytest.raises(Unreachable):
            await consumer.commit()
        broker.is_up = True
        broker.refuses.clear()
        await broker.clock.advance(5_000)
        assert committed(broker) == 0

    run(scene)


@pytest.mark.parametrize(("fails", "expected"), [(False, 3), (True, 2)])
def test_at_the_end_what_failed_comes_again(fails, expected):
    async def main():
        broker = FakeBroker(orders=1)
        broker.put("orders", 0, *[b"a"] * 5)
        session = broker.session()
        with suppress(ZeroDivisionError):
            async with consumer_of(broker, session) as consumer:
                consumer.subscribe("orders")
                await broker.clock.advance(300)
                count = 0
                async for _ in consumer:
                    count += 1
                    if count == 3:
                        if fails:
                            raise ZeroDivisionError
                        break
        assert committed(broker) == expected
        assert broker.heard[GROUP] == {}
        await session.close()

    asyncio.run(main())


def test_a_group_goes_on_where_it_was_and_a_new_one_where_it_is_told():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        broker.put("orders", 1, *[b"b"] * 20)
        broker.committed[GROUP, broker.queue("orders", 0)] = 17
        await started(broker, consumer)
        broker.put("orders", 1, b"new")
        await broker.clock.advance(0)
        assert await taken(broker, consumer) == {0: [17, 18, 19], 1: [20]}

    run(scene, consume_from=ConsumeFrom.LAST_OFFSET)


# Moving about


def test_seeks():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        broker.lowest[broker.queue("orders")] = 2
        await started(broker, consumer)
        queue = broker.queue("orders")
        await consumer.poll(0)
        await consumer.seek(queue, 15)
        await broker.clock.advance(0)
        assert await taken(broker, consumer) == {0: list(range(15, 20))}
        await consumer.seek_to_begin(queue)
        await broker.clock.advance(0)
        assert await taken(broker, consumer) == {0: list(range(2, 20))}
        await consumer.seek_to_end(queue)
        assert consumer.position(queue) == 20
        for offset in (1, 21):
            with pytest.raises(BadSetting, match="from 2 to 20"):
                await consumer.seek(queue, offset)
        assert consumer.position(queue) == 20

    run(scene)


def test_the_rest_of_a_batch_is_not_iterated_after_a_seek():
    async def scene(broker, consumer):
        broker.put("orders", 0, *[b"a"] * 20)
        await started(broker, consumer)
        seen = []
        async for message in consumer:
            seen.append(message.queue_offset)
            if len(seen) == 3:
                await consumer.seek(message.queue, 18)
            if len(seen) == 5:
                break
        assert seen == [0, 1, 2, 18, 19]

    run(scene)


def test_offsets_by_time():
    async def scene(broker, consumer):
        broker.put("orders", 0, b"a", b"b")
        await broker.clock.advance(1_000)
        moment = broker.clock.wall_ms()
        broker.put("orders", 0, b"c")
        await started(broker, consumer)
        queue = broker.queue("orders")
        assert await consumer.offset_for_timestamp(queue, moment) == 2
        when = datetime.fromtimestamp(moment / 1000, UTC)
        assert await consumer.offset_for_timestamp(queue, when) == 2

    run(scene)


def test_pause_and_resume():
    async def scene(broker, consumer):
        broker.put("orders", 0, b"a")
        broker.put("orders", 1, b"b")
        await started(broker, consumer)
        consumer.pause([broker.queue("orders", 0)])
        assert await taken(broker, consumer) == {1: [0]}
        consumer.resume([broker.queue("orders", 0)])
        assert await taken(broker, consumer) == {0: [0]}

    run(scene)
