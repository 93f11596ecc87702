"""Several functions of one push consumer: routing by topic and tags, union of subscriptions."""

import asyncio

import pytest

from client.consumer.push_broker import PushBroker, Taken, settle
from client.received import received
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.handlers import Handlers, MessageHandler
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.consumer.shared.outcomes import Retry
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.records.properties import TAGS


def first(message): ...


def second(message): ...


def third(message): ...


def handlers_of(*registered):
    handlers = Handlers()
    for topic, tags, function in registered:
        handlers.add(topic, tags, None, MessageHandler(function))
    return handlers


def names_for(handlers, *pairs):
    messages = [
        received(topic=topic, properties={} if tag is None else {TAGS: tag}) for topic, tag in pairs
    ]
    found = [handlers.of(message) for message in messages]
    return [None if each is None else each.name for each in found]


def test_messages_go_to_the_function_of_their_topic_and_tag():
    handlers = handlers_of(("T", "a", first), ("T", "b || c", second), ("U", "*", third))
    found = names_for(handlers, ("T", "a"), ("T", "b"), ("T", "c"), ("U", "a"), ("U", None))
    assert found == ["first", "second", "second", "third", "third"]


def test_a_function_without_tags_receives_the_rest_of_its_topic():
    handlers = handlers_of(("T", "a", first), ("T", "*", second))
    assert names_for(handlers, ("T", "a"), ("T", "z"), ("T", None)) == ["first", "second", "second"]


def test_a_message_that_no_function_wants_has_none_and_is_logged_once(caplog):
    handlers = handlers_of(("T", "a", first), ("T", "b", second))
    assert names_for(handlers, ("T", "z"), ("T", "z"), ("U", "a")) == [None, None, None]
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == 2, "once for each topic"


def test_listen_receives_what_has_no_function_of_its_own():
    handlers = handlers_of(("T", "a", first))
    handlers.set_default(MessageHandler(second))
    assert names_for(handlers, ("T", "a"), ("T", "b"), ("U", None)) == ["first", "second", "second"]


def test_a_single_function_receives_everything():
    handlers = handlers_of(("T", "a", first), ("U", "b", first))
    assert names_for(handlers, ("T", "a"), ("T", "z"), ("V", None)) == ["first"] * 3


@pytest.mark.parametrize(
    ("expressions", "union"),
    [
        (["a||b"], "a||b"),
        (["a", "b"], "a || b"),
        (["a || b", "c"], "a || b || c"),
        (["a", "*"], "*"),
        (["a", ""], "*"),
    ],
)
def test_the_subscription_is_the_union_of_all_tags(expressions, union):
    handlers = Handlers()
    functions = [first, second, third]
    for expression, function in zip(expressions, functions, strict=False):
        found = handlers.add("T", expression, None, MessageHandler(function))
    assert found == (union, None)


def test_subscribe_adds_its_tags_to_the_union_and_replaces_its_own():
    handlers = handlers_of(("T", "a", first))
    assert handlers.subscribe("T", "b", None) == ("a || b", None)
    assert handlers.subscribe("T", "c", None) == ("a || c", None)
    handlers.remove("T")
    assert handlers.subscribe("T", "c", None) == ("c", None)


@pytest.mark.parametrize(
    ("tags", "sql", "text"),
    [
        ("a", None, "first already receives a"),
        ("z || a", None, "first already receives"),
        ("*", "x > 1", "one function only"),
    ],
)
def test_two_functions_for_the_same_messages_are_rejected(tags, sql, text):
    handlers = handlers_of(("T", "a", first))
    with pytest.raises(BadSetting, match=text):
        handlers.add("T", tags, sql, MessageHandler(second))
    assert names_for(handlers, ("T", "a"), ("T", "z")) == ["first", "first"]


def test_a_topic_with_sql_has_one_function():
    handlers = Handlers()
    assert handlers.add("T", "*", "x > 1", MessageHandler(first)) == ("*", "x > 1")
    with pytest.raises(BadSetting, match="one function only"):
        handlers.add("T", "a", None, MessageHandler(second))
    with pytest.raises(BadSetting, match="do not add sql"):
        handlers.subscribe("T", "*", "x > 2")


# The whole consumer


def consumer_of(session, **config):
    settings = {"group": "G", "consume_from": ConsumeFrom.FIRST_OFFSET, **config}
    return PushConsumer(PushConsumerConfig(**settings), session=session)


def flat(batches):
    return [body for batch in batches for body in batch]


def put(broker, topic, *tagged):
    for tag, body in tagged:
        broker.put(topic, 0, body, tags=tag)


def broker_of():
    return PushBroker(**{"T": 1, "U": 1, "%RETRY%G": 1})


def committed(broker, topic):
    return broker.committed.get(("G", broker.queue(topic)))


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("batch", [1, 4])
def test_messages_are_routed_and_all_offsets_advance(orderly, batch):
    async def story():
        broker = broker_of()
        paid, sent, other = [], [], []
        put(broker, "T", ("paid", b"1"), ("paid", b"2"), ("sent", b"3"), ("paid", b"4"))
        put(broker, "U", (None, b"5"), ("paid", b"6"))
        async with broker.session() as session:
            consumer = consumer_of(session, consume_message_batch_max_size=batch)

            def bodies(given):
                return [each.text() for each in (given if batch > 1 else [given])]

            @consumer.on("T", tags="paid", orderly=orderly)
            async def on_paid(given):
                paid.append(bodies(given))

            @consumer.on("T", tags="sent", orderly=orderly)
            def on_sent(given):
                sent.append(bodies(given))

            @consumer.on("U", orderly=orderly)
            async def on_other(given):
                other.append(bodies(given))

            async with consumer:
                await consumer.ready()
                async with asyncio.timeout(10):
                    while sum(map(len, [*paid, *sent, *other])) < 6:
                        await settle()
                (data,) = broker.heard["G"].values()
                wanted = {each.topic: each.sub_string for each in data.subscription_data_set}
                await consumer.close()
        assert flat(paid) == ["1", "2", "4"]
        assert (flat(sent), sorted(flat(other))) == (["3"], ["5", "6"])
        if batch > 1:
            assert ["1", "2"] in paid, "neighbors for one function are one batch"
        assert (committed(broker, "T"), committed(broker, "U")) == (4, 2)
        assert wanted == {"T": "paid || sent", "U": "*", "%RETRY%G": "*"}

    asyncio.run(story())


def test_a_retried_message_that_no_function_wants_is_acknowledged_and_skipped():
    async def story():
        broker, paid, sent = broker_of(), Taken(), Taken()
        put(broker, "%RETRY%G", ("gone", b"1"), ("gone", b"2"))
        async with broker.session() as session:
            consumer = consumer_of(session)
            consumer.on("T", tags="paid")(paid)
            consumer.on("T", tags="sent")(sent)
            async with consumer:
                await consumer.ready()
                await settle()
                await settle()
                await consumer.close()
        assert (paid.bodies, sent.bodies) == ([], [])
        assert committed(broker, "%RETRY%G") == 2

    asyncio.run(story())


def test_the_log_of_a_failure_names_function_group_attempt_and_redelivery(caplog):
    async def story():
        broker = broker_of()
        put(broker, "T", ("paid", b"1"))
        async with broker.session() as session:
            consumer = consumer_of(session)

            @consumer.on("T")
            async def charge(message):
                raise RuntimeError("no money")

            async with consumer:
                await consumer.ready()
                await settle()

    asyncio.run(story())
    (line,) = [each.getMessage() for each in caplog.records if "charge" in each.getMessage()]
    assert "charge of group G failed for" in line
    assert "attempt 1: redelivered after delay level 3 of the broker, usually 10s" in line


def test_functions_of_one_consumer_are_all_orderly_or_none():
    async def story():
        async with broker_of().session() as session:
            consumer = consumer_of(session)
            consumer.on("T", tags="a", orderly=True)(first)
            with pytest.raises(BadSetting, match="same orderly"):
                consumer.on("T", tags="b")(second)
            with pytest.raises(BadSetting, match="same orderly"):
                consumer.listen(third)
            with pytest.raises(BadSetting):
                consumer.on("T", tags="b", sql="x > 1", orderly=True)(second)
            with pytest.raises(BadSetting):
                consumer.on("T", tags="||", orderly=True)(second)
            assert names_for(consumer._handlers, ("T", "b")) == ["first"], "nothing was registered"

    asyncio.run(story())


def test_a_function_may_be_registered_while_the_consumer_runs():
    async def story():
        broker, paid, sent = broker_of(), Taken(lambda message: Retry()), Taken()
        async with broker.session() as session:
            consumer = consumer_of(session)
            consumer.on("T", tags="paid")(paid)
            async with consumer:
                await consumer.ready()
                consumer.on("U", tags="sent")(sent)
                await settle()
                put(broker, "T", ("paid", b"1"))
                put(broker, "U", ("sent", b"2"))
                await broker.clock.advance(1_000)
                await settle()
                assert (paid.bodies, sent.bodies) == (["1"], ["2"])
                consumer.unsubscribe("U")
                await settle()
                assert consumer.queues == [broker.queue("T")]

    asyncio.run(story())
