"""What is counted, where and when: each message once where it waits, and once where it arrives."""

import msgspec
import pytest

from broker.whole import at_broker
from cometmq.protocol.bodies.stats import BrokerStats
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.query import ViewStatsHeader
from cometmq.protocol.headers.send import SendBackHeader
from cometmq.protocol.headers.transaction import EndTransactionHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.records.message_id import OffsetId

SCHEDULE, HALF = "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"
DELIVERED = "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER"
QUEUE_DELIVERED = "SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER"
COMMIT = 8


async def view(whole, name, key):
    """The sum of the last minute; None if nothing is counted."""
    header = ViewStatsHeader(stats_name=name, stats_key=key)
    reply = await whole.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
    if reply.code == ResponseCode.SYSTEM_ERROR:
        assert reply.remark == f"The stats <{name}> <{key}> not exist"
        return None
    return loads(reply.body, BrokerStats).stats_minute.sum


async def put(whole, topic):
    return await view(whole, "TOPIC_PUT_NUMS", topic)


def place(reply):
    return OffsetId.parse(reply.header.msg_id).physical_offset


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_delayed_message_counts_where_it_waits_and_then_where_it_goes(is_counted):
    async def story(whole):
        whole.make_topic()
        await whole.send(properties={"DELAY": "1"})
        assert (await put(whole, SCHEDULE), await put(whole, "T")) == (1, None)
        assert await view(whole, "QUEUE_PUT_NUMS", f"{SCHEDULE}@0") == 1
        await whole.clock.advance(1_000)
        assert await put(whole, "T") == (1 if is_counted else None)
        assert await view(whole, "GROUP_GET_NUMS", DELIVERED) == (1 if is_counted else None)
        assert await view(whole, "QUEUE_GET_NUMS", QUEUE_DELIVERED) == (1 if is_counted else None)
        assert whole.stats.messages_got.now == 0  # no consumer had it

    at_broker(story, enable_schedule_message_stats=is_counted)


def test_what_comes_again_is_input_of_the_retry_topic():
    async def story(whole):
        whole.make_topic()
        sent = await whole.send()
        back = SendBackHeader(offset=place(sent), group="G", delay_level=1)
        assert (await whole.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 0
        assert (await put(whole, SCHEDULE), await put(whole, "%RETRY%G")) == (1, None)
        assert await view(whole, "SNDBCK_PUT_NUMS", "T@G") == 1
        await whole.clock.advance(1_000)
        assert await put(whole, "%RETRY%G") == 1
        assert await put(whole, "T") == 1

    at_broker(story)


def test_a_half_message_counts_as_such_and_in_its_topic_once_it_is_committed():
    async def story(whole):
        whole.make_topic()
        half = await whole.send(properties={"TRAN_MSG": "true", "PGROUP": "P"})
        assert (await put(whole, HALF), await put(whole, "T")) == (1, None)
        ending = EndTransactionHeader(
            producer_group="P", tran_state_table_offset=half.header.queue_offset,
            commit_log_offset=place(half), commit_or_rollback=COMMIT, msg_id="",
        )  # fmt: skip
        assert (await whole.ask(RequestCode.END_TRANSACTION, ending)).code == 0
        assert (await put(whole, HALF), await put(whole, "T")) == (1, 1)

    at_broker(story)


def test_what_is_far_behind_comes_from_the_disk():
    async def story(whole):
        whole.make_topic()
        for _ in range(3):
            await whole.send()
        assert (await whole.pull(consumer_group="G")).code == 0
        name = "GROUP_GET_FROM_DISK_NUMS"
        assert await view(whole, name, "T@G") is None
        limits = whole.store._reader._limits
        whole.store._reader._limits = msgspec.structs.replace(limits, memory=0)
        await whole.send()
        body = (await whole.pull(consumer_group="G", max_msg_nums=3)).body
        assert await view(whole, name, "T@G") == 3
        assert await view(whole, "BROKER_GET_FROM_DISK_SIZE", "DefaultCluster") == len(body)
        assert await view(whole, "GROUP_GET_NUMS", "T@G") == 6

    at_broker(story)


def test_consumer_lag_is_computed_on_request():
    async def story(whole):
        whole.make_topic()
        first = place(await whole.send())
        await whole.clock.advance(500)
        second = place(await whole.send())
        end = whole.store.log_bounds[1]
        told = []
        for offset in (0, 1, 2):
            whole.offsets.commit("G", "T", 0, offset)
            size = await view(whole, "GROUP_GET_FALL_SIZE", "0@T@G")
            told.append((size, await view(whole, "GROUP_GET_FALL_TIME", "0@T@G")))
        assert told == [(end - first, 500), (end - second, 0), (0, 0)]
        whole.offsets.commit("G", "T", 0, -1)  # which is no offset
        assert await view(whole, "GROUP_GET_FALL_SIZE", "0@T@G") is None
        for key in ("1@T@G", "0@T@nobody", "0@U@G", "x@T@G", "", "0"):
            assert await view(whole, "GROUP_GET_FALL_SIZE", key) is None

    at_broker(story)
