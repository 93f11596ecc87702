"""Locks of ordered consumption over the wire."""

import asyncio

import pytest

from broker.whole import at_broker
from cometmq.protocol.bodies.queues import LockedQueues, LockQueues, MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import dumps, loads

PATH = "/store/config/queueLocks.json"
FIRST, SECOND = (MessageQueue("T", "broker-a", queue_id) for queue_id in range(2))


async def lock(whole, client_id, *queues, group="G"):
    body = dumps(LockQueues(client_id=client_id, consumer_group=group, mq_set=list(queues)))
    reply = await whole.ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert reply.code == 0, reply.remark
    return loads(reply.body, LockedQueues).locked


async def unlock(whole, client_id, *queues):
    body = dumps(LockQueues(client_id=client_id, consumer_group="G", mq_set=list(queues)))
    assert (await whole.ask(RequestCode.UNLOCK_BATCH_MQ, body=body)).code == 0


def test_a_queue_has_one_holder_in_a_group_until_it_lets_go():
    async def story(whole):
        whole.make_topic()
        assert await lock(whole, "a", FIRST, SECOND) == [FIRST, SECOND]
        assert await lock(whole, "b", FIRST, SECOND) == []
        assert await lock(whole, "b", FIRST, group="H") == [FIRST]
        await unlock(whole, "b", FIRST)  # it is not his
        assert await lock(whole, "b", FIRST) == []
        await unlock(whole, "a", FIRST)
        assert await lock(whole, "b", FIRST, SECOND) == [FIRST]

    at_broker(story)


def test_a_lock_ends_by_itself_whatever_the_wall_clock_does():
    async def story(whole):
        whole.make_topic()
        await lock(whole, "a", FIRST)
        whole.clock.jump(3_600_000)
        assert await lock(whole, "b", FIRST) == []
        await whole.clock.advance(59_999)
        assert await lock(whole, "b", FIRST) == []
        assert await lock(whole, "a", FIRST) == [FIRST], "who asks again holds on"
        await whole.clock.advance(60_000)
        assert await lock(whole, "b", FIRST) == [FIRST]

    at_broker(story)


@pytest.mark.parametrize("queue_id", [2, -1, 2**31 - 1])
def test_a_queue_that_is_not_there_is_not_locked_and_costs_the_others_nothing(queue_id):
    async def story(whole):
        whole.make_topic()
        missing = MessageQueue("T", "broker-a", queue_id)
        nowhere = MessageQueue("../x", "broker-a", 0)
        assert await lock(whole, "a", missing, nowhere, FIRST) == [FIRST]
        assert set(whole.locks._holds["G"]) == {FIRST}
        await unlock(whole, "a", missing, FIRST)
        assert await lock(whole, "b", FIRST) == [FIRST]

    at_broker(story)


def test_a_new_holder_is_answered_once_it_is_on_disk():
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.hold()
        waiting = asyncio.ensure_future(lock(whole, "a", FIRST))
        await whole.clock.advance(0)
        assert not waiting.done()
        whole.disk.release()
        assert await waiting == [FIRST]
        assert PATH in whole.disk._names.files

    at_broker(story)


def test_a_full_disk_stops_no_orderly_group():
    async def story(whole):
        whole.make_topic()
        await whole.topics.file.save()
        whole.disk.room = 0
        assert await lock(whole, "a", FIRST) == [FIRST]
        whole.disk.room = None
        assert await lock(whole, "b", FIRST, SECOND) == [SECOND]

    at_broker(story)
