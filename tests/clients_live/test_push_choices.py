"""Where a consumer begins, which queues it has, and what it runs once: on ours and on Apache's."""

import asyncio
from contextlib import closing
from datetime import UTC, datetime

import pytest

from clients_live.consuming import (
    Seen,
    client_of,
    consumer_of,
    listening,
    make_topic,
    named,
    send,
    until,
)
from clients_live.polling import lite, numbered
from clients_live.reading import read_all
from cometmq.client.consumer.shared.allocate import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoomNearby,
    clients_in_order,
    queues_in_order,
)
from cometmq.client.consumer.shared.outcomes import Ack, Retry
from cometmq.client.dedup.dedup import Dedup
from cometmq.client.dedup.stores import MemoryStore, SqliteStore
from cometmq.protocol.bodies.heartbeat import ConsumeFrom, MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from peers.raw import RawClient

NEARBY = MachineRoomNearby(
    Averagely(),
    room_of_queue=lambda queue: "one" if queue.queue_id < 6 else "two",
    room_of_client=lambda client_id: "one" if "@near-1" in client_id else "two",
)


async def old_and_new(cluster, topic):
    """Two messages with half a second between; when the second was stored."""
    await make_topic(cluster, topic)
    await send(cluster, topic, ["old"])
    await asyncio.sleep(0.5)  # brokers go by the nearest: it must not be the old one
    await send(cluster, topic, ["new"])
    return (await read_all(cluster.namesrv.address, topic, 2))[1].stored_ms


@pytest.mark.parametrize(
    ("consume_from", "expected"),
    [
        (ConsumeFrom.FIRST_OFFSET, ["old", "new", "now"]),
        (ConsumeFrom.TIMESTAMP, ["new", "now"]),
        (ConsumeFrom.LAST_OFFSET, ["now"]),
    ],
)
def test_a_new_reader_begins_where_it_is_told(cluster, tmp_path, consume_from, expected):
    """A broadcasting one: of a young topic, brokers have groups begin with the first message."""

    async def story():
        topic, seen = named("Begun"), Seen()
        stored_ms = await old_and_new(cluster, topic)
        consumer = consumer_of(
            cluster,
            named("readers"),
            message_model=MessageModel.BROADCASTING,
            offset_folder=tmp_path,
            consume_from=consume_from,
            consume_timestamp=datetime.fromtimestamp((stored_ms - 50) / 1000, UTC),
        )
        async with listening(consumer, topic, seen):
            await until(lambda: consumer.queues, "a queue whose begin is found")
            await send(cluster, topic, ["now"])
            await until(lambda: "now" in seen.bodies, "the message of now")
        assert seen.bodies == expected

    asyncio.run(story())


@pytest.mark.parametrize("consume_from", [ConsumeFrom.TIMESTAMP, ConsumeFrom.LAST_OFFSET])
def test_a_new_group_has_all_of_a_young_topic(cluster, consume_from):
    async def story():
        topic, seen = named("Young"), Seen()
        await make_topic(cluster, topic)
        await send(cluster, topic, numbered(0, 5))
        consumer = consumer_of(cluster, named("takers"), consume_from=consume_from)
        async with (
            listening(consumer, topic, seen),
            lite(cluster, named("pollers"), consume_from=consume_from) as poller,
        ):
            poller.subscribe(topic)
            found = []
            while len(found) < 5:
                found += [message.text() for message in await poller.poll(0.5)]
            await seen.wait_for(5)
        assert sorted(seen.bodies) == found == numbered(0, 5)

    asyncio.run(story())


@pytest.mark.parametrize(
    "allocation",
    [Averagely(), AveragelyByCircle(), ConsistentHash(), NEARBY],
    ids=lambda it: it.name,
)
def test_two_members_have_the_shares_that_the_strategy_says(cluster, allocation):
    async def story():
        topic, group = named("Shared"), named("sharers")
        await make_topic(cluster, topic, 8)
        seen = Seen()
        one, other = (
            consumer_of(
                cluster,
                group,
                client_of(cluster, instance_name=f"{name}-{topic}"),
                allocation=allocation,
            )
            for name in ("near-1", "near-2")
        )
        async with listening(one, topic, seen), listening(other, topic, seen):
            queues = queues_in_order(
                MessageQueue(topic, cluster.broker.name, number) for number in range(8)
            )
            ids = clients_in_order(each.client_id for each in (one, other))
            for each in (one, other):
                share = sorted(allocation.allocate(each.client_id, queues, ids))
                await until(lambda each=each, share=share: each.queues == share, f"{share}")
            await send(cluster, topic, numbered(0, 16), queues=8)
            await seen.wait_for(16)
        assert sorted(seen.bodies) == sorted(numbered(0, 16))

    asyncio.run(story())


def test_queues_chosen_by_hand_in_a_namespace_and_their_retries(cluster):
    async def story():
        topic, group = named("Chosen"), named("choosers")
        await make_topic(cluster, f"shop%{topic}", 4)
        await send(cluster, f"shop%{topic}", numbered(0, 8), queues=4)
        seen = Seen(lambda message: None if message.reconsume_times else Retry(1))
        name = cluster.broker.name
        chosen = [MessageQueue(topic, name, 1), MessageQueue(f"%RETRY%{group}", name, 0)]
        consumer = consumer_of(
            cluster,
            group,
            # The topic of retries is made with the first of them, and found by a new route.
            client_of(cluster, namespace="shop", poll_name_server_interval=0.5),
            allocation=ByConfig(tuple(chosen)),
        )
        async with listening(consumer, topic, seen):
            await seen.wait_for(4)
        assert sorted(seen.bodies) == ["m1", "m1", "m5", "m5"]
        assert {message.queue.topic for message in seen.messages[2:]} == {f"%RETRY%shop%{group}"}

    asyncio.run(story())


@pytest.mark.parametrize("batch", [1, 16])
def test_a_business_key_runs_once(cluster, tmp_path, batch):
    """A copy, a message that failed, and one that another member works on."""

    async def story():
        topic, ran, failed = named("Once"), [], []
        await make_topic(cluster, topic)
        for key in ("a", "b", "a", "theirs", "c", "b"):
            await send(cluster, topic, [key], KEYS=key)

        def run(message):
            if message.text() == "b" and not failed:
                failed.append(message)
                return Retry(1)
            ran.append(message.text())
            return None

        def run_all(messages):
            for rank, message in enumerate(messages):
                if run(message) is not None:
                    return Ack(rank)
            return None

        with closing(SqliteStore(tmp_path / "seen.db")) as store:
            dedup = Dedup(store)
            other = dedup.begin(await first_of(topic, "theirs"))
            consumer = consumer_of(
                cluster, named("once"), consume_message_batch_max_size=batch, consume_threads=1
            )
            async with listening(consumer, topic, dedup.guard(run if batch == 1 else run_all)):
                await until(lambda: {"a", "b", "c"} <= set(ran), "those that are ours")
                other.done()
                await until(lambda: consumed_all(topic, consumer), "offsets that are kept")
        assert sorted(ran) == ["a", "b", "c"]

    async def first_of(topic, text):
        found = await read_all(cluster.namesrv.address, topic, 6)
        return next(message for message in found if message.text() == text)

    async def consumed_all(topic, consumer):
        async with RawClient(cluster.broker.address) as raw:
            return await raw.consumed(consumer.config.group, topic, 0) == 6

    asyncio.run(story())


def test_keys_in_memory_are_of_one_process(cluster):
    async def story():
        topic, ran = named("Once"), []
        await make_topic(cluster, topic)
        await send(cluster, topic, ["first", "copy", "copy"], KEYS="same")

        async def run(message):
            ran.append(message.text())

        for expected in (["first"], ["first", "first"]):
            guarded = Dedup(MemoryStore()).guard_async(run)
            passed = Seen()

            async def counted(message, guarded=guarded, passed=passed):
                await guarded(message)
                passed(message)

            async with listening(
                consumer_of(cluster, named("once"), consume_threads=1), topic, counted
            ):
                await passed.wait_for(3)
            assert ran == expected

    asyncio.run(story())
