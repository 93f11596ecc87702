"""Requests by message, on our broker and on Apache's."""

import asyncio

import pytest

from clients_live.reading import read_all
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.errors import BadMessage, Refused, TimedOut


def test_a_reply_reaches_who_asked(cluster):
    async def story():
        address, topic = cluster.namesrv.address, "Ask"
        async with Producer("askers", address) as asker, Producer("answerers", address) as answerer:
            asking = [
                asyncio.create_task(asker.request(Message(topic, text), timeout=60))
                for text in ("one", "two")
            ]
            requests = await read_all(address, topic, 2)
            for request in requests:
                await answerer.reply(request, b"re: " + request.body)
            replies = await asyncio.gather(*asking)
            assert [reply.text() for reply in replies] == ["re: one", "re: two"]
            with pytest.raises(Refused):
                async with Producer("gone", address) as gone:
                    asking = asyncio.create_task(gone.request(Message("Ask-gone", "?")))
                    (request,) = await read_all(address, "Ask-gone", 1)
                    asking.cancel()
                await answerer.reply(request, b"nobody is there")

    asyncio.run(story())


def test_no_reply_is_told_in_time(cluster):
    async def story():
        async with Producer("patient", cluster.namesrv.address) as producer:
            await producer.send(Message("Ask-nobody", "the topic is made by it"))
            with pytest.raises(TimedOut, match="no reply within 3 s"):
                await producer.request(Message("Ask-nobody", "?"), timeout=3)
            assert not producer._request_reply.replies._waiting

    asyncio.run(story())


def test_only_requests_can_be_answered(cluster):
    async def story():
        address, topic = cluster.namesrv.address, "Ask-not"
        async with Producer("sender", address) as producer:
            await producer.send(Message(topic, "no question"))
            (message,) = await read_all(address, topic, 1)
            with pytest.raises(BadMessage, match="is not a request"):
                await producer.reply(message, b"x")

    asyncio.run(story())
