"""A commit that arrives after its topic was deleted restored the offset.

A group then skipped messages of a new topic of that name.
"""

import asyncio

from broker.whole import open_whole
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.offset import UpdateOffsetHeader
from cometmq.protocol.headers.topic import TopicHeader


def commit(topic="T", queue_id=0):
    return UpdateOffsetHeader(consumer_group="G", topic=topic, queue_id=queue_id, commit_offset=9)


def test_a_commit_after_the_deletion_of_its_topic_is_not_stored():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            assert (await whole.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit())).code == 0
            assert whole.offsets.get("G", "T", 0) == 9
            reply = await whole.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="T"))
            assert reply.code == 0
            late = await whole.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit())
            assert late.code == 0, "as on Apache's broker: a leaving consumer gets no error"
            whole.make_topic()
            assert whole.offsets.get("G", "T", 0) is None

    asyncio.run(story())


def test_offsets_of_unknown_queues_take_no_memory():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            for ask in (commit(queue_id=2**31 - 1), commit(queue_id=-1), commit(topic="Unknown")):
                assert (await whole.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ask)).code == 0
            assert whole.offsets.body.offset_table == {}

    asyncio.run(story())
