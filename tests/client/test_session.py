"""A session: who joins and leaves it, what it knows of brokers, and how it ends."""

import asyncio

import pytest

from client.fake_cluster import SILENT, fake_cluster, run, until
from cometmq.client.config import ClientConfig
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.client.session.session import Session
from cometmq.errors import Closed, NoRoute, Unreachable
from cometmq.protocol.bodies.heartbeat import ConsumerData
from cometmq.protocol.codes import RequestCode, ResponseCode

ORDER = Message("orders", b"one")


class Consumer:
    group = "takers"

    def data(self):
        return ConsumerData(group_name=self.group)


# Forks


def test_the_copy_in_a_forked_child_touches_no_connection():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            producer = Producer("senders", session=session)
            await producer.start()
            await producer.send(ORDER)
            (channel,) = session.pool._alive
            written = len(cluster["a"].beats)
            session.forked()
            for ask in (producer.send, producer.request, producer.send_oneway):
                with pytest.raises(Closed, match="fork"):
                    await ask(ORDER)
            with pytest.raises(Unreachable):
                await session.pool.invoke(
                    cluster["a"].address, RequestCode.HEART_BEAT, timeout_ms=9
                )
            await session.heart.beat()
            await producer.close()
            await session.leave_consumer(Consumer())
            assert not session.members.producers
            channel.close()  # the parent's part, as of here
            await session.background.close()
            await channel.gone.wait()
        assert (cluster["a"].gone, len(cluster["a"].beats)) == ([], written)

    run(test)


# Joining and leaving


def test_who_leaves_is_not_brought_back_by_a_heartbeat():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            broker = cluster["a"]
            await session.routes.of("orders")
            consumer = Consumer()
            await session.join_consumer(consumer)
            assert [each.group_name for each in broker.beats[-1].consumer_data_set] == ["takers"]
            async with Producer("senders", session=session):
                broker.leaving = asyncio.Event()
                leaving = asyncio.create_task(session.leave_consumer(consumer))
                await until(lambda: broker.gone == ["takers"])
                await session.heart.beat()
                assert broker.beats[-1].consumer_data_set == []
                broker.leaving.set()
                await leaving

    run(test)


def test_a_start_that_is_cancelled_leaves_no_member():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            await session.routes.of("orders")
            cluster["a"].beat_answers = [SILENT]
            producer = Producer("senders", session=session)
            starting = asyncio.create_task(producer.start())
            await until(lambda: cluster["a"].beats)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert not session.members.producers
            await producer.start()
            await producer.close()

    run(test)


def test_a_close_that_is_cancelled_leaves_no_member():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            producer = Producer("senders", session=session)
            await producer.start()
            cluster["a"].answers = [SILENT]
            sending = asyncio.create_task(producer.send(ORDER))
            await until(lambda: cluster.sends)
            closing = asyncio.create_task(producer.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert session.members.producers, "it goes on, in its own time"
            sending.cancel()
            await producer.close()
            assert not session.members.producers

    run(test)


def test_a_close_that_is_cancelled_closes_the_connections():
    async def test():
        async with fake_cluster() as cluster:
            session = cluster.session()
            await session.routes.of("orders")
            begun, goes_on = asyncio.Event(), asyncio.Event()

            async def stubborn():
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await goes_on.wait()

            session.background.start(stubborn(), "stubborn")
            await begun.wait()
            closing = asyncio.create_task(session.close())
            await asyncio.sleep(0)
            closing.cancel()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert not session.pool._alive

    run(test)


def test_nor_does_one_that_is_cancelled_while_the_pool_closes(monkeypatch):
    async def test():
        async with fake_cluster() as cluster:
            session = cluster.session()
            await session.routes.of("orders")
            reached, goes_on = asyncio.Event(), asyncio.Event()
            close = session.pool.close

            async def slowly():
                reached.set()
                await goes_on.wait()
                await close()

            monkeypatch.setattr(session.pool, "close", slowly)
            closing = asyncio.create_task(session.close())
            await reached.wait()
            closing.cancel()
            again = asyncio.create_task(session.close())
            await asyncio.sleep(0)
            assert not again.done(), "who closes it again waits for the end as well"
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await again
            assert not session.pool._alive

    run(test)


def test_a_heartbeat_that_is_refused_is_logged_once(caplog):
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            await session.routes.of("orders")
            cluster["a"].beat_answers = [ResponseCode.SYSTEM_ERROR] * 2
            await session.join_producer(Producer("senders", session=session))
            await session.heart.beat()
            assert caplog.text.count("does not accept heartbeats") == 1
            assert "as the test says" in caplog.text
            await session.heart.beat()  # taken
            cluster["a"].beat_answers = [ResponseCode.SYSTEM_ERROR]
            await session.heart.beat()
            assert caplog.text.count("does not accept heartbeats") == 2

    run(test)


# Routes


def test_a_broker_that_only_a_guess_knows_is_kept_for_a_while():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            cluster.queues = {"TBW102": 4}
            for _ in range(2):
                await session.routes.of_new("new", "TBW102", 4)
                await session.routes.refresh()
                assert session.master_of("a") == cluster["a"].address
            await session.routes.refresh()
            with pytest.raises(NoRoute):
                session.master_of("a")

    run(test)


def test_guesses_that_are_made_at_once_share_one_question():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            cluster.queues = {"TBW102": 4}
            new = (session.routes.of_new(f"new-{each}", "TBW102", 4) for each in range(20))
            await asyncio.gather(*new)
            assert cluster.route_asks == 20 + 1

    run(test)


def test_a_topic_is_created_where_there_are_masters():
    async def test():
        async with fake_cluster() as cluster, Producer("g", cluster.name_servers) as producer:
            cluster.broker_id = 1
            with pytest.raises(NoRoute, match="no master serves"):
                await producer.create_topic("new", like="orders")

    run(test)


# Who it is


def test_a_client_may_call_itself_what_is_no_address():
    async def test():
        config = ClientConfig(name_servers="127.0.0.1:1", client_ip="my-pod", instance_name="one")
        async with Session(config) as session:
            assert session.client_id == "my-pod@one"
            assert len(session.unique_key()) == 32

    run(test)
