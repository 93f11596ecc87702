"""A topic that is deleted while producers send to it, and by someone who does not wait."""

import asyncio

from broker.whole import FOLDER, at_broker, bodies
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.topic import TopicHeader


def begin_deletion(whole, topic="T"):
    deletion = whole.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
    return asyncio.ensure_future(deletion)


async def send_old(whole):
    whole.make_topic()
    for number in range(3):
        await whole.send(body=b"old %d" % number)


def test_what_was_acknowledged_while_its_topic_was_deleted_is_there():
    """A producer sends at each turn; where topics are made by sends, this one comes again."""

    async def story(whole):
        await send_old(whole)
        deletion, acknowledged, codes = begin_deletion(whole), [], []
        await asyncio.sleep(0)  # it has begun
        while not deletion.done():
            body = b"new %d" % len(codes)
            reply = await whole.send(body=body)
            codes.append(reply.code)
            if reply.code == 0:
                acknowledged.append(body)
                assert reply.header.queue_offset == len(acknowledged) - 1
            await asyncio.sleep(0)
        assert deletion.result().code == 0
        assert ResponseCode.SERVICE_NOT_AVAILABLE in codes, "some come too soon"
        assert (await whole.send(body=b"after")).code == 0
        assert bodies(await whole.pull()) == [*acknowledged, b"after"]

    at_broker(story)


def test_an_asker_that_leaves_leaves_no_half_of_a_topic():
    async def story(whole):
        await send_old(whole)
        await whole.store.flush()
        deletion = begin_deletion(whole)
        await asyncio.sleep(0)
        deletion.cancel()
        await asyncio.gather(deletion, return_exceptions=True)
        assert whole.topics.get("T") is None
        whole.make_topic()
        assert bodies(await whole.pull()) == []
        await whole.store.flush()  # as it does every second
        assert (await whole.send(body=b"new")).code == 0
        assert bodies(await whole.pull()) == [b"new"]

    at_broker(story)


def test_a_delayed_message_waits_for_its_topic_to_be_gone():
    async def story(whole):
        await send_old(whole)
        await whole.send(body=b"late", properties={"DELAY": "1"})
        whole.disk.hold()
        deletion = begin_deletion(whole)
        await whole.clock.advance(1_000)
        assert not deletion.done()
        whole.disk.release()
        while not deletion.done():
            whole.disk.release()
            await asyncio.sleep(0)
        await whole.clock.advance(1_000)
        whole.make_topic()
        assert bodies(await whole.pull()) == [b"late"]

    at_broker(story)


def test_the_deletion_of_what_never_was_is_no_news_to_the_store():
    async def story(whole):
        await send_old(whole)
        await whole.store.flush()
        manifest = FOLDER / "manifest"
        before = whole.disk.read(manifest)
        assert (await begin_deletion(whole, "made-up")).code == 0
        assert whole.disk.read(manifest) == before

    at_broker(story)
