"""The producer on real brokers: what it sends is there, as it was sent."""

import asyncio
import subprocess
import sys
import threading
from random import Random

import pytest

from clients_live.reading import read_all
from cometmq import blocking
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.message import Message, SendStatus
from cometmq.client.send.producer import Producer
from cometmq.errors import BadMessage, NoRoute, Refused, TimedOut
from cometmq.protocol.codes import ResponseCode


def config(**settings):
    return ProducerConfig(group="senders", **settings)


def patient():
    """For a machine that may be busy, and for many at once: the last of them waits for all."""
    return config(send_timeout=60)


async def bodies(cluster, topic, count):
    return [message.body for message in await read_all(cluster.namesrv.address, topic, count)]


async def until_served(producer, topic):
    """Name servers of Apache's brokers hear of a new topic a moment later."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await producer.fetch_publish_queues(topic)
            except NoRoute:
                await asyncio.sleep(0.05)


def test_every_way_to_send_stores_the_message(cluster):
    async def main():
        async with Producer(patient(), cluster.namesrv.address) as producer:
            awaited = await producer.send(
                Message("ways", b"awaited", tags="t", keys=("a", "b"), properties={"p": "q"})
            )
            await producer.send_oneway(Message("ways", b"oneway"))
            outcomes = []
            producer.send_soon(Message("ways", b"told"), outcomes.append)
            await producer.flush()
            (batch,) = await producer.send_batch(
                [Message("ways", b"first", keys="x"), Message("ways", b"second")]
            )
            assert [awaited.status, outcomes[0].status, batch.status] == [SendStatus.OK] * 3
            found = {each.body: each for each in await read_all(cluster.namesrv.address, "ways", 5)}
            assert set(found) == {b"awaited", b"oneway", b"told", b"first", b"second"}
            first = found[b"awaited"]
            assert (first.tags, first.keys, first.user_properties) == ("t", ("a", "b"), {"p": "q"})
            assert (first.message_id, first.offset_id) == (awaited.message_id, awaited.offset_id)
            assert (first.queue, first.queue_offset) == (awaited.queue, awaited.queue_offset)
            assert found[b"told"].offset_id == outcomes[0].offset_id
            ids = [found[b"first"].message_id, found[b"second"].message_id]
            assert batch.message_id.split(",") == ids

    asyncio.run(main())


def test_what_was_sent_is_found_by_its_ids_and_keys(cluster):
    async def main():
        async with Producer(patient(), cluster.namesrv.address) as producer:
            await producer.create_topic("sought", queues=3)
            queues = await until_served(producer, "sought")
            assert len(queues) == 3
            result = await producer.send(Message("sought", b"here", keys="needle"), queue=queues[1])
            viewed = await producer.view_message(result.offset_id)
            assert (viewed.body, viewed.message_id) == (b"here", result.message_id)
            async with asyncio.timeout(60):
                while not (found := await producer.query_message("sought", "needle")):
                    await asyncio.sleep(0.05)  # Apache's index comes a moment later
            assert [each.offset_id for each in found] == [result.offset_id]
            (same,) = await producer.query_message("sought", result.message_id, unique=True)
            assert same.offset_id == result.offset_id
            assert await producer.query_message("sought", "straw") == []
            assert await producer.min_offset(result.queue) == 0
            async with asyncio.timeout(60):
                while await producer.max_offset(result.queue) != 1:
                    await asyncio.sleep(0.05)
            stored_ms = viewed.stored_ms
            assert await producer.earliest_stored_ms(result.queue) == stored_ms
            assert await producer.search_offset(result.queue, stored_ms) == 0
            with pytest.raises(BadMessage, match="is not an offset id"):
                await producer.view_message("nonsense")

    asyncio.run(main())


def test_many_at_once_arrive_once_each(cluster):
    async def main():
        async with Producer(patient(), cluster.namesrv.address) as producer:
            results = await asyncio.gather(
                *(producer.send(Message("many", b"%d" % number)) for number in range(1000))
            )
            assert len({(result.queue, result.queue_offset) for result in results}) == 1000
            found = await bodies(cluster, "many", 1000)
            assert sorted(map(int, found)) == list(range(1000))

    asyncio.run(main())


def test_messages_of_one_key_stay_in_order(cluster):
    async def main():
        async with Producer(patient(), cluster.namesrv.address) as producer:
            for step in range(5):
                for order in range(6):
                    await producer.send(
                        Message("steps", b"%d %d" % (order, step), sharding_key=f"order-{order}")
                    )
                    await producer.send(
                        Message("steps", b"%d %d" % (order + 6, step)),
                        selector=lambda queues, message, key: queues[key % len(queues)],
                        key=order,
                    )
            found = await bodies(cluster, "steps", 60)
            steps = {}
            for body in found:
                order, step = body.split()
                steps.setdefault(order, []).append(int(step))
            assert len(steps) == 12
            assert all(each == [0, 1, 2, 3, 4] for each in steps.values())

    asyncio.run(main())


def test_a_batch_keeps_its_order_over_several_frames(cluster):
    """6 MB, of which a broker takes 4 MiB at once."""

    async def main():
        messages = [Message("long-batch", b"%05d" % number + bytes(1500)) for number in range(4000)]
        async with Producer(patient(), cluster.namesrv.address) as producer:
            results = await producer.send_batch(messages)
            assert len(results) == 2
            assert sum(result.message_id.count(",") + 1 for result in results) == 4000
            found = await bodies(cluster, "long-batch", 4000)
            assert [int(body[:5]) for body in found] == list(range(4000))

    asyncio.run(main())


@pytest.mark.parametrize("size", [4096, 1_000_000])
def test_a_compressed_body_is_read_as_it_was(cluster, size):
    async def main():
        body = Random(size).randbytes(size // 2).hex().encode()
        async with Producer(patient(), cluster.namesrv.address) as producer:
            result = await producer.send(Message("compressed", body))
            message = await producer.view_message(result.offset_id)
            assert message.body == body
            assert message.size < size

    asyncio.run(main())


def test_a_body_that_is_too_large_is_refused(cluster):
    async def main():
        body = Random(1).randbytes((4 << 20) + 1)
        async with Producer("senders", cluster.namesrv.address) as producer:
            with pytest.raises(BadMessage, match="the limit is 4194304"):
                await producer.send(Message("large", body))
        settings = config(message_size_max=8 << 20, send_timeout=60)
        async with Producer(settings, cluster.namesrv.address) as producer:
            with pytest.raises(Refused) as caught:
                await producer.send(Message("large", body))
            assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
            fits = await producer.send(Message("large", Random(2).randbytes((4 << 20) - 1000)))
            assert fits.status is SendStatus.OK

    asyncio.run(main())


def test_a_topic_that_nobody_makes(cluster):
    async def main():
        settings = config(create_topic_key="no-pattern")
        async with Producer(settings, cluster.namesrv.address) as producer:
            with pytest.raises(NoRoute, match="create it"):
                await producer.send(Message("unmade", b"x"))

    asyncio.run(main())


def test_a_broker_that_stands_still_costs_the_timeout_and_no_more(cluster):
    async def main():
        async with Producer(patient(), cluster.namesrv.address) as producer:
            await producer.send(Message("still", b"before"))
            cluster.broker.pause()
            try:
                with pytest.raises(TimedOut, match="may have stored"):
                    await producer.send(Message("still", b"meanwhile"), timeout=1)
                task = asyncio.create_task(producer.send(Message("still", b"given up")))
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            finally:
                cluster.broker.resume()
            assert (await producer.send(Message("still", b"after"))).status is SendStatus.OK

    asyncio.run(main())


def test_names_have_a_namespace(cluster):
    async def main():
        client = ClientConfig(name_servers=cluster.namesrv.address, namespace="shop")
        async with Producer(patient(), client=client) as producer:
            result = await producer.send(Message("orders", b"x"))
            assert result.queue.topic == "orders"
            message = await producer.view_message(result.offset_id)
            assert message.topic == "orders"
            assert message.record.topic == "shop%orders"

    asyncio.run(main())


def test_hooks_see_what_is_sent(cluster):
    class Watcher:
        def __init__(self):
            self.results = []

        def before_send(self, context):
            assert context.broker == cluster.broker.address

        def after_send(self, context):
            self.results.append(context.result)

    async def main():
        async with Producer(patient(), cluster.namesrv.address) as producer:
            watcher = Watcher()
            producer.add_hook(watcher)
            result = await producer.send(Message("watched", b"x"))
            batch = await producer.send_batch([Message("watched", b"y")] * 3)
            assert watcher.results == [result, *batch]

    asyncio.run(main())


def test_close_ends_what_is_begun(cluster):
    async def main():
        outcomes = []
        async with Producer(patient(), cluster.namesrv.address) as producer:
            for number in range(500):
                producer.send_soon(Message("drained", b"%d" % number), outcomes.append)
        assert [outcome.status for outcome in outcomes] == [SendStatus.OK] * 500
        assert len(await bodies(cluster, "drained", 500)) == 500

    asyncio.run(main())


# For code that does not await


def test_threads_send_without_awaiting(cluster):
    results, outcomes = [], []
    with blocking.Producer(patient(), cluster.namesrv.address) as producer:

        def send(thread):
            for number in range(50):
                message = Message("threads", b"%d %d" % (thread, number), sharding_key=f"{thread}")
                results.append(producer.send(message))

        threads = [threading.Thread(target=send, args=(each,)) for each in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        producer.send_oneway(Message("threads", b"100 0"))
        producer.send_soon(Message("threads", b"101 0"), outcomes.append)
        producer.flush()
        (batch,) = producer.send_batch([Message("threads", b"102 %d" % n) for n in range(3)])
        assert batch.status is outcomes[0].status is SendStatus.OK
        assert producer.view_message(results[0].offset_id).body in {b"%d 0" % n for n in range(8)}
        with pytest.raises(NoRoute):
            producer.fetch_publish_queues("not-there")
    found = asyncio.run(bodies(cluster, "threads", 405))
    by_thread = {}
    for body in found:
        thread, number = map(int, body.split())
        by_thread.setdefault(thread, []).append(number)
    assert all(by_thread[each] == list(range(50)) for each in range(8))
    assert (by_thread[100], by_thread[101], by_thread[102]) == ([0], [0], [0, 1, 2])


FORKED = """
import asyncio, os, sys
from cometmq import Message, Producer, blocking
from cometmq.errors import Closed

def in_child(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def refused(send):
    try:
        send()
    except Closed as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("sent by the parent's")

def blocking_child():
    refused(lambda: producer.send(Message("forked", b"never")))
    with blocking.Producer("senders", sys.argv[1]) as own:
        own.send(Message("forked", b"child"))

with blocking.Producer("senders", sys.argv[1]) as producer:
    producer.send(Message("forked", b"parent, before"))
    in_child(blocking_child)
    producer.send(Message("forked", b"parent, after"))

async def sent_by_own():
    async with Producer("senders", sys.argv[1]) as own:
        await own.send(Message("forked", b"awaiting child"))

async def main():
    async with Producer("senders", sys.argv[1]) as producer:
        await producer.send(Message("forked", b"awaiting parent, before"))

        def awaiting_child():
            def send():
                coroutine = producer.send(Message("forked", b"never"))
                coroutine.send(None)
            refused(send)
            asyncio._set_running_loop(None)
            asyncio.run(sent_by_own())

        in_child(awaiting_child)
        await producer.send(Message("forked", b"awaiting parent, after"))

asyncio.run(main())
"""


def test_a_forked_child_sends_with_a_producer_of_its_own(cluster):
    done = subprocess.run(
        [sys.executable, "-c", FORKED, cluster.namesrv.address],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(asyncio.run(bodies(cluster, "forked", 6))) == [
        b"awaiting child",
        b"awaiting parent, after",
        b"awaiting parent, before",
        b"child",
        b"parent, after",
        b"parent, before",
    ]
