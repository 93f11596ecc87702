"""Clients whose close was cut short, called twice, or came after that of their session.

A push consumer stayed a member of its group without reading, and left tasks behind.
"""

import asyncio

import pytest

from cometmq import ClientConfig, Message, Producer, PushConsumer, Session, TransactionProducer
from cometmq.errors import Closed
from cometmq.testing import EmbeddedCluster, blocking

WAIT_S_MAX = 60


class Busy:
    """A push consumer in a session, within a call of its listener that ends when it is told to."""

    def __init__(self, session):
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_done = False
        self.consumer = PushConsumer("takers", session=session)

        @self.consumer.on("orders")
        async def take(message):
            self.began.set()
            await self.may_end.wait()
            self.is_done = True

    async def begin(self, name_server):
        await self.consumer.start()
        await self.consumer.ready()
        async with Producer("makers", name_server) as producer:
            await producer.send(Message("orders", "one"))
        await self.began.wait()


def with_session(story):
    async def main():
        async with asyncio.timeout(WAIT_S_MAX), EmbeddedCluster() as cluster:
            await cluster.create_topic("orders", queues=1)
            async with Session(ClientConfig(name_servers=cluster.name_server)) as session:
                await story(cluster, session)

    asyncio.run(main())


def names_of_tasks():
    return {task.get_name() for task in asyncio.all_tasks()}


def test_a_close_that_is_cut_short_goes_on_and_a_second_waits_for_it():
    async def story(cluster, session):
        busy = Busy(session)
        await busy.begin(cluster.name_server)
        first = asyncio.create_task(busy.consumer.close())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(busy.consumer.close())
        await asyncio.sleep(0)
        assert not second.done()
        busy.may_end.set()
        await second
        assert busy.is_done
        assert not session.members.consumers

    with_session(story)


def test_a_consumer_closes_after_its_session():
    async def story(cluster, session):
        before = names_of_tasks()
        busy = Busy(session)
        await busy.begin(cluster.name_server)
        busy.may_end.set()
        await session.close()
        await busy.consumer.close()
        await asyncio.sleep(0)
        assert not {name for name in names_of_tasks() - before if "Background" in name}

    with_session(story)


def test_who_waits_for_a_consumer_to_be_ready_learns_that_it_is_closed():
    async def story(cluster, session):
        consumer = PushConsumer("takers", session=session)
        consumer.on("nowhere")(lambda message: None)
        await consumer.start()
        waiting = asyncio.create_task(consumer.ready())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await consumer.close()
        with pytest.raises(Closed):
            await waiting

    with_session(story)


def test_a_second_close_of_a_producer_waits_for_the_local_transaction():
    async def story(cluster, session):
        began, may_end = asyncio.Event(), asyncio.Event()

        async def local(message):
            began.set()
            await may_end.wait()

        producer = TransactionProducer("makers", check=lambda message: None, session=session)
        await producer.start()
        message = Message("orders", "one")
        sending = asyncio.create_task(producer.send_in_transaction(message, local))
        await began.wait()
        closes = [asyncio.create_task(producer.close()) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert not any(each.done() for each in closes)
        may_end.set()
        await asyncio.gather(*closes)
        assert (await sending).is_told

    with_session(story)


def test_a_base_exception_of_a_listener_is_a_failure_like_any_other():
    """As outcomes of test tools are: its worker was lost, and its message held up."""

    class Stop(BaseException):
        pass

    async def story(cluster, session):
        tried = asyncio.Queue()
        async with PushConsumer("takers", session=session) as consumer:

            @consumer.on("orders")
            async def take(message):
                tried.put_nowait(message.reconsume_times)
                if message.reconsume_times == 0:
                    raise Stop

            await consumer.ready()
            async with Producer("makers", cluster.name_server) as producer:
                await producer.send(Message("orders", "one"))
            assert await tried.get() == 0
            while tried.empty():
                cluster.advance(10)
                await asyncio.sleep(0.05)
            assert await tried.get() == 1

    with_session(story)


def test_a_producer_of_another_loop_says_so():
    """Its answers came to the loop that it was started on: a send here never ended."""
    with blocking.EmbeddedCluster() as cluster:
        producer = Producer("makers", cluster.name_server)

        async def first():
            await producer.start()
            await producer.send(Message("orders", "one"))

        async def later():
            with pytest.raises(Closed, match="another event loop"):
                await producer.send(Message("orders", "two"))
            told = asyncio.get_running_loop().create_future()
            producer.send_soon(Message("orders", "three"), told.set_result)
            assert isinstance(await told, Closed)
            with pytest.raises(Closed, match="another event loop"):
                await producer.send_batch([Message("orders", "four")])

        with asyncio.Runner() as runner:
            runner.run(first())
            asyncio.run(later())
            runner.run(producer.close())
