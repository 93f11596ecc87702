"""Push consumers side by side, on our broker and on Apache's."""

import asyncio

import pytest

from clients_live.consuming import (
    Seen,
    client_of,
    config_of,
    consumer_of,
    listening,
    make_topic,
    named,
    send,
    until,
)
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.consumer.shared.outcomes import Ack, Retry
from cometmq.client.session.session import Session
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.heartbeat import MessageModel
from peers.raw import RawClient


def test_messages_reach_a_function_and_a_coroutine(cluster):
    async def story():
        topic = named("Push")
        await make_topic(cluster, topic, 4)
        bodies = [f"m{number}" for number in range(40)]
        await send(cluster, topic, bodies, queues=4, TAGS="a", KEYS="k1 k2", colour="red")
        seen, awaited = Seen(), Seen()

        async def handler(message):
            await asyncio.sleep(0)
            awaited(message)

        one = consumer_of(cluster, named("functions"))
        other = consumer_of(cluster, named("coroutines"))
        async with listening(one, topic, seen), listening(other, topic, handler):
            assert len(one.queues) == 4
            await seen.wait_for(40)
            await awaited.wait_for(40)
        assert sorted(seen.bodies) == sorted(awaited.bodies) == sorted(bodies)
        message = seen.messages[0]
        assert (message.topic, message.tags, message.keys) == (topic, "a", ("k1", "k2"))
        assert message.user_properties == {"colour": "red"}
        assert message.reconsume_times == 0

    asyncio.run(story())


def test_a_new_consumer_goes_on_where_the_last_one_ended(cluster):
    async def story():
        topic, group = named("Push"), named("followers")
        await make_topic(cluster, topic, 2)
        await send(cluster, topic, ["a", "b", "c", "d"], queues=2)
        first, second = Seen(), Seen()
        async with listening(consumer_of(cluster, group), topic, first):
            await first.wait_for(4)
        async with RawClient(cluster.broker.address) as raw:
            assert [await raw.consumed(group, topic, each) for each in (0, 1)] == [2, 2]
        await send(cluster, topic, ["e", "f"], queues=2)
        async with listening(consumer_of(cluster, group), topic, second):
            await second.wait_for(2)
        assert sorted(second.bodies) == ["e", "f"]

    asyncio.run(story())


def test_offsets_are_kept_while_it_runs(cluster):
    async def story():
        topic, group = named("Push"), named("keepers")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["a", "b", "c"])
        seen = Seen()
        async with (
            RawClient(cluster.broker.address) as raw,
            listening(consumer_of(cluster, group), topic, seen),
        ):
            await seen.wait_for(3)

            async def is_kept():
                return await raw.consumed(group, topic, 0) == 3

            await until(is_kept, "offset that is kept")

    asyncio.run(story())


def test_batches_and_what_a_part_of_one_comes_to(cluster):
    async def story():
        topic, group = named("Push"), named("batches")
        await make_topic(cluster, topic)
        await send(cluster, topic, [f"m{number}" for number in range(10)])
        calls = []

        def handler(messages):
            calls.append([message.text() for message in messages])
            return Ack(7) if len(messages) == 10 else None

        consumer = consumer_of(cluster, group, consume_message_batch_max_size=16)
        async with listening(consumer, topic, handler):
            await until(lambda: sum(map(len, calls)) == 13, "retries")
        assert calls[0] == [f"m{number}" for number in range(10)]
        assert sorted(body for call in calls[1:] for body in call) == ["m7", "m8", "m9"]

    asyncio.run(story())


def test_what_fails_comes_again_and_then_is_a_dead_letter(cluster):
    """By an exception, by Retry, by a result that is none."""

    async def story():
        topic, group = named("Push"), named("failers")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["raise", "retry", "mistake", "dead", "fine"])
        answers = {
            "raise": lambda: 1 / 0,
            "retry": lambda: Retry(delay_level=1),
            "mistake": lambda: False,
            "dead": lambda: Retry(-1),
            "fine": lambda: None,
        }
        seen = Seen(lambda message: None if message.reconsume_times else answers[message.text()]())
        consumer = consumer_of(cluster, group)
        async with listening(consumer, topic, seen), RawClient(cluster.broker.address) as raw:
            await seen.wait_for(8)

            async def is_dead():
                return await raw.max_offset(f"%DLQ%{group}", 0) == 1

            await until(is_dead, "dead letter")
            (dead,) = await raw.read(f"%DLQ%{group}", 0)
        again = [message for message in seen.messages if message.reconsume_times]
        assert sorted(message.text() for message in again) == ["mistake", "raise", "retry"]
        first = {each.text(): each for each in seen.messages if not each.reconsume_times}
        for message in again:
            assert message.topic == topic
            assert message.reconsume_times == 1
            assert message.queue.topic == f"%RETRY%{group}"
            assert message.origin_id == first[message.text()].message_id
        assert dead.body == b"dead"

    asyncio.run(story())


def test_retries_end_with_a_dead_letter(cluster):
    async def story():
        topic, group = named("Push"), named("hopeless")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["x"])
        seen = Seen(lambda message: Retry(delay_level=1))
        consumer = consumer_of(cluster, group, max_reconsume_times=2)
        async with listening(consumer, topic, seen), RawClient(cluster.broker.address) as raw:
            await seen.wait_for(3)

            async def is_dead():
                return await raw.max_offset(f"%DLQ%{group}", 0) == 1

            await until(is_dead, "dead letter")
        assert [message.reconsume_times for message in seen.messages] == [0, 1, 2]

    asyncio.run(story())


def test_a_message_whose_listener_does_not_return_is_sent_back(cluster):
    async def story():
        topic, group = named("Push"), named("sleepers")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["slow", "quick"])
        released = asyncio.Event()
        seen = []

        async def handler(message):
            seen.append((message.text(), message.reconsume_times))
            if seen[-1] == ("slow", 0):
                await released.wait()

        consumer = consumer_of(cluster, group, consume_timeout=0.3)
        async with RawClient(cluster.broker.address) as raw, listening(consumer, topic, handler):
            await until(lambda: ("slow", 1) in seen, "second try")

            async def is_kept():
                return await raw.consumed(group, topic, 0) == 2

            await until(is_kept, "offset past the slow one")
            released.set()
        assert sorted(seen) == [("quick", 0), ("slow", 0), ("slow", 1)]

    asyncio.run(story())


def test_only_what_is_subscribed_to_comes(cluster):
    async def story():
        topic = named("Push")
        await make_topic(cluster, topic)
        # The hashes of these tags are equal: a broker cannot tell them apart.
        for tag in ("Aa", "BB", "c"):
            await send(cluster, topic, [tag], TAGS=tag, size=str(len(tag)))
        tagged, by_sql = Seen(), Seen()
        one, other = consumer_of(cluster, named("tags")), consumer_of(cluster, named("sql"))
        async with (
            listening(one, topic, tagged, tags="Aa || c"),
            listening(other, topic, by_sql, sql="size > 1 AND TAGS <> 'BB'"),
        ):
            await send(cluster, topic, ["last"], TAGS="Aa", size="4")
            await tagged.wait_for(3)
            await by_sql.wait_for(2)
        assert sorted(tagged.bodies) == ["Aa", "c", "last"]
        assert sorted(by_sql.bodies) == ["Aa", "last"]

    asyncio.run(story())


def test_subscriptions_change_while_it_runs(cluster):
    async def story():
        one, other = named("Push"), named("Push")
        for topic in (one, other):
            await make_topic(cluster, topic)
        seen = Seen()
        consumer = consumer_of(cluster, named("changers"))
        async with listening(consumer, one, seen, tags="a"):
            await send(cluster, one, ["first"], TAGS="a")
            await seen.wait_for(1)
            consumer.subscribe(other)
            await until(lambda: len(consumer.queues) == 2, "a queue of each")
            await send(cluster, other, ["second"])
            await seen.wait_for(2)
            consumer.subscribe(one, "b")
            await send(cluster, one, ["unwanted"], TAGS="a")
            await send(cluster, one, ["third"], TAGS="b")
            await seen.wait_for(3)
            consumer.unsubscribe(other)
            await until(lambda: other not in {each.topic for each in consumer.queues}, "end")
            await send(cluster, other, ["for nobody"])
            await send(cluster, one, ["fourth"], TAGS="b")
            await seen.wait_for(4)
        assert seen.bodies == ["first", "second", "third", "fourth"]

    asyncio.run(story())


def test_suspend_and_resume(cluster):
    async def story():
        topic = named("Push")
        await make_topic(cluster, topic)
        seen, witness = Seen(), Seen()
        consumer = consumer_of(cluster, named("pausers"))
        consumer.suspend()
        async with (
            listening(consumer, topic, seen),
            listening(consumer_of(cluster, named("witnesses")), topic, witness),
        ):
            await send(cluster, topic, ["a"])
            await witness.wait_for(1)
            assert seen.bodies == []
            consumer.resume()
            await seen.wait_for(1)

    asyncio.run(story())


def test_the_decorator_and_a_session_that_is_shared(cluster):
    async def story():
        topics = [named("Push"), named("Push")]
        for topic in topics:
            await make_topic(cluster, topic)
        seen = []
        async with Session.own(client_of(cluster)) as session:
            async with PushConsumer(config_of(named("decorated")), session=session) as consumer:

                @consumer.on(topics[0])
                @consumer.on(topics[1])
                async def handler(message):
                    seen.append(message.topic)

                with pytest.raises(BadSetting, match="already receives"):
                    consumer.on(topics[0])(print)
                await consumer.ready()
                for topic in topics:
                    await send(cluster, topic, ["x"])
                await until(lambda: len(seen) == 2, "both messages")
            session.check_open()
        assert sorted(seen) == sorted(topics)

    asyncio.run(story())


def test_every_member_of_a_broadcasting_group_gets_all(cluster, tmp_path):
    async def story():
        topic, group = named("Push"), named("broadcast")
        await make_topic(cluster, topic, 2)
        settings = {"message_model": MessageModel.BROADCASTING, "offset_folder": tmp_path}
        seen = [Seen(lambda message: 1 / 0), Seen()]
        consumers = [
            consumer_of(cluster, group, client_of(cluster, instance_name=name), **settings)
            for name in ("one", "two")
        ]
        bodies = [f"m{number}" for number in range(6)]
        async with listening(consumers[0], topic, seen[0]), listening(consumers[1], topic, seen[1]):
            await send(cluster, topic, bodies, queues=2)
            for each in seen:
                await each.wait_for(6)
        assert [sorted(each.bodies) for each in seen] == [bodies, bodies]
        await send(cluster, topic, ["later"])
        again = Seen()
        last = consumer_of(cluster, group, client_of(cluster, instance_name="one"), **settings)
        async with listening(last, topic, again):
            await again.wait_for(1)
        assert again.bodies == ["later"]

    asyncio.run(story())


def test_a_namespace_is_on_the_wire_and_nowhere_else(cluster):
    async def story():
        topic, group = named("Push"), named("spaced")
        await make_topic(cluster, f"space%{topic}")
        await send(cluster, f"space%{topic}", ["x"])
        seen = Seen(lambda message: None if message.reconsume_times else Retry(1))
        consumer = consumer_of(cluster, group, client_of(cluster, namespace="space"))
        async with listening(consumer, topic, seen):
            await seen.wait_for(2)
            assert topic in {queue.topic for queue in consumer.queues}
        assert {message.topic for message in seen.messages} == {topic}
        async with RawClient(cluster.broker.address) as raw:
            assert await raw.consumed(f"space%{group}", f"space%{topic}", 0) == 1

    asyncio.run(story())


def test_a_listener_that_is_slow_holds_up_pulls(cluster):
    async def story():
        topic = named("Push")
        await make_topic(cluster, topic)
        await send(cluster, topic, [f"m{number}" for number in range(100)])
        released = asyncio.Event()
        seen = []

        async def handler(message):
            seen.append(message.text())
            await released.wait()

        consumer = consumer_of(
            cluster, named("slow"), pull_threshold_for_queue=10, pull_batch_size=8,
            consume_threads=2,
        )  # fmt: skip
        witness = Seen()
        async with listening(consumer, topic, handler):
            await until(lambda: len(seen) == 2, "two calls")
            (held,) = consumer._member._owned.of(topic)
            await until(lambda: len(held.process) >= 16, "two pulls")
            async with listening(consumer_of(cluster, named("witnesses")), topic, witness):
                await witness.wait_for(100)
            assert len(held.process) == 16, "and no third"
            released.set()
            await until(lambda: len(seen) == 100, "all")

    asyncio.run(story())


def test_an_offset_out_of_range_is_mended(cluster):
    async def story():
        topic, group = named("Push"), named("lost")
        await make_topic(cluster, topic)
        await send(cluster, topic, ["a"])
        async with RawClient(cluster.broker.address) as raw:
            await raw.commit_offset(group, topic, 0, 1000)
            seen = Seen()
            async with listening(consumer_of(cluster, group), topic, seen):

                async def is_mended():
                    return await raw.consumed(group, topic, 0) == 1

                await until(is_mended, "offset that is right")
                await send(cluster, topic, ["b"])
                await seen.wait_for(1)
            assert seen.bodies == ["b"]

    asyncio.run(story())


def test_what_cannot_be_is_told_at_once(cluster):
    async def story():
        topic = named("Push")
        await make_topic(cluster, topic)
        consumer = consumer_of(cluster, named("wrong"))
        with pytest.raises(BadSetting, match="not by both"):
            consumer.subscribe(topic, "a", sql="b > 1")
        with pytest.raises(BadSetting):
            consumer.subscribe(topic, sql="this is no sql")
        with pytest.raises(BadSetting, match="orderly=True"):
            consumer.listen(print, manual_commit=True)
        with pytest.raises(BadSetting, match="not a function"):
            consumer.listen("handler")
        with pytest.raises(BadSetting, match=r"after start\(\) and listen\(\)"):
            await consumer.ready()
        await consumer.close()
        await consumer.close()

    asyncio.run(story())


def test_hooks_see_every_call(cluster):
    async def story():
        topic = named("Push")
        await make_topic(cluster, topic)
        told = []

        class Hook:
            def before(self, call):
                told.append(("before", call.messages[0].text()))

            def after(self, call, outcome):
                told.append(("after", call.messages[0].text(), type(outcome).__name__))
                raise ValueError("which is logged")

        consumer = consumer_of(cluster, named("hooked"))
        consumer.add_hook(Hook())
        async with listening(consumer, topic, Seen(lambda message: 1 / 0)):
            await send(cluster, topic, ["x"])
            await until(lambda: len(told) >= 2, "both")
        assert told[:2] == [("before", "x"), ("after", "x", "Retry")]

    asyncio.run(story())
