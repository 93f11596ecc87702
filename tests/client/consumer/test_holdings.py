"""Queues that are lost, given away or closed while something of them is under way."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.consumer.push_broker import Gate, PushBroker, Taken, closed, consuming, settle
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import PullFlag

OTHER = "127.0.0.1@aaa"  # which comes before us, and so gets the only queue


def broker_of():
    return PushBroker(T=1)  # and no topic for retries, so that there is one queue


async def give_away(broker, consumer):
    broker.others = [OTHER]
    consumer._member.rebalance_soon()
    await settle()
    assert consumer.queues == []


def pulls(broker):
    """Of the topic, as (offset, what is committed with it)."""
    return [
        (
            header.queue_offset,
            header.commit_offset if header.sys_flag & PullFlag.COMMIT_OFFSET else None,
        )
        for _, code, header in broker.asked
        if code == RequestCode.PULL_MESSAGE and header.topic == "T"
    ]


async def nothing_is_pulled(broker):
    before = len(pulls(broker))
    await broker.clock.advance(1_000)
    broker.put("T", 0, b"another's")
    await broker.clock.advance(1_000)
    assert len(pulls(broker)) == before


def test_a_queue_that_is_given_away_while_it_is_reset_is_not_pulled():
    async def story():
        broker, taken = broker_of(), Taken()
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, taken) as consumer:
            broker.delays_ms[RequestCode.UPDATE_CONSUMER_OFFSET] = 500
            consumer._member.reset_offsets("T", {broker.queue("T"): 1})
            await settle()
            broker.others = [OTHER]
            consumer._member.rebalance_soon()
            await nothing_is_pulled(broker)
            assert (consumer.queues, taken.bodies) == ([], ["a", "b"])

    asyncio.run(story())


def test_a_queue_that_is_reset_twice_at_a_time_is_pulled_once():
    async def story():
        broker, taken = broker_of(), Taken()
        broker.put("T", 0, b"a", b"b")
        async with consuming(broker, taken) as consumer:
            broker.delays_ms[RequestCode.UPDATE_CONSUMER_OFFSET] = 500
            for offset in (0, 1):
                consumer._member.reset_offsets("T", {broker.queue("T"): offset})
            await broker.clock.advance(1_000)
            assert len(broker._arrivals) == 1, "one pull waits"
            broker.delays_ms.clear()  # it stops at once

    asyncio.run(story())


@asynccontextmanager
async def beginning_anew(broker, listener):
    """A consumer that has its lock again after a while, and asks where the group is."""
    async with consuming(broker, listener, orderly=True) as consumer:
        broker.refuses[RequestCode.LOCK_BATCH_MQ] = ResponseCode.SYSTEM_ERROR
        await broker.clock.advance(50_000)
        del broker.refuses[RequestCode.LOCK_BATCH_MQ]
        broker.delays_ms[RequestCode.QUERY_CONSUMER_OFFSET] = 500
        await broker.clock.advance(10_000)
        yield consumer


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_queue_that_is_given_away_while_it_begins_anew_is_not_pulled(is_refused, caplog):
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, b"a")
        async with beginning_anew(broker, gate) as consumer:
            if is_refused:
                code = ResponseCode.SYSTEM_ERROR
                broker.refuses[RequestCode.QUERY_CONSUMER_OFFSET] = code
            await give_away(broker, consumer)
            await nothing_is_pulled(broker)
            gate.open()
            await settle()
            assert gate.ended == ["a"]
        assert "Traceback" not in caplog.text

    asyncio.run(story())


def test_a_queue_that_begins_anew_does_not_set_the_group_back():
    async def story():
        broker, gate = broker_of(), Gate()
        broker.put("T", 0, b"a", b"b", b"c")
        async with beginning_anew(broker, gate):
            before = len(pulls(broker))
            broker.committed["G", broker.queue("T")] = 2  # by another, meanwhile
            gate.open()  # what we had returns before we are told
            await broker.clock.advance(500)
            assert pulls(broker)[before] == (2, None)
            assert gate.ended == ["a", "c"]
            await broker.clock.advance(5_000)
            assert broker.committed["G", broker.queue("T")] == 3

    asyncio.run(story())


def test_a_queue_whose_lock_was_lost_does_not_set_the_group_back():
    async def story():
        broker, taken = broker_of(), Taken()
        broker.put("T", 0, b"a")
        async with consuming(broker, taken, orderly=True) as consumer:
            await broker.clock.advance(5_000)
            broker.locked_by_others = {0}
            await broker.clock.advance(20_000)
            assert consumer.queues == []
            broker.put("T", 0, b"b", b"c")
            broker.committed["G", broker.queue("T")] = 2  # by another, meanwhile
            broker.locked_by_others = set()
            before = len(pulls(broker))
            await broker.clock.advance(20_000)
            assert pulls(broker)[before] == (2, None)
            assert taken.bodies == ["a", "c"]
            assert broker.committed["G", broker.queue("T")] == 3

    asyncio.run(story())


def test_a_listener_that_never_returns_does_not_keep_the_offset_of_its_queue():
    async def story():
        broker = broker_of()
        broker.put("T", 0, b"a", b"b")

        async def hangs_at_the_second(message):
            if message.text() == "b":
                await asyncio.Event().wait()

        async with consuming(broker, hangs_at_the_second, orderly=True) as consumer:
            assert ("G", broker.queue("T")) not in broker.committed
            await closed(broker, consumer)
        assert broker.committed["G", broker.queue("T")] == 1

    asyncio.run(story())


def test_a_consumer_whose_program_was_cancelled_leaves_all_the_same():
    """Its closing has a patience of its own, which is told from the cancelling of the program."""

    async def story():
        broker, is_stuck = broker_of(), asyncio.Event()
        broker.put("T", 0, b"a", b"b")

        async def hangs_at_the_second(message):
            if message.text() == "b":
                is_stuck.set()
                await asyncio.Event().wait()

        async def program():
            async with consuming(broker, hangs_at_the_second, orderly=True):
                await asyncio.Event().wait()

        task = asyncio.create_task(program())
        await is_stuck.wait()
        task.cancel()
        while not task.done():
            await broker.clock.advance(1_000)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert broker.committed["G", broker.queue("T")] == 1

    asyncio.run(story())
