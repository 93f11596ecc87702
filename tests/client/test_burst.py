"""Sends of one loop turn are written together; each has its own outcome and timeout."""

import asyncio

import pytest

from client.fake_cluster import CUT, SILENT, fake_cluster, run, until
from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendResult, SendStatus
from cometmq.client.send.producer import Producer
from cometmq.errors import BadMessage, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.records.message_id import UniqueKey

ORDER = Message("orders", b"one")


def producing(cluster, **settings):
    settings = {"retries": 2, "async_retries": 2, "retry_backoff": 0, **settings}
    return Producer(ProducerConfig(group="senders", **settings), cluster.name_servers)


async def warm(producer, cluster):
    """Its route is known and its connections are there: what follows goes with bursts."""
    for _ in range(2 * len(cluster.brokers)):
        await producer.send(ORDER)


def only_channel(producer):
    (channel,) = producer._session.pool._alive
    return channel


def test_sends_of_one_turn_leave_in_two_writes_with_keys_of_their_own(monkeypatch):
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            transport = only_channel(producer)._transport
            writes = []
            outcomes = []

            def write(data):
                writes.append(data)
                type(transport).write(transport, data)

            monkeypatch.setattr(transport, "write", write, raising=False)
            tasks = [asyncio.create_task(producer.send(ORDER)) for _ in range(100)]
            for _ in range(100):
                producer.send_soon(ORDER, outcomes.append)
            results = await asyncio.gather(*tasks)
            await producer.flush()
            # The broker begins with the first of them, and has the rest when it has done those.
            sends = b'"code":%d,' % RequestCode.SEND_MESSAGE_V2
            assert [data.count(sends) for data in writes] == [32, 168]
            results += outcomes
            keys = [UniqueKey.parse(result.message_id) for result in results]
            assert len({key.counter for key in keys}) == 200
            assert {type(result) for result in results} == {SendResult}

    run(test)


def test_a_bad_message_fails_alone():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            bad = Message("orders", b"x", tags="a\x01b")
            outcomes = []
            for message in (ORDER, bad, ORDER):
                producer.send_soon(message, outcomes.append)
            results = await asyncio.gather(
                producer.send(ORDER), producer.send(bad), producer.send(ORDER),
                return_exceptions=True,
            )  # fmt: skip
            await producer.flush()
            assert [type(each) for each in results] == [SendResult, BadMessage, SendResult]
            kinds = sorted(type(each).__name__ for each in outcomes)
            assert kinds == ["BadMessage", "SendResult", "SendResult"]

    run(test)


def test_a_send_canceled_before_the_write_is_not_sent():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            before = len(cluster.sends)
            tasks = [asyncio.create_task(producer.send(ORDER)) for _ in range(3)]
            await asyncio.sleep(0)  # they have begun, and nothing is written
            tasks[1].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in results] == [
                SendResult, asyncio.CancelledError, SendResult,
            ]  # fmt: skip
            assert len(cluster.sends) == before + 2
            assert not producer._sender.in_flight

    run(test)


def test_a_connection_that_closes_before_the_write_costs_no_attempt():
    async def test():
        async with fake_cluster() as cluster, producing(cluster, retries=0) as producer:
            await warm(producer, cluster)
            outcomes = []
            task = asyncio.create_task(producer.send(ORDER))
            producer.send_soon(ORDER, outcomes.append)
            only_channel(producer).abort()
            assert (await task).status is SendStatus.OK
            await producer.flush()
            assert outcomes[0].status is SendStatus.OK

    run(test)


def test_attempts_share_one_unique_key():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            before = len(cluster.sends)
            for broker in cluster.brokers:
                broker.answers = [CUT]
            result = await producer.send(ORDER, timeout=5)
            tried = [ask for each in cluster.brokers for ask, _ in each.sends]
            again = [ask for ask in tried if result.message_id in ask.properties]
            assert len(cluster.sends) > before + 1
            assert len(again) == len(cluster.sends) - before
            assert len({ask.born_timestamp for ask in again}) == 1

    run(test)


def test_each_send_has_its_own_timeout():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            cluster["a"].answers = [SILENT] * 2
            outcomes = []
            producer.send_soon(ORDER, outcomes.append, timeout=0.5)
            task = asyncio.create_task(producer.send(ORDER, timeout=60))
            await until(lambda: outcomes)
            assert isinstance(outcomes[0], TimedOut)
            assert "may have stored" in str(outcomes[0])
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: not only_channel(producer)._calls)

    run(test)


def test_an_unsafe_result_is_returned_by_default():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            for broker in cluster.brokers:
                broker.answers = [ResponseCode.FLUSH_DISK_TIMEOUT]
            result = await producer.send(ORDER)
            assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
            assert not producer._sender.in_flight

    run(test)


def test_callback_sends_beyond_the_limit_fail(monkeypatch):
    async def test():
        monkeypatch.setattr("cometmq.client.send.sender.CLIENT_ASYNC_MAX", 3)
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await warm(producer, cluster)
            outcomes = []
            for _ in range(5):
                producer.send_soon(ORDER, outcomes.append)
            await producer.flush()
            kinds = sorted(type(each).__name__ for each in outcomes)
            assert kinds == ["SendResult"] * 3 + [TooManyRequests.__name__] * 2

    run(test)


def test_without_retries_a_lost_answer_is_unreachable():
    async def test():
        once = {"retries": 0, "async_retries": 0}
        async with fake_cluster() as cluster, producing(cluster, **once) as producer:
            await warm(producer, cluster)
            cluster["a"].answers = [CUT]
            with pytest.raises(Unreachable):
                await producer.send(ORDER)
            await warm(producer, cluster)
            cluster["a"].answers = [CUT]
            outcomes = []
            producer.send_soon(ORDER, outcomes.append)
            await producer.flush()
            assert [type(each) for each in outcomes] == [Unreachable]

    run(test)
