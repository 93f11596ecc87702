"""Which topics have an order: Apache's name server says it to our broker."""

import asyncio

import pytest

from broker.whole import open_whole
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers import namesrv as headers
from remoting.rig import pooling, until

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

NAMESPACE = "ORDER_TOPIC_CONFIG"
PERIOD_MS = 30_000


def test_topics_get_and_lose_their_order(apache_namesrv):
    address = apache_namesrv().address

    async def story():
        async with pooling() as pool, open_whole(namesrv_addr=address) as whole:

            async def tell(code, header):
                assert (await pool.invoke(address, code, header, timeout_ms=10_000)).code == 0
                await whole.clock.advance(PERIOD_MS)

            whole.make_topic("Ordered")
            whole.make_topic("Other", order=True)
            header = headers.PutKvHeader(namespace=NAMESPACE, key="Ordered", value="broker-a:2")
            await tell(RequestCode.PUT_KV_CONFIG, header)
            await until(lambda: whole.topics.get("Ordered").order, "it was told")
            assert not whole.topics.get("Other").order
            header = headers.KvHeader(namespace=NAMESPACE, key="Ordered")
            await tell(RequestCode.DELETE_KV_CONFIG, header)
            await until(lambda: not whole.topics.get("Ordered").order, "it was told")

    asyncio.run(story())
