"""Pull consumers, on our broker and on Apache's."""

import asyncio
import time

import pytest

from clients_live.consuming import Seen, client_of, consumer_of, make_topic, named, send, until
from clients_live.consuming import listening as pushed
from clients_live.polling import numbered
from cometmq.client.consumer.lite.pull import PullConsumer
from cometmq.client.message import PullStatus
from cometmq.errors import Refused
from peers.raw import RawClient


def pulling(cluster, group):
    return PullConsumer(group, client=client_of(cluster))


def test_pulls_from_where_they_are_told(cluster):
    async def story():
        topic = named("Pull")
        await make_topic(cluster, topic)
        await send(cluster, topic, numbered(0, 20), TAGS="low", a="1")
        await send(cluster, topic, numbered(20, 40), TAGS="high", a="2")
        async with pulling(cluster, named("readers")) as consumer:
            (queue,) = await consumer.fetch_queues(topic)
            await until(lambda: _is_end(consumer, queue, 40), "end of the queue")
            first = await consumer.pull(queue, 0, 10)
            assert [each.text() for each in first.messages] == numbered(0, 10)
            assert (first.status, first.next_offset) == (PullStatus.FOUND, 10)
            assert (first.min_offset, first.max_offset) == (0, 40)
            tagged = await consumer.pull(queue, 10, tags="high")
            assert [each.text() for each in tagged.messages] == numbered(20, 40)
            chosen = await consumer.pull(queue, 10, sql="a = 2")
            assert [each.text() for each in chosen.messages] == numbered(20, 40)
            none = await consumer.pull(queue, 0, tags="none")
            assert (none.status, none.messages) == (PullStatus.NO_MATCHED, ())
            assert (await consumer.pull(queue, 40)).status is PullStatus.NO_NEW
            beyond = await consumer.pull(queue, 50)
            assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 40)

    asyncio.run(story())


def test_a_pull_waits_for_the_message_that_comes(cluster):
    async def story():
        topic = named("Pull")
        await make_topic(cluster, topic)
        async with pulling(cluster, named("readers")) as consumer:
            (queue,) = await consumer.fetch_queues(topic)
            waiting = asyncio.create_task(consumer.pull_or_wait(queue, 0))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            await send(cluster, topic, ["wakes"])
            found = await waiting
            if (
                found.status is PullStatus.NO_NEW
            ):  # of a queue that is not there, nothing is waited for
                found = await consumer.pull_or_wait(queue, 0)
            assert [each.text() for each in found.messages] == ["wakes"]

    asyncio.run(story())


def test_offsets_and_questions(cluster):
    async def story():
        topic, group = named("Pull"), named("readers")
        await make_topic(cluster, topic, 2)
        begin_ms = time.time_ns() // 1_000_000
        await send(cluster, topic, numbered(0, 5), KEYS="shared own")
        async with pulling(cluster, group) as consumer:
            queue, _ = await consumer.fetch_queues(topic)
            await until(lambda: _is_end(consumer, queue, 5), "end of the queue")
            await consumer.commit(queue, 3)
            assert await consumer.committed(queue) == 3
            async with RawClient(cluster.broker.address) as raw:
                assert await raw.consumed(group, topic, 0) == 3
            assert await consumer.min_offset(queue) == 0
            assert await consumer.earliest_stored_ms(queue) >= begin_ms
            assert await consumer.search_offset(queue, 1000) == 0
            # The nearest, which is the last and not the end; of those of one moment, any.
            last_ms = (await consumer.pull(queue, 4)).messages[0].stored_ms
            found = await consumer.search_offset(queue, last_ms + 60_000)
            assert (await consumer.pull(queue, found)).messages[0].stored_ms == last_ms
            message = (await consumer.pull(queue, 2)).messages[0]
            again = await consumer.view_message(message.offset_id)
            assert (again.text(), again.queue) == ("m2", message.queue)

            async def found():
                return len(await consumer.query_message(topic, "shared")) == 5

            await until(found, "index")
            assert len(await consumer.query_message(topic, "own", count_max=2)) == 2
            assert await consumer.query_message(topic, "nobody") == []
            with pytest.raises(Refused):
                await consumer.view_message(message.offset_id[:-8] + "7FFFFFFF")

    asyncio.run(story())


def test_what_is_sent_back_comes_to_the_group_again(cluster):
    async def story():
        topic, group = named("Pull"), named("takers")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["again"])
        seen = Seen()
        async with pushed(consumer_of(cluster, group), topic, seen):
            await seen.wait_for(1)  # the group has a retry topic from now on
            async with pulling(cluster, group) as consumer:
                (queue,) = await consumer.fetch_queues(topic)
                (message,) = (await consumer.pull(queue, 0)).messages
                await consumer.send_back(message, 1)
            await seen.wait_for(2)
        assert seen.bodies == ["again", "again"]
        assert seen.messages[1].reconsume_times == 1

    asyncio.run(story())


async def _is_end(consumer, queue, offset):
    return await consumer.max_offset(queue) == offset
