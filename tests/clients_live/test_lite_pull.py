"""Lite pull consumers, on our broker and on Apache's, and beside Apache's own."""

import asyncio
from collections import Counter

import pytest

from clients_live.consuming import client_of, make_topic, named, send, until
from clients_live.polling import bodies_of, lite, numbered, polled
from cometmq import blocking
from cometmq.client.config import LitePullConsumerConfig
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.heartbeat import ConsumeFrom, MessageModel
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.consumer import ResetOffsetHeader
from peers.driver import start_java
from peers.raw import RawClient

PATIENT_S = 60  # for a poll that returns as soon as there is something


def test_a_group_reads_commits_and_goes_on(cluster):
    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, numbered(0, 50), queues=2)
        async with lite(cluster, group) as first:
            first.subscribe(topic)
            messages = await polled(first, 50)
            assert sorted(bodies_of(messages)) == sorted(numbered(0, 50))
            for queue_id in range(2):
                own = [each.queue_offset for each in messages if each.queue_id == queue_id]
                assert own == list(range(25))
        await send(cluster, topic, numbered(50, 60), queues=2)
        async with lite(cluster, group, auto_commit=False) as second:  # which is every 5 s
            second.subscribe(topic)
            assert sorted(bodies_of(await polled(second, 10))) == numbered(50, 60)
            for queue in second.assignment():
                assert await second.committed(queue) == 25
            await second.commit()
            for queue in second.assignment():
                assert await second.committed(queue) == 30

    asyncio.run(story())


def test_queues_are_assigned_sought_paused_and_asked_about(cluster):
    async def story():
        topic = named("Lite")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, numbered(0, 10))
        await asyncio.sleep(0.6)
        await send(cluster, topic, numbered(10, 20))
        async with lite(cluster, named("takers")) as consumer:
            queue, other = await consumer.fetch_queues(topic)
            consumer.assign([queue])
            assert consumer.assignment() == [queue]
            await consumer.seek(queue, 15)  # before anything is known of the queue
            assert bodies_of(await polled(consumer, 5)) == numbered(15, 20)
            await consumer.seek(queue, 10)
            later = await consumer.poll(PATIENT_S)
            assert bodies_of(later) == numbered(10, 20)
            await consumer.seek_to_begin(queue)
            assert bodies_of(await consumer.poll(PATIENT_S)) == numbered(0, 10)
            # Much nearer to what followed than to what was before: Apache goes by that.
            found = await consumer.offset_for_timestamp(queue, later[0].stored_ms - 50)
            assert found == 10
            await consumer.seek(queue, 12)
            assert bodies_of(await consumer.poll(PATIENT_S)) == numbered(12, 20)
            await consumer.seek_to_end(queue)
            assert await consumer.poll(0.3) == []
            await send(cluster, topic, ["m20"])
            assert bodies_of(await consumer.poll(PATIENT_S)) == ["m20"]
            with pytest.raises(BadSetting, match="from 0 to 21"):
                await consumer.seek(queue, 22)
            consumer.pause([queue])
            await send(cluster, topic, ["m21"])
            assert await consumer.poll(0.3) == []
            consumer.resume([queue])
            assert bodies_of(await consumer.poll(PATIENT_S)) == ["m21"]
            await consumer.commit()
            assert await consumer.committed(queue) == 22
            assert await consumer.committed(other) == 0  # of a queue that is short and whole

    asyncio.run(story())


def test_filters_by_tag_and_by_sql(cluster):
    async def story():
        topic = named("Lite")
        await make_topic(cluster, topic)
        await send(cluster, topic, numbered(0, 40), TAGS="low", a="1")
        await send(cluster, topic, numbered(40, 45), TAGS="high", a="2")
        async with lite(cluster, named("tags")) as tags, lite(cluster, named("sql")) as sql:
            tags.subscribe(topic, "high || top")
            sql.subscribe(topic, sql="a = 2 AND TAGS = 'high'")
            assert bodies_of(await polled(tags, 5)) == numbered(40, 45)
            assert bodies_of(await polled(sql, 5)) == numbered(40, 45)

    asyncio.run(story())


def test_messages_are_iterated_as_they_come(cluster):
    async def story():
        topic = named("Lite")
        await make_topic(cluster, topic)
        async with lite(cluster, named("takers")) as consumer:
            consumer.subscribe(topic)
            sending = asyncio.create_task(send(cluster, topic, numbered(0, 30)))
            seen = []
            async with asyncio.timeout(60):
                async for message in consumer:
                    seen.append(message.text())
                    if len(seen) == 30:
                        break
            await sending
            assert seen == numbered(0, 30)

    asyncio.run(story())


def test_two_members_share_and_one_takes_over(cluster):
    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic, 4)
        async with lite(cluster, group) as one:
            one.subscribe(topic)
            await until(lambda: len(one.assignment()) == 4, "all queues")
            async with lite(cluster, group) as other:
                other.subscribe(topic)
                await until(
                    lambda: len(one.assignment()) == 2 == len(other.assignment()), "two each"
                )
                assert not set(one.assignment()) & set(other.assignment())
                await send(cluster, topic, numbered(0, 40), queues=4)
                found = await polled(one, 20) + await polled(other, 20)
                assert sorted(bodies_of(found)) == sorted(numbered(0, 40))
            await until(lambda: len(one.assignment()) == 4, "all queues again")
            await send(cluster, topic, numbered(40, 48), queues=4)
            assert sorted(bodies_of(await polled(one, 8))) == numbered(40, 48)

    asyncio.run(story())


def test_an_operator_resets_offsets_of_a_running_member(cluster):
    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic)
        await send(cluster, topic, numbered(0, 10))
        async with lite(cluster, group) as consumer, RawClient(cluster.broker.address) as raw:
            consumer.subscribe(topic)
            await polled(consumer, 10)
            await consumer.commit()
            header = ResetOffsetHeader(topic=topic, group=group, timestamp=0, is_force=True)
            await raw.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
            assert bodies_of(await polled(consumer, 10)) == numbered(0, 10)

    asyncio.run(story())


def test_every_broadcasting_reader_gets_all_and_goes_on_by_its_file(cluster, tmp_path):
    async def story():
        topic, group = named("Lite"), named("hearers")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, numbered(0, 10), queues=2)

        def reader(name):
            return lite(
                cluster, group, client_of(cluster, instance_name=name),
                message_model=MessageModel.BROADCASTING, offset_folder=tmp_path,
            )  # fmt: skip

        async with reader("one") as one, reader("two") as two:
            for each in (one, two):
                each.subscribe(topic)
                assert len(await polled(each, 10)) == 10
        await send(cluster, topic, ["late"])
        async with reader("one") as again:
            again.subscribe(topic)
            assert bodies_of(await polled(again, 1)) == ["late"]

    asyncio.run(story())


def test_code_that_does_not_await(cluster):
    topic, group = named("Lite"), named("takers")
    asyncio.run(make_topic(cluster, topic))
    asyncio.run(send(cluster, topic, numbered(0, 20)))
    config = LitePullConsumerConfig(group=group, consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer = blocking.LitePullConsumer(config, client=client_of(cluster))
    with pytest.raises(ZeroDivisionError), consumer:
        consumer.subscribe(topic)
        assert bodies_of(consumer.poll(PATIENT_S)) == numbered(0, 10)
        for message in consumer:
            if message.text() == "m13":
                raise ZeroDivisionError
    with blocking.LitePullConsumer(config, client=client_of(cluster)) as consumer:
        consumer.subscribe(topic)
        (queue,) = consumer.fetch_queues(topic)
        assert bodies_of(next(consumer.batches())) == numbered(13, 20)
        consumer.commit()
        assert consumer.committed(queue) == 20
        consumer.seek_to_begin(queue)
        assert next(iter(consumer)).text() == "m0"
    with blocking.PullConsumer(group, client=client_of(cluster)) as reader:
        assert bodies_of(reader.pull(queue, 18).messages) == ["m18", "m19"]
        assert (reader.committed(queue), reader.max_offset(queue)) == (1, 20)


# Beside Apache's client


@pytest.mark.usefixtures("apache_class_path")
def test_offsets_go_from_us_to_java_and_back(cluster):
    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic)
        await send(cluster, topic, numbered(0, 20))
        async with lite(cluster, group) as consumer:
            consumer.subscribe(topic)
            assert bodies_of(await polled(consumer, 10)) == numbered(0, 10)
        with start_java("LitePull", cluster.namesrv.address, topic, group, 10) as java:
            lines = await asyncio.to_thread(java.rest, 150)
        seen = [line["body"] for line in lines if line["status"] == "MESSAGE"]
        assert seen == numbered(10, 20)
        await send(cluster, topic, ["m20"])
        async with lite(cluster, group) as consumer:
            consumer.subscribe(topic)
            assert bodies_of(await polled(consumer, 1)) == ["m20"]

    asyncio.run(story())


@pytest.mark.usefixtures("apache_class_path")
def test_a_group_of_java_and_us_shares_its_queues(cluster):
    async def story():
        topic, group = named("Lite"), named("takers")
        await make_topic(cluster, topic, 8)
        async with lite(cluster, group) as consumer:
            consumer.subscribe(topic)
            await until(lambda: len(consumer.assignment()) == 8, "all queues")
            with start_java("LitePull", cluster.namesrv.address, topic, group, 0) as java:
                assert (await asyncio.to_thread(java.next, 150))["status"] == "STARTED"
                await until(lambda: len(consumer.assignment()) == 4, "half of the queues")
                ours = {queue.queue_id for queue in consumer.assignment()}
                await send(cluster, topic, numbered(0, 80), queues=8)
                own = await polled(consumer, 40)
                assert {message.queue_id for message in own} == ours
                theirs = [await asyncio.to_thread(java.next) for _ in range(40)]
                assert not ours & {line["queue"] for line in theirs}
                counts = Counter([*bodies_of(own), *(line["body"] for line in theirs)])
                assert counts == Counter(numbered(0, 80))
            await until(lambda: len(consumer.assignment()) == 8, "all queues again")
            await send(cluster, topic, numbered(80, 88), queues=8)
            assert sorted(bodies_of(await polled(consumer, 8))) == numbered(80, 88)

    asyncio.run(story())
