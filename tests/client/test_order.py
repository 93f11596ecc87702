"""Sends of one key arrive in the order of their calls, also when they have to wait."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.fake_cluster import CUT, fake_cluster, run, until
from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendResult
from cometmq.client.send.producer import Producer
from cometmq.errors import Closed, TooManyRequests, Unreachable
from cometmq.protocol.records.properties import decode_properties
from cometmq.remoting.limits import CLIENT_LIMITS
from cometmq.remoting.loops import quick_loop
from searches import examples

ORDER = Message("orders", b"one", sharding_key="k")
LOOPS = [asyncio.new_event_loop, quick_loop]
TURN = None

sends = st.tuples(st.sampled_from((1, 100, 4095, 4096, 9000, 65_535)), st.sampled_from("abc"))
steps = st.lists(st.one_of(sends, sends, sends, st.just(TURN)), min_size=5, max_size=60)


def producing(cluster, **settings):
    settings = {"retries": 2, "async_retries": 2, "retry_backoff": 0, **settings}
    return Producer(ProducerConfig(group="senders", **settings), cluster.name_servers)


async def warm(producer, topic="orders"):
    """Its route is known and its connection is there."""
    for _ in range(2):
        await producer.send(Message(topic, b"warm"))


def arrived(cluster):
    """Numbers by queue, in their order."""
    found = defaultdict(list)
    for ask, _ in cluster["a"].sends:
        number = decode_properties(ask.properties).get("KEYS")
        if number is not None:
            found[ask.queue_id].append(int(number))
    return found


@pytest.mark.parametrize("loop_factory", LOOPS)
@given(
    steps=steps,
    in_flight_max=st.sampled_from((1, 2, 5, 100)),
    high_water=st.sampled_from((1, 20_000, 1 << 20)),
    is_warm=st.booleans(),
    is_slow=st.booleans(),
)
@settings(max_examples=examples(30))
def test_the_order_of_arrival_is_that_of_the_calls(
    loop_factory, steps, in_flight_max, high_water, is_warm, is_slow
):
    limits = replace(CLIENT_LIMITS, async_max=in_flight_max, write_high_water=high_water)

    async def test():
        async with fake_cluster() as cluster, producing(cluster, send_timeout=20) as producer:
            if is_warm:
                await warm(producer)
            if is_slow:
                cluster["a"].held = asyncio.Event()
                asyncio.get_running_loop().call_later(0.01, cluster["a"].held.set)
            outcomes = []
            count = 0
            for step in steps:
                if step is TURN:
                    await asyncio.sleep(0)
                    continue
                size, key = step
                body = b"%d" % count * size
                message = Message("orders", body[:size], keys=str(count), sharding_key=key)
                producer.send_soon(message, outcomes.append)
                count += 1
            await producer.flush()
            assert [type(each) for each in outcomes] == [SendResult] * count
            found = arrived(cluster)
            assert sum(map(len, found.values())) == count
            for numbers in found.values():
                assert numbers == sorted(numbers)

    with patch("cometmq.client.session.session.CLIENT_LIMITS", limits):
        run(test, loop_factory)


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("is_hooked", [False, True])
def test_no_send_overtakes_those_that_wait_for_the_route(loop_factory, is_hooked):
    async def test():
        for turns in range(40):
            async with fake_cluster() as cluster, producing(cluster) as producer:
                if is_hooked:
                    producer.add_hook(Onlooker())
                outcomes = []
                for number in range(5):
                    message = Message("orders", b"x", keys=str(number), sharding_key="k")
                    producer.send_soon(message, outcomes.append)
                    if number == 2:
                        for _ in range(turns):
                            await asyncio.sleep(0)
                await producer.flush()
                assert [type(each) for each in outcomes] == [SendResult] * 5
                assert list(arrived(cluster).values()) == [[0, 1, 2, 3, 4]]

    run(test, loop_factory)


class Onlooker:
    """A hook that does nothing."""

    def before_send(self, context):
        pass

    def after_send(self, context):
        pass


@pytest.mark.parametrize("loop_factory", LOOPS)
@pytest.mark.parametrize("in_flight_max", [4, 8, 16])
def test_order_holds_when_answers_make_room_between_the_calls(loop_factory, in_flight_max):
    async def test():
        for every in (2, 3, 4, 5, 6, 7, 9):
            async with fake_cluster() as cluster, producing(cluster) as producer:
                await warm(producer)
                (channel,) = producer._session.pool._alive
                channel._in_flight_max = in_flight_max
                outcomes = []
                for number in range(400):
                    message = Message("orders", b"x", keys=str(number), sharding_key="k")
                    producer.send_soon(message, outcomes.append)
                    if number % every == 0:
                        await asyncio.sleep(0)
                await producer.flush()
                assert list(arrived(cluster).values()) == [list(range(400))]

    run(test, loop_factory)


def test_a_topic_does_not_wait_for_all_of_another():
    async def test():
        async with fake_cluster() as cluster:
            cluster.queues["others"] = 1
            async with producing(cluster) as producer:
                await warm(producer)
                await warm(producer, "others")
                (channel,) = producer._session.pool._alive
                channel._in_flight_max = 1
                outcomes = []
                for number in range(200):
                    topic = "orders" if number < 150 else "others"
                    message = Message(topic, b"x", keys=str(number), sharding_key="k")
                    producer.send_soon(message, outcomes.append)
                await producer.flush()
                order = [
                    int(decode_properties(ask.properties).get("KEYS", 0)) for ask, _ in
                    cluster["a"].sends[4:]
                ]  # fmt: skip
                assert sorted(order) == list(range(200))
                assert [each for each in order if each < 150] == list(range(150))
                assert [each for each in order if each >= 150] == list(range(150, 200))
                assert order != sorted(order), "they took turns"

    run(test)


# In line


def one_at_a_time(producer, cluster):
    (channel,) = producer._session.pool._alive
    channel._in_flight_max = 1
    cluster["a"].held = asyncio.Event()


def test_each_waiting_send_has_its_own_timeout():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer)
            before = len(cluster.sends)
            one_at_a_time(producer, cluster)
            soon, late = [], []
            producer.send_soon(ORDER, late.append, timeout=60)
            producer.send_soon(ORDER, late.append, timeout=60)
            await until(lambda: len(cluster.sends) == before + 1)
            producer.send_soon(ORDER, soon.append, timeout=0.02)
            await until(lambda: soon)
            assert isinstance(soon[0], TooManyRequests)
            assert not late
            cluster["a"].held.set()
            await producer.flush()
            assert [type(each) for each in late] == [SendResult] * 2
            assert len(cluster.sends) == before + 2, "who was told so was not sent"

    run(test)


def test_closing_fails_waiting_sends_as_not_stored():
    async def test():
        async with fake_cluster() as cluster:
            producer = producing(cluster)
            await producer.start()
            await warm(producer)
            producer._timeout_ms = 500  # for the closing alone
            before = len(cluster.sends)
            one_at_a_time(producer, cluster)
            outcomes = []
            for number in range(2):
                tell = lambda outcome, number=number: outcomes.append((number, outcome))  # noqa: E731
                producer.send_soon(ORDER, tell, timeout=60)
            awaited = asyncio.create_task(producer.send(ORDER, timeout=60))
            await until(lambda: len(cluster.sends) == before + 1)
            await producer.close()
            with pytest.raises(Closed):
                await awaited
            await until(lambda: len(outcomes) == 2)
            told = dict(outcomes)
            assert isinstance(told[0], Unreachable), "a broker has it"
            assert isinstance(told[1], Closed)
            assert len(cluster.sends) == before + 1
            assert not producer._sender.in_flight

    run(test)


def test_waiting_sends_continue_on_the_next_connection():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer)
            one_at_a_time(producer, cluster)
            cluster["a"].answers = [CUT]
            outcomes = []
            for _ in range(5):
                producer.send_soon(ORDER, outcomes.append, timeout=20)
            awaited = asyncio.create_task(producer.send(ORDER, timeout=20))
            await asyncio.sleep(0)
            cluster["a"].held.set()
            assert type(await awaited) is SendResult
            await producer.flush()
            assert [type(each) for each in outcomes] == [SendResult] * 5

    run(test)


def test_a_canceled_waiting_send_is_not_sent():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer)
            before = len(cluster.sends)
            one_at_a_time(producer, cluster)
            tasks = [asyncio.create_task(producer.send(ORDER)) for _ in range(3)]
            await until(lambda: len(cluster.sends) == before + 1)
            tasks[1].cancel()
            cluster["a"].held.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in found] == [
                SendResult, asyncio.CancelledError, SendResult,
            ]  # fmt: skip
            assert len(cluster.sends) == before + 2

    run(test)
