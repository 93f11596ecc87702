"""Orderly push consumers, on our broker and on Apache's."""

import asyncio
import threading
import time
from itertools import pairwise

from clients_live.consuming import Seen, consumer_of, listening, make_topic, named, send, until
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Rollback, Suspend
from peers.raw import RawClient


def in_order(messages):
    """Offsets by queue, as they came."""
    found = {}
    for message in messages:
        found.setdefault(message.queue_id, []).append(message.queue_offset)
    return found


def test_one_call_a_queue_at_a_time_and_in_order(cluster):
    async def story():
        topic = named("Orderly")
        await make_topic(cluster, topic, 4)
        await send(cluster, topic, [f"m{number}" for number in range(80)], queues=4)
        running, lock, seen = set(), threading.Lock(), Seen()

        def handler(message):
            with lock:
                assert message.queue_id not in running
                running.add(message.queue_id)
            time.sleep(0.002)
            seen(message)
            with lock:
                running.remove(message.queue_id)

        async with listening(consumer_of(cluster, named("ordered")), topic, handler, orderly=True):
            await seen.wait_for(80)
        assert in_order(seen.messages) == {each: list(range(20)) for each in range(4)}

    asyncio.run(story())


def test_a_failure_holds_up_its_queue_and_no_other(cluster):
    async def story():
        topic = named("Orderly")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, ["bad", "x", "a", "y", "b", "z"], queues=2)
        answers = iter([Suspend(0.05), RuntimeError("again"), Ack(0), None])

        def answer(message):
            said = next(answers) if message.text() == "bad" else None
            if isinstance(said, Exception):
                raise said
            return said

        seen = Seen(answer)
        consumer = consumer_of(cluster, named("held"), suspend_current_queue_time=0.05)
        async with listening(consumer, topic, seen, orderly=True):
            await seen.wait_for(9)
        bodies = {each: [m.text() for m in seen.messages if m.queue_id == each] for each in (0, 1)}
        assert bodies == {0: ["bad", "bad", "bad", "bad", "a", "b"], 1: ["x", "y", "z"]}
        bad = next(each for each in seen.messages if each.text() == "bad")
        assert bad.reconsume_times == 3  # counted on the message itself

    asyncio.run(story())


def test_what_fails_too_often_is_a_dead_letter_and_the_queue_goes_on(cluster):
    async def story():
        topic, group = named("Orderly"), named("buried")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["a", "bad", "b"], colour="red")
        seen = Seen(lambda message: Suspend(0.01) if message.text() == "bad" else None)
        consumer = consumer_of(cluster, group, max_reconsume_times=2)
        async with (
            listening(consumer, topic, seen, orderly=True),
            RawClient(cluster.broker.address) as raw,
        ):
            await seen.wait_for(5)

            async def is_dead():
                return await raw.max_offset(f"%DLQ%{group}", 0) == 1

            await until(is_dead, "dead letter")
            (dead,) = await raw.read(f"%DLQ%{group}", 0)
        assert seen.bodies == ["a", "bad", "bad", "bad", "b"]
        assert dead.body == b"bad"
        assert dead.properties["RETRY_TOPIC"] == topic
        assert dead.properties["colour"] == "red"

    asyncio.run(story())


def test_commit_by_hand(cluster):
    async def story():
        topic, group = named("Orderly"), named("by-hand")
        await make_topic(cluster, topic)
        await send(cluster, topic, [str(number) for number in range(6)])
        said = iter([None, None, Rollback(), None, None, Commit(), None])
        seen = Seen(lambda message: next(said, None))
        consumer = consumer_of(cluster, group, suspend_current_queue_time=0.01)
        async with listening(consumer, topic, seen, orderly=True, manual_commit=True):
            await seen.wait_for(9)
        assert seen.bodies == ["0", "1", "2", "0", "1", "2", "3", "4", "5"]
        async with RawClient(cluster.broker.address) as raw:
            assert await raw.consumed(group, topic, 0) == 3
        again = Seen()
        async with listening(consumer_of(cluster, group), topic, again, orderly=True):
            await again.wait_for(3)
        assert again.bodies == ["3", "4", "5"]

    asyncio.run(story())


def test_queues_change_hands_when_nobody_uses_them(cluster):
    """A second member comes and goes; no queue is ever run by both, and none is left out."""

    async def story():
        topic, group = named("Orderly"), named("handed")
        await make_topic(cluster, topic, 4)
        calls = []  # member, queue, begun, ended

        def handler_of(member):
            async def handler(message):
                begun = time.monotonic()
                await asyncio.sleep(0.02)
                calls.append((member, message.queue_id, begun, time.monotonic(), message))

            return handler

        sent, is_enough = [], asyncio.Event()

        async def sending():
            """A little ahead of the members, for as long as it takes them to change hands."""
            while not is_enough.is_set():
                bodies = [f"{len(sent)}-{each}" for each in range(4)]
                await send(cluster, topic, bodies, queues=4)
                sent.extend(bodies)
                await until(lambda: len(sent) - len(calls) < 60, "calls for what was sent")

        one, other = consumer_of(cluster, group), consumer_of(cluster, group)
        async with listening(one, topic, handler_of(1), orderly=True):
            sender = asyncio.create_task(sending())
            await until(lambda: len(calls) > 40, "calls")
            async with listening(other, topic, handler_of(2), orderly=True):
                await until(lambda: len(other.queues) == 2 and len(one.queues) == 2, "shares")
                await until(lambda: sum(call[0] == 2 for call in calls) > 40, "calls of both")
            await until(lambda: len(one.queues) == 4, "queues that come back")
            is_enough.set()
            await sender
            await until(lambda: {call[4].text() for call in calls} == set(sent), "all")
        for queue in range(4):
            mine = sorted((call for call in calls if call[1] == queue), key=lambda call: call[2])
            assert all(a[3] <= b[2] for a, b in pairwise(mine))
            offsets = [call[4].queue_offset for call in mine]
            assert offsets == sorted(offsets), (
                "a queue that is handed over in peace repeats nothing"
            )

    asyncio.run(story())


def test_a_message_in_hand_is_done_before_its_queue_is_given_up(cluster):
    async def story():
        topic, group = named("Orderly"), named("in-hand")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["a", "b"])
        begun, released, second = asyncio.Event(), asyncio.Event(), Seen()

        async def slow(message):
            begun.set()
            await released.wait()

        one = consumer_of(cluster, group)
        one.subscribe(topic)
        one.listen(slow, orderly=True)
        await one.start()
        await begun.wait()
        async with listening(consumer_of(cluster, group), topic, second, orderly=True) as other:
            closing = asyncio.create_task(one.close())
            for _ in range(2):
                # It looks which queues are its own, asks for them, and does not get it.
                await other._member._rebalance.run([topic])
            assert second.bodies == []
            released.set()
            await closing
            await second.wait_for(1)
        assert second.bodies == ["b"]

    asyncio.run(story())
