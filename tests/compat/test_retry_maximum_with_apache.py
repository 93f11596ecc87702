"""A maximum of retries of -1, on the wire: no end here, and less than none in Apache's broker."""

import asyncio

import pytest

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.send import SendBackHeader
from peers.comet import CometBroker
from peers.raw import RawClient

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

SCHEDULE, FIRST_LEVEL = "SCHEDULE_TOPIC_XXXX", 3


@pytest.fixture(params=["apache", "cometmq"])
def broker(request, apache_namesrv, apache_broker, tmp_path):
    namesrv = apache_namesrv().address
    if request.param == "apache":
        yield apache_broker(namesrv=namesrv)
    else:
        with CometBroker(tmp_path, namesrv=namesrv) as started:
            yield started


def test_a_first_failure_with_a_maximum_of_minus_one(broker):
    async def story():
        async with RawClient(broker.address) as client:
            await client.make_topic("Failing", 1)
            sent = await client.send("Failing", 0, b"x")
            await client.until_end("Failing", 0, 1)
            header = SendBackHeader(
                offset=sent.physical, group="takers", delay_level=0, max_reconsume_times=-1
            )
            await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
            if isinstance(broker, CometBroker):
                await client.until_end(SCHEDULE, FIRST_LEVEL - 1, 1)
            else:
                await client.until_end("%DLQ%takers", 0, 1)

    asyncio.run(story())
