"""Lite pull consumers whose broker or name server goes away and comes back."""

import asyncio

from clients_live.consuming import make_topic, named, send, until
from clients_live.polling import bodies_of, lite, numbered, polled
from peers.driver import start_java


def test_a_consumer_reads_on_after_its_broker_was_killed(cluster):
    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, numbered(0, 20), queues=2)
        async with lite(cluster, group) as consumer:
            consumer.subscribe(topic)
            assert len(await polled(consumer, 20)) == 20
            await consumer.commit()
            cluster.broker.kill()
            assert await consumer.poll(0.5) == []
            cluster.namesrv.kill()
            assert await consumer.poll(0.5) == []
            await asyncio.to_thread(cluster.namesrv.start)
            await asyncio.to_thread(cluster.broker.start)
            await send(cluster, topic, numbered(20, 30), queues=2)
            assert sorted(bodies_of(await polled(consumer, 10))) == numbered(20, 30)
            await consumer.commit()
            queues = consumer.assignment()
            assert [await consumer.committed(queue) for queue in queues] == [15, 15]

    asyncio.run(story())


def test_a_consumer_reads_on_without_name_servers_and_ends_without_any(cluster):
    async def story():
        topic = named("Lite")
        await make_topic(cluster, topic)
        async with lite(cluster, named("takers")) as consumer:
            consumer.subscribe(topic)
            await until(lambda: consumer.assignment(), "queue")
            cluster.namesrv.pause()
            try:
                await send(cluster, topic, ["a"])
                assert bodies_of(await polled(consumer, 1)) == ["a"]
                cluster.broker.pause()
                try:
                    async with asyncio.timeout(60):
                        await consumer.close()
                finally:
                    cluster.broker.resume()
            finally:
                cluster.namesrv.resume()

    asyncio.run(story())


def test_a_member_that_is_killed_leaves_its_queues(cluster):
    """Java's is killed: its connection tells the broker, which tells us."""

    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic, 4)
        async with lite(cluster, group) as consumer:
            consumer.subscribe(topic)
            with start_java("LitePull", cluster.namesrv.address, topic, group, 0) as java:
                assert (await asyncio.to_thread(java.next, 150))["status"] == "STARTED"
                await until(lambda: len(consumer.assignment()) == 2, "half of the queues")
                java.kill()
                await until(lambda: len(consumer.assignment()) == 4, "all queues")
            await send(cluster, topic, numbered(0, 8), queues=4)
            assert sorted(bodies_of(await polled(consumer, 8))) == numbered(0, 8)

    asyncio.run(story())
