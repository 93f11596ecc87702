"""QUERY_CONSUME_QUEUE with a group that has no online member was refused with code 1.

Apache returns the units, and says in `filterData` that the group is not online.
"""

import asyncio
import json

import pytest

from broker.whole import open_whole
from cometmq.protocol.codes import RequestCode


@pytest.mark.parametrize("group", ["absent", ""])
def test_units_are_returned_and_the_group_is_reported_offline(group):
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            await whole.send(body=b"one")
            fields = {"topic": "T", "queueId": "0", "index": "0", "count": "10"}
            reply = await whole.ask(
                RequestCode.QUERY_CONSUME_QUEUE, fields | {"consumerGroup": group}
            )
            assert reply.code == 0, reply.remark
            body = json.loads(reply.body)
            assert body["filterData"] == f"{group}@T is not online!"
            assert "subscriptionData" not in body
            assert len(body["queueData"]) == 1

    asyncio.run(story())
