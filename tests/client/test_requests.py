"""Requests by message: their one deadline, their end, and where replies go."""

import asyncio

import pytest

from client.fake_cluster import SILENT, fake_cluster, run, until
from client.received import received
from cometmq.client.config import ClientConfig
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.errors import Closed, TimedOut, Unreachable
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.send import PushReplyHeader
from cometmq.protocol.records.properties import decode_properties

QUESTION = Message("orders", b"?")


def test_a_reply_may_be_born_at_a_host_with_a_name():
    async def test():
        async with fake_cluster() as cluster, Producer("g", cluster.name_servers) as producer:
            broker = cluster["a"]
            asking = asyncio.create_task(producer.request(QUESTION))
            await until(lambda: broker.sends and broker.links)
            ask, _ = broker.sends[0]
            header = PushReplyHeader(
                producer_group="g", topic="c_REPLY_TOPIC", default_topic="", queue_id=0,
                default_topic_queue_nums=4, sys_flag=0, born_timestamp=1, flag=0,
                properties=ask.properties, born_host="pod/10.0.0.7:1234",
                store_host="/10.0.0.1:10911", store_timestamp=2,
            )  # fmt: skip
            await broker.links[0].invoke(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, b"!", timeout_ms=5000
            )
            reply = await asking
            assert (reply.body, str(reply.record.born_host)) == (b"!", "10.0.0.7:1234")

    run(test)


def test_a_closed_producer_asks_nothing():
    async def test():
        async with fake_cluster() as cluster:
            producer = Producer("g", cluster.name_servers)
            with pytest.raises(Closed):
                await producer.request(QUESTION)
            async with producer:
                pass
            with pytest.raises(Closed):
                await producer.request(QUESTION)
        assert cluster.route_asks == 0

    run(test)


def test_requests_that_wait_fail_when_the_producer_closes():
    async def test():
        async with fake_cluster() as cluster:
            producer = Producer("g", cluster.name_servers)
            await producer.start()
            asking = asyncio.create_task(producer.request(QUESTION, timeout=60))
            await until(lambda: cluster.sends)
            await producer.close()
            with pytest.raises(Unreachable, match="a consumer may have the request"):
                await asking

    run(test)


def test_the_timeout_includes_the_heartbeat():
    async def test():
        async with fake_cluster() as cluster, Producer("g", cluster.name_servers) as producer:
            cluster["a"].beat_answers = [SILENT] * 9
            with pytest.raises(TimedOut):
                await producer.request(QUESTION, timeout=0.05)
            assert not cluster.sends
            assert not producer._request_reply.replies._waiting

    run(test)


def test_a_reply_goes_to_the_topic_of_all_namespaces():
    async def test():
        async with fake_cluster() as cluster:
            cluster.queues = {"c_REPLY_TOPIC": 1}
            client = ClientConfig(name_servers=cluster.name_servers, namespace="shop")
            async with Producer("g", client=client) as producer:
                asked = {"CLUSTER": "c", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "me", "TTL": "9"}
                await producer.reply(received(properties=asked), b"!")
            ((ask, _),) = cluster["a"].sends
            assert ask.topic == "c_REPLY_TOPIC"
            assert decode_properties(ask.properties)["MSG_TYPE"] == "reply"

    run(test)
