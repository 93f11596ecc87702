"""Pulls, one at a time."""

import asyncio

import pytest

from client.consumer.fake_broker import FakeBroker
from cometmq.client.consumer.shared.pulls import Pull, Pulls
from cometmq.client.message import PullStatus
from cometmq.errors import NoRoute, Refused, Unreachable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.flags import PullFlag


def ask(broker, offset=0, tags="*", **fields):
    fields = {"count": 32, "timeout_ms": 1000, "with_expression": True, **fields}
    return Pull(
        queue=broker.queue("orders"), offset=offset,
        subscription=subscription_of("orders", tags), **fields,
    )  # fmt: skip


def pulled(broker, *asks):
    async def main():
        pulls = Pulls(broker.session(), "g")
        return [await pulls.pull(each) for each in asks]

    return asyncio.run(main())


def test_what_is_found_comes_with_where_to_go_on():
    broker = FakeBroker(orders=1)
    broker.put("orders", 0, b"a", b"b", b"c")
    first, rest, end, beyond = pulled(
        broker, ask(broker, count=2), ask(broker, 2), ask(broker, 3), ask(broker, 9)
    )
    assert [message.body for message in first.messages] == [b"a", b"b"]
    assert (first.status, first.next_offset, first.max_offset) == (PullStatus.FOUND, 2, 3)
    assert [message.queue_offset for message in rest.messages] == [2]
    assert (end.status, end.next_offset) == (PullStatus.NO_NEW, 3)
    assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 3)


def test_tags_of_one_hash_are_told_apart_here():
    broker = FakeBroker(orders=1)
    broker.put("orders", 0, b"wanted", tags="Aa")
    broker.put("orders", 0, b"not", tags="BB")  # of the same hash
    broker.put("orders", 0, b"never", tags="other")
    (found,) = pulled(broker, ask(broker, tags="Aa"))
    assert [message.body for message in found.messages] == [b"wanted"]
    assert found.next_offset == 3


def test_the_wire_has_what_was_asked():
    broker = FakeBroker(orders=1)
    broker.put("orders", 0, b"a")
    pulled(broker, ask(broker, commit=7, is_lite=True, suspend_ms=500), ask(broker))
    (_, _, full), (_, _, plain) = [each for each in broker.asked if each[1] == 11]
    assert full.sys_flag == (
        PullFlag.COMMIT_OFFSET | PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL
    )
    assert (full.commit_offset, full.suspend_timeout_millis, full.subscription) == (7, 500, "*")
    assert plain.sys_flag == PullFlag.SUBSCRIPTION


def test_the_node_that_the_broker_names_is_asked_next_and_keeps_no_offset():
    broker = FakeBroker(orders=1)
    broker.nodes[1] = "127.0.0.1:10921"
    broker.put("orders", 0, b"a")
    broker.suggests = 1
    pulled(broker, ask(broker), ask(broker, commit=1))
    first, second = [each for each in broker.asked if each[1] == RequestCode.PULL_MESSAGE]
    assert (first[0], second[0]) == ("127.0.0.1:10911", "127.0.0.1:10921")
    assert not second[2].sys_flag & PullFlag.COMMIT_OFFSET


def test_a_node_that_fails_is_left_for_the_master():
    broker = FakeBroker(orders=1)
    broker.nodes[1] = "127.0.0.1:10921"
    broker.put("orders", 0, b"a")

    async def main():
        pulls = Pulls(broker.session(), "g")
        broker.suggests = 1
        await pulls.pull(ask(broker))
        del broker.nodes[1]
        with pytest.raises(Unreachable):
            await pulls.pull(ask(broker))
        assert (await pulls.pull(ask(broker))).status is PullStatus.FOUND

    asyncio.run(main())


def test_a_broker_that_moved_is_found_again():
    broker = FakeBroker(orders=1)
    broker.put("orders", 0, b"a")

    async def main():
        pulls = Pulls(broker.session(), "g")
        await pulls.pull(ask(broker))
        broker.nodes = {0: "127.0.0.1:20911"}
        with pytest.raises(Unreachable):
            await pulls.pull(ask(broker))
        assert (await pulls.pull(ask(broker))).status is PullStatus.FOUND

    asyncio.run(main())


def test_a_failure_is_the_brokers_own_when_name_servers_fail_too():
    broker = FakeBroker(orders=1)

    async def main():
        pulls = Pulls(broker.session(), "g")
        await pulls.pull(ask(broker))
        broker.is_up = broker.has_names = False
        with pytest.raises(Unreachable, match="10911"):
            await pulls.pull(ask(broker))

    asyncio.run(main())


def test_refusals_and_topics_of_nobody_are_told():
    broker = FakeBroker(orders=1)
    broker.refuses[RequestCode.PULL_MESSAGE] = ResponseCode.NO_PERMISSION
    with pytest.raises(Refused, match="NO_PERMISSION: the test"):
        pulled(broker, ask(broker))
    with pytest.raises(NoRoute):
        pulled(FakeBroker(), ask(broker))
