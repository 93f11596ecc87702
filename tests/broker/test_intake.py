"""The way into the log: what is promised is kept, and a failure says who is to do what."""

import asyncio

import pytest

from broker.whole import at_broker
from cometmq.broker.config import BrokerRole
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.records.properties import encode_properties
from cometmq.store.config import FlushDiskType
from cometmq.store.log.new_message import NewMessage

SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
MESSAGE = NewMessage(topic="T", queue_id=0, body=b"hello")


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def test_async_flush_promises_nothing_and_waits_for_nothing():
    async def story(whole):
        whole.intake.put(MESSAGE, 1)  # the first one makes files
        syncs = whole.disk.syncs
        stored = whole.intake.put(MESSAGE, 1)
        assert not whole.intake.must_confirm
        assert await whole.intake.confirmed(stored) == ResponseCode.SUCCESS
        assert whole.disk.syncs == syncs

    at_broker(story)


def test_sync_flush_answers_once_it_is_on_disk():
    async def story(whole):
        assert whole.intake.must_confirm
        whole.disk.hold()
        stored = whole.intake.put(MESSAGE, 1)
        confirmed = asyncio.create_task(whole.intake.confirmed(stored))
        await turns()
        assert not confirmed.done()
        assert whole.store.flushed_end < stored.end
        whole.disk.release()
        assert await confirmed == ResponseCode.SUCCESS
        assert whole.store.flushed_end >= stored.end

    at_broker(story, store_settings=SYNC)


def test_a_slow_disk_is_a_flush_timeout_after_its_time_and_costs_others_nothing():
    async def story(whole):
        whole.disk.hold()
        slow = asyncio.create_task(whole.intake.confirmed(whole.intake.put(MESSAGE, 1)))
        await whole.clock.advance(4_999)
        late = asyncio.create_task(whole.intake.confirmed(whole.intake.put(MESSAGE, 1)))
        await turns()
        assert not slow.done()
        await whole.clock.advance(1)
        assert await slow == ResponseCode.FLUSH_DISK_TIMEOUT
        assert whole.store.bounds("T", 0) == (0, 2), "it is stored all the same"
        whole.disk.release()
        await turns()
        whole.disk.release()
        assert await late == ResponseCode.SUCCESS

    at_broker(story, store_settings=SYNC | {"sync_flush_timeout": 5_000})


def test_who_stops_waiting_is_not_told_of_a_timeout():
    async def story(whole):
        whole.disk.hold()
        waiting = asyncio.create_task(whole.intake.confirmed(whole.intake.put(MESSAGE, 1)))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        whole.disk.release()

    at_broker(story, store_settings=SYNC)


def test_a_disk_that_fails_stops_the_store_and_says_so():
    async def story(whole):
        stored = whole.intake.put(MESSAGE, 1)
        whole.disk.fail_sync_at = whole.disk.syncs
        with pytest.raises(Refused) as told:
            await whole.intake.confirmed(stored)
        assert told.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        with pytest.raises(Refused) as told:
            whole.intake.put(MESSAGE, 2)
        assert told.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "disk" in str(told.value)

    at_broker(story, store_settings=SYNC)


def test_a_sync_master_without_a_slave_says_so_and_stores():
    async def story(whole):
        stored = whole.intake.put(MESSAGE, 1)
        assert whole.intake.must_confirm
        assert await whole.intake.confirmed(stored) == ResponseCode.SLAVE_NOT_AVAILABLE
        assert whole.store.bounds("T", 0) == (0, 1)

    at_broker(story, broker_role=BrokerRole.SYNC_MASTER)


def test_a_full_disk_refuses_and_takes_again_once_there_is_room():
    async def story(whole):
        big = NewMessage(topic="T", queue_id=0, body=bytes(20 << 10))
        whole.disk.room = 0
        with pytest.raises(Refused) as told:
            for _ in range(20):
                whole.intake.put(big, 1)
        assert told.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        before = whole.state()
        with pytest.raises(Refused):
            whole.intake.put_batch([big], 1)
        assert whole.state() == before
        whole.disk.room = None
        stored = whole.intake.put(big, 1)
        assert stored.queue_offset == whole.store.bounds("T", 0)[1] - 1

    at_broker(story)


@pytest.mark.parametrize(
    "changes",
    [
        {"body": bytes(1025)},
        {"topic": "t" * 128},
        {"properties_text": encode_properties({"k": "v" * 32768})},
    ],
)
def test_what_is_too_large_is_illegal_and_leaves_nothing(changes):
    async def story(whole):
        before = whole.state()
        fields = {"topic": "T", "queue_id": 0, "body": b"x"} | changes
        with pytest.raises(Refused) as told:
            whole.intake.put(NewMessage(**fields), 1)
        assert told.value.code == ResponseCode.MESSAGE_ILLEGAL
        small = NewMessage(topic=fields["topic"], queue_id=0, body=b"x")
        with pytest.raises(Refused):
            whole.intake.put_batch([small, NewMessage(**fields)], 1)
        assert whole.state() == before

    at_broker(story, store_settings={"max_message_size": 1024})
