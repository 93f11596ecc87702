"""A pull with maxMsgNums=0 was refused, so Go's PullConsumer.Poll, which sends 0, got nothing.

Apache returns at least one message, and refuses negative numbers with code 1.
"""

import asyncio

import pytest

from broker.whole import open_whole, pull_header
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.records.message import unpack_records


@pytest.mark.parametrize("subscription", ["*", "a || b"])
def test_a_pull_of_no_messages_returns_one(subscription):
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            for number in range(3):
                await whole.send(body=b"%d" % number, properties={"TAGS": "a"})
            header = pull_header(max_msg_nums=0, subscription=subscription)
            reply = await whole.ask(RequestCode.PULL_MESSAGE, header)
            assert reply.code == 0, reply.remark
            assert [each.body for each in unpack_records(memoryview(reply.body))] == [b"0"]
            assert reply.header.next_begin_offset == 1

    asyncio.run(story())


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_negative_number_of_messages_is_refused(count):
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            await whole.send()
            header = pull_header(max_msg_nums=count)
            reply = await whole.ask(RequestCode.PULL_MESSAGE, header)
            assert (reply.code, reply.remark) == (1, f"maxMsgNums is {count}, below 0")

    asyncio.run(story())
