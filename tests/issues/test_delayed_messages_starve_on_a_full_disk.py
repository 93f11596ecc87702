"""When a full disk got some room, producers took all of it: delayed messages never came.

The same held for the ends of transactions. Now the last room is reserved for such internal writes.
What is to hold is in docs/disk.md, section 7.
"""

import pytest

from broker.whole import at_broker, bodies
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import EndTransactionHeader

FILE = 64 << 10  # of the log, see broker.whole
DELAYED = 20
TIMER_MS = 500
SETTINGS = {"flush_interval_commit_log": TIMER_MS, "clean_resource_interval": 1 << 40}
REFUSED = ResponseCode.SERVICE_NOT_AVAILABLE
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


async def send_until_refused(whole, properties=None, every_ms=0):
    """Producers that try again immediately; some time passes after every eighth message."""
    for number in range(10_000):
        reply = await whole.send("Live", body=bytes(1000), properties=properties)
        if reply.code == REFUSED:
            return number
        assert reply.code == 0
        if number % 8 == 7:
            await whole.clock.advance(every_ms)
    raise AssertionError("the disk does not get full")


def delivered(whole):
    return whole.store.bounds("T", 0)[1]


@pytest.mark.parametrize("properties", [None, {"UNIQ_KEY": "U"}], ids=["plain", "with a key"])
def test_delayed_messages_are_delivered_while_producers_fill_the_disk(properties):
    async def story(whole):
        whole.make_topic("T")
        whole.make_topic("Live")
        for number in range(DELAYED):
            body = b"%d" % number + bytes(1000)
            delayed = {"DELAY": "3", **(properties or {})}
            assert (await whole.send(body=body, properties=delayed)).code == 0
        whole.disk.room = 0
        await send_until_refused(whole, properties, TIMER_MS)
        await whole.clock.advance(20_000)  # now they are due
        for _ in range(10):
            # Cleaning frees a file of the log, and one of the index, with what goes with them.
            whole.disk.room += FILE + (8 << 10)
            await send_until_refused(whole, properties)  # faster than a delivery is tried again
            await whole.clock.advance(3_000)
            whole.disk.room = 0
        assert delivered(whole) == DELAYED
        found = bodies(await whole.pull(topic="T"))
        assert [int(body.strip(b"\0")) for body in found] == list(range(DELAYED))

    at_broker(story, store_settings=SETTINGS)


@pytest.mark.parametrize("decision", [MessageFlag.COMMIT, MessageFlag.ROLLBACK])
def test_transactions_end_while_producers_are_refused(decision):
    async def story(whole):
        whole.make_topic("T")
        whole.make_topic("Live")
        half = {"TRAN_MSG": "true", "PGROUP": "makers", "UNIQ_KEY": "U"}
        assert (await whole.send(properties=half, sys_flag=int(MessageFlag.PREPARED))).code == 0
        prepared = whole.store.message(HALF, 0, 0)
        whole.disk.room = 0
        await send_until_refused(whole, every_ms=TIMER_MS)
        whole.disk.room = FILE // 2  # for the tables, and for no file of the log
        ask = EndTransactionHeader(
            producer_group="makers", tran_state_table_offset=0, msg_id="U",
            commit_log_offset=prepared.physical_offset, commit_or_rollback=int(decision),
        )  # fmt: skip
        assert (await whole.ask(RequestCode.END_TRANSACTION, ask)).code == 0
        assert delivered(whole) == (decision is MessageFlag.COMMIT)
        assert (await whole.send("Live", body=bytes(1000))).code == REFUSED

    at_broker(story, store_settings=SETTINGS)


def test_delayed_messages_are_delivered_past_the_ratio_at_which_sends_are_refused():
    async def story(whole):
        whole.make_topic("T")
        assert (await whole.send(properties={"DELAY": "3"})).code == 0
        whole.disk.used_ratio = lambda folder: 0.95
        await whole.clock.advance(1_000)
        assert (await whole.send()).code == REFUSED
        await whole.clock.advance(10_000)
        assert delivered(whole) == 1

    settings = {"clean_resource_interval": 1_000, "clean_file_forcibly_enable": False}
    at_broker(story, store_settings=settings)
