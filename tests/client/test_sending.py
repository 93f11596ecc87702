"""Failed attempts: where the next one goes, and which outcome is reported."""

import asyncio

import pytest

from client.fake_cluster import CUT, SILENT, fake_cluster, run, until
from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendStatus
from cometmq.client.send.producer import Producer
from cometmq.errors import (
    BadMessage,
    Closed,
    PartlySent,
    Refused,
    StoredState,
    TimedOut,
    TooManyRequests,
    Unreachable,
)
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.testing.clock import ManualClock

ORDER = Message("orders", b"one")


def producing(cluster, **settings):
    settings = {"retries": 2, "async_retries": 2, "retry_backoff": 0, **settings}
    return Producer(ProducerConfig(group="senders", **settings), cluster.name_servers)


# What may be stored is never told as not stored


@pytest.mark.parametrize("last", [ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR])
def test_a_refusal_does_not_hide_a_lost_answer(last):
    async def test():
        async with fake_cluster() as cluster, producing(cluster, retries=1) as producer:
            cluster["a"].answers = [CUT, last]
            with pytest.raises(Unreachable) as caught:
                await producer.send(ORDER)
            assert "tried 2 times" in caught.value.__notes__[0]
            assert "as the test says" in caught.value.__notes__[0]

    run(test)


def test_a_refusal_does_not_hide_a_lost_answer_from_a_callback():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await producer.send(ORDER)
            outcomes = []
            for answers in ([CUT, ResponseCode.SYSTEM_BUSY], [CUT, CUT, ResponseCode.SYSTEM_BUSY]):
                cluster["a"].answers = answers
                producer.send_soon(ORDER, outcomes.append)
                await producer.flush()
        assert [type(each) for each in outcomes] == [Unreachable, Unreachable]
        assert "tried 2 times" in outcomes[0].__notes__[0]
        assert "tried 3 times" in outcomes[1].__notes__[0]

    run(test)


def test_too_many_requests_do_not_hide_an_unsafe_result():
    async def test():
        async with fake_cluster("a", "b") as cluster:
            settings = {"retry_another_broker_when_not_stored": True, "send_timeout": 1}
            async with producing(cluster, **settings) as producer:
                unsafe = [ResponseCode.FLUSH_DISK_TIMEOUT] * 9
                cluster["a"].answers, cluster["b"].answers = list(unsafe), list(unsafe)
                tries = []

                def check(context):
                    tries.append(context)
                    if len(tries) == 2:
                        raise TooManyRequests("as the test says")

                producer.add_check(check)
                assert (await producer.send(ORDER)).status is SendStatus.FLUSH_DISK_TIMEOUT
                assert len(tries) == 2

    run(test)


def test_a_batch_that_a_check_stops_half_way_says_what_is_stored():
    async def test():
        async with fake_cluster() as cluster, producing(cluster, message_size_max=500) as producer:
            tries = []

            def check(context):
                tries.append(context)
                if len(tries) == 2:
                    raise ValueError("as the test says")

            producer.add_check(check)
            with pytest.raises(PartlySent) as caught:
                await producer.send_batch([Message("orders", b"x" * 300)] * 2)
            assert len(caught.value.results) == len(caught.value.unsent) == 1

    run(test)


def test_a_send_that_closing_cuts_short_may_be_stored():
    async def test():
        async with fake_cluster() as cluster:
            producer = producing(cluster, send_timeout=0.02)
            await producer.start()
            cluster["a"].answers = [SILENT]
            outcomes = []
            producer.send_soon(ORDER, outcomes.append, timeout=60)  # a task: no route yet
            await until(lambda: cluster.sends)
            await producer.close()
            (outcome,) = outcomes
            assert isinstance(outcome, Unreachable)

    run(test)


def test_a_send_that_closing_prevents_fails_as_not_stored():
    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            producer = Producer("senders", session=session)
            await producer.start()
            outcomes = []
            producer.send_soon(ORDER, outcomes.append)
            await session.background.close()  # before its first step
            await producer.flush()
            assert [type(each) for each in outcomes] == [Closed], "no broker has it"
            await producer.close()

    run(test)


# Where the next try goes


def test_a_callback_send_is_retried_on_another_broker():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            outcomes = []
            for _ in range(4):  # the first one as a task
                cluster["a"].answers = [CUT] * 3
                producer.send_soon(ORDER, outcomes.append)
                await producer.flush()
            assert [outcome.queue.broker_name for outcome in outcomes] == ["b"] * 4
            assert cluster["a"].sends

    run(test)


def test_a_callback_send_with_a_sharding_key_is_retried_at_its_queue():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            message = Message("orders", b"x", sharding_key="k")
            queue = (await producer.send(message)).queue
            cluster[queue.broker_name].answers = [CUT]
            outcomes = []
            producer.send_soon(message, outcomes.append)
            await producer.flush()
            assert outcomes[0].queue == queue

    run(test)


def test_an_empty_sharding_key_selects_no_queue():
    async def test():
        async with fake_cluster("a", "b") as cluster, producing(cluster) as producer:
            message = Message("orders", b"x", sharding_key="")
            assert len({(await producer.send(message)).queue for _ in range(4)}) == 4
            outcomes = []
            for _ in range(4):
                producer.send_soon(message, outcomes.append)
            await producer.flush()
            assert len({outcome.queue for outcome in outcomes}) == 4

    run(test)


# What fails before anything is sent


def test_send_soon_never_raises():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await producer.send(ORDER)
            outcomes = []
            told = outcomes.append
            producer.send_soon(ORDER, told, selector=lambda queues, message, key: 1 / 0)
            producer.send_soon(ORDER, told, selector=lambda queues, message, key: None)
            producer.send_soon("no message", told)
            producer.send_soon(ORDER, told, queue=MessageQueue("other", "a", 0))
            producer.send_soon(ORDER, told, timeout="soon")
            await producer.flush()
        kinds = [type(outcome).__name__ for outcome in outcomes]
        assert kinds == [
            "ZeroDivisionError", "BadMessage", "BadMessage", "BadMessage", "BadSetting"
        ]  # fmt: skip
        producer.send_soon(ORDER, told)
        await asyncio.sleep(0)
        assert isinstance(outcomes[-1], Closed)

    run(test)


@pytest.mark.parametrize(
    "given",
    [("orders",), ("orders", b"x"), (b"x",), (None,), ({"topic": "orders"},), (ORDER, b"x")],
)
def test_a_send_without_a_message_says_what_to_give(given):
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            for send in (producer.send, producer.send_oneway):
                with pytest.raises(BadMessage, match=r"one Message.*Message\('topic', b'body'\)"):
                    await send(*given)
            with pytest.raises(BadMessage, match="one Message"):
                await producer.send_batch([given[0] if given[0] is not ORDER else "x"])
        assert not cluster.sends

    run(test)


def test_system_properties_count_toward_the_size_limit():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            message = Message("orders", b"x", properties={"long": "x" * 32_000})
            await producer._send_marked(message, "A\x01b")
            with pytest.raises(BadMessage, match="properties of"):
                await producer._send_marked(message, "A\x01" + "b" * 1000)
            cluster["a"].answers = [ResponseCode.SYSTEM_BUSY]
            with pytest.raises(Refused):
                await producer._send_marked(message, "A\x01b")

    run(test)


# What a first try came to is told, whatever becomes of the topic meanwhile


@pytest.mark.parametrize("way", ["send", "send_soon"])
def test_a_lost_answer_is_reported_when_its_topic_is_forgotten(way, monkeypatch):
    """Guessed queues, of a topic that is not there, are forgotten while the answer is awaited."""
    monkeypatch.setattr("cometmq.client.send.destinations._GUESS_MS", 50)

    async def test():
        async with fake_cluster() as cluster:
            cluster.queues = {"TBW102": 2}
            async with producing(cluster) as producer:
                broker = cluster["a"]
                guessed = Message("fresh", b"x")
                await producer.send(guessed)
                before = len(broker.sends)
                broker.held = asyncio.Event()
                broker.answers = [CUT] * 3
                sent = asyncio.ensure_future(sent_by(producer, way, guessed))
                await until(lambda: len(broker.sends) > before)
                await until(lambda: producer._sender.destinations.get("fresh") is None)
                cluster.queues = {}
                broker.held.set()
                assert isinstance(await sent, Unreachable)
                assert len(broker.sends) == before + 3, "and it is tried again"

    run(test)


@pytest.mark.parametrize("way", ["send", "send_soon"])
def test_a_late_answer_is_not_reported_as_a_late_route(way, monkeypatch):
    monkeypatch.setattr("cometmq.client.send.destinations._GUESS_MS", 50)

    async def test():
        async with fake_cluster() as cluster:
            cluster.queues = {"TBW102": 2}
            clock = ManualClock()
            async with (
                cluster.session(clock) as session,
                Producer("senders", session=session) as producer,
            ):
                guessed = Message("fresh", b"x")
                await producer.send(guessed)
                cluster["a"].held = asyncio.Event()
                sent = asyncio.ensure_future(sent_by(producer, way, guessed, timeout=1.5))
                await until(lambda: len(cluster.sends) == 2)
                await clock.advance(3_000)  # deadlines are looked at in groups
                outcome = await sent
                assert producer._sender.destinations.get("fresh") is None
                assert isinstance(outcome, TimedOut)
                assert "may have stored" in str(outcome)

    run(test)


async def sent_by(producer, way, message, **how):
    """The outcome, also if that is an error."""
    if way == "send":
        return (await asyncio.gather(producer.send(message, **how), return_exceptions=True))[0]
    told = asyncio.get_running_loop().create_future()
    producer.send_soon(message, told.set_result, **how)
    return await told


# Batches that nobody awaits


def test_a_batch_whose_iterator_fails_is_reported():
    def messages():
        yield ORDER
        raise ValueError("as the test says")

    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            outcomes = []
            producer.send_batch_soon(messages(), outcomes.append)
            await producer.flush()
            assert [type(each) for each in outcomes] == [ValueError]

    run(test)


def test_a_batch_counts_once():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            cluster["a"].held = asyncio.Event()
            outcomes = []
            producer.send_batch_soon([ORDER, ORDER], outcomes.append)
            task = asyncio.create_task(producer.send_batch([ORDER, ORDER]))
            await until(lambda: len(cluster.sends) == 2)
            assert producer._sender.in_flight == 2
            cluster["a"].held.set()
            assert len(await task) == 1
            await producer.flush()
            assert len(outcomes[0]) == 1
            assert not producer._sender.in_flight

    run(test)


def test_no_batch_begins_after_close():
    async def test():
        async with fake_cluster() as cluster:
            producer = producing(cluster)
            await producer.start()
            await producer.close()
            outcomes = []
            producer.send_batch_soon([ORDER], outcomes.append)
            await producer.flush()
            assert [type(each) for each in outcomes] == [Closed]

    run(test)


# Back-off


@pytest.mark.parametrize("way", ["send", "send_soon"])
def test_a_send_outlasts_the_restart_of_its_broker(way):
    async def test():
        async with fake_cluster() as cluster, Producer("g", cluster.name_servers) as producer:
            await producer.send(ORDER)
            await cluster["a"].stop()
            sent = asyncio.ensure_future(sent_by(producer, way, ORDER, timeout=30))
            await until(lambda: producer._sender._backing_off)
            await cluster["a"].start(cluster.route_of)
            assert (await sent).status is SendStatus.OK

    run(test)


@pytest.mark.parametrize("way", ["send", "send_soon"])
def test_the_timeout_covers_attempts_and_delays(way):
    async def test():
        clock = ManualClock()
        async with (
            fake_cluster() as cluster,
            cluster.session(clock) as session,
            Producer("senders", session=session) as producer,
        ):
            await producer.send(ORDER)
            before = len(cluster.sends)
            cluster["a"].answers = [CUT] * 99
            sent = asyncio.ensure_future(sent_by(producer, way, ORDER, timeout=1))
            while not sent.done():
                await clock.advance(10)
            assert isinstance(await sent, Unreachable)
            assert 3 <= len(cluster.sends) - before <= 6, "0, 0.1, 0.3, 0.7 s, or half of it"
            assert "tried" in (await sent).__notes__[0]

    run(test)


def test_closing_ends_a_send_that_backs_off():
    async def test():
        async with fake_cluster() as cluster, cluster.session(ManualClock()) as session:
            producer = Producer(ProducerConfig(group="senders", send_timeout=0.02), session=session)
            await producer.start()
            await producer.send(ORDER, timeout=60)
            cluster["a"].answers = [CUT]
            sent = asyncio.ensure_future(sent_by(producer, "send_soon", ORDER, timeout=60))
            await until(lambda: producer._sender._backing_off)
            await producer.close()
            assert isinstance(await sent, Unreachable), "its first answer was lost"

    run(test)


@pytest.mark.parametrize("way", ["send", "send_soon"])
def test_errors_say_whether_the_message_is_stored(way):
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            await producer.send(ORDER)
            cluster["a"].answers = [CUT] * 3
            assert (await sent_by(producer, way, ORDER)).stored is StoredState.UNKNOWN
            cluster["a"].answers = [ResponseCode.SYSTEM_BUSY]
            assert (await sent_by(producer, way, ORDER)).stored is StoredState.NO
            cluster["a"].answers = [SILENT]
            late = await sent_by(producer, way, ORDER, timeout=0.05)
            assert late.stored is StoredState.UNKNOWN
            await cluster["a"].stop()
            await until(lambda: not producer._session.pool._alive)
            unreachable = await sent_by(producer, way, ORDER)
            assert isinstance(unreachable, Unreachable)
            assert unreachable.stored is StoredState.NO

    run(test)
