"""Transactions, on our broker and on Apache's."""

import asyncio
from collections import Counter

import pytest

from clients_live.reading import read_all
from cometmq.client.message import Message
from cometmq.client.send.transaction import TransactionProducer, TransactionState
from cometmq.errors import BadMessage, BadSetting

COMMIT, ROLLBACK, UNKNOWN = TransactionState


def never(message):
    raise AssertionError(f"nobody should ask about {message}")


def bodies(messages):
    return sorted(message.text() for message in messages)


CROSSING_MAX = 2  # questions that cross an answer, of all: on a busy machine it happens


def check_committed(stored, asked, questions):
    """Each after so many questions, once; or more, if a question crossed an answer."""
    counts = Counter(stored)
    assert counts.keys() == questions.keys()
    for body, least in questions.items():
        assert asked[body] >= least, "so often it did not know"
        assert 1 <= counts[body] <= 1 + asked[body] - least


def test_a_committed_one_is_delivered_and_a_rolled_back_one_is_not(cluster):
    async def story():
        address, topic = cluster.namesrv.address, "Tx-ends"
        async with TransactionProducer("tx-ends", address, check=never) as producer:

            async def local(message):
                return ROLLBACK if message.body == b"no" else COMMIT

            results = [
                await producer.send_in_transaction(Message(topic, text, keys=text), local)
                for text in ("yes", "no")
            ]
            nothing = await producer.send_in_transaction(Message(topic, "thread"), lambda _: None)
            assert [each.state for each in [*results, nothing]] == [COMMIT, ROLLBACK, COMMIT]
            assert all(each.is_told for each in results)
            found = await read_all(address, topic, 2)
            assert bodies(found) == ["thread", "yes"]
            (yes,) = [message for message in found if message.body == b"yes"]
            assert yes.message_id == results[0].sent.message_id
            assert yes.keys == ("yes",)

    asyncio.run(story())


def test_brokers_ask_for_what_was_not_told(cluster):
    async def story():
        address, topic = cluster.namesrv.address, "Tx-asked"
        asked = {}

        def check(message):
            asked[message.text()] = asked.get(message.text(), 0) + 1
            if message.body == b"later" and asked["later"] < 2:
                return UNKNOWN
            if message.body == b"failing" and asked["failing"] < 2:
                raise RuntimeError("not yet")
            return ROLLBACK if message.body == b"no" else COMMIT

        async with TransactionProducer("tx-asked", address, check=check) as producer:

            async def local(message):
                if message.body == b"raising":
                    raise KeyError("mine")
                return UNKNOWN

            for text in ("yes", "no", "later", "failing"):
                result = await producer.send_in_transaction(Message(topic, text), local)
                assert result.state is UNKNOWN
            with pytest.raises(KeyError, match="mine"):
                await producer.send_in_transaction(Message(topic, "raising"), local)
            found = await read_all(address, topic, 4)
        check_committed(bodies(found), asked, {"failing": 2, "later": 2, "raising": 1, "yes": 1})
        assert asked.keys() == {"failing", "later", "raising", "yes", "no"}
        assert sum(asked.values()) <= 7 + CROSSING_MAX, "who has answered is asked no more"

    asyncio.run(story())


def test_any_producer_of_the_group_is_asked(cluster):
    async def story():
        address, topic = cluster.namesrv.address, "Tx-other"

        async def die(message):
            raise asyncio.CancelledError

        async with TransactionProducer("tx-other", address, check=lambda _: COMMIT) as second:
            # Its brokers know of it: they do not ask for ever whoever is not there.
            await second.send(Message("Tx-known", "x"))
            async with TransactionProducer("tx-other", address, check=never) as first:
                with pytest.raises(asyncio.CancelledError):
                    await first.send_in_transaction(Message(topic, "orphan"), die)
            assert set(bodies(await read_all(address, topic, 1))) == {"orphan"}

    asyncio.run(story())


def test_what_cannot_be_is_refused_before_anything_is_sent(cluster):
    async def story():
        address, topic = cluster.namesrv.address, "Tx-wrong"
        async with TransactionProducer("tx-wrong", address, check=never) as producer:
            with pytest.raises(BadMessage, match="delay"):
                await producer.send_in_transaction(Message(topic, "x", delay_level=1), never)
        assert await read_all(address, topic) == []

    asyncio.run(story())


def test_its_settings_are_those_of_a_producer():
    with pytest.raises(BadSetting):
        TransactionProducer("no/group", "127.0.0.1:9876", check=never)
