"""Events of a rebalance: queues assigned and revoked, for push and lite pull consumers."""

import asyncio

import pytest

from client.consumer.push_broker import PushBroker, Taken, settle
from cometmq.client.consumer.lite.lite_pull import LitePullConsumer
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.errors import BadSetting

OTHER = "127.0.0.1@aaa"  # sorts before our client id, and gets the first queue


def broker_of():
    return PushBroker(**{"T": 2, "%RETRY%G": 1})


def recorded(consumer):
    """What both callbacks receive: one is a plain function, the other a coroutine function."""
    events = []

    @consumer.on_assigned
    def assigned(queues):
        events.append(("assigned", [queue.queue_id for queue in queues]))

    @consumer.on_revoked
    async def revoked(queues):
        await asyncio.sleep(0)
        events.extend(("revoked", [queue.queue_id]) for queue in queues)

    return events


def push_of(session, orderly):
    consumer = PushConsumer("G", session=session)
    consumer.on("T", orderly=orderly)(Taken())
    return consumer


def lite_of(session):
    consumer = LitePullConsumer("G", session=session)
    consumer.subscribe("T")
    return consumer


@pytest.mark.parametrize(
    "make",
    [lambda session: push_of(session, False), lambda session: push_of(session, True), lite_of],
)
def test_callbacks_learn_of_assigned_and_revoked_queues(make):
    async def story():
        broker = broker_of()
        async with broker.session() as session:
            consumer = make(session)
            events = recorded(consumer)
            async with consumer:
                await settle()
                assert events == [("assigned", [0, 1])], "without the queue of the retry topic"
                broker.others = [OTHER]
                consumer._member.rebalance_soon()
                await settle()
                assert events[1:] == [("revoked", [0])]
                broker.others = []
                consumer._member.rebalance_soon()
                await broker.clock.advance(1_000)
                await settle()
                assert events[2:] == [("assigned", [0])]
            assert sorted(events[3:]) == [("revoked", [0]), ("revoked", [1])], "when it closes"

    asyncio.run(story())


def test_a_callback_that_fails_is_logged_and_the_others_run(caplog):
    async def story():
        broker, events = broker_of(), []
        async with broker.session() as session:
            consumer = push_of(session, False)
            consumer.on_assigned(lambda queues: 1 / 0)
            consumer.on_assigned(events.extend)
            async with consumer:
                await settle()
                assert len(events) == 2
        assert "ZeroDivisionError" in caplog.text

    asyncio.run(story())


def test_queues_that_the_user_assigns_are_no_events():
    async def story():
        broker = broker_of()
        async with broker.session() as session:
            consumer = LitePullConsumer("G", session=session)
            events = recorded(consumer)
            async with consumer:
                consumer.assign([broker.queue("T", 0)])
                await settle()
                consumer.assign([broker.queue("T", 1)])
                await settle()
        assert events == []

    asyncio.run(story())


def test_a_callback_that_cannot_be_called_is_rejected():
    async def story():
        async with broker_of().session() as session:
            with pytest.raises(BadSetting):
                push_of(session, False).on_assigned(lambda: None)

    asyncio.run(story())


def test_close_drains_what_was_pulled_for_as_long_as_it_may():
    async def story():
        broker, taken = broker_of(), []
        broker.put("T", 0, *(b"%d" % each for each in range(20)))
        async with broker.session() as session:
            consumer = PushConsumer("G", session=session)

            @consumer.on("T", orderly=True)
            async def slow(message):
                taken.append(message.text())
                await asyncio.sleep(0)

            async with consumer:
                await consumer.ready()
                consumer._member.reset_offsets("T", {broker.queue("T"): 0})
                while not taken:
                    await asyncio.sleep(0)
                await consumer.close(drain=30)
        assert broker.committed["G", broker.queue("T")] == 20
        assert taken == [str(each) for each in range(20)]
        with pytest.raises(BadSetting, match="drain"):
            await consumer.close(drain=-1)

    asyncio.run(story())
