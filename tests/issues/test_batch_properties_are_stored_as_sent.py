"""Messages of a batch lost their WAIT property, and properties that are not UTF-8 were refused.

Apache stores the properties of each message as they were sent, then the properties of the batch,
and removes WAIT from single sends only.
"""

import asyncio

from broker.whole import open_whole, pull_header, send_header
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.records.batch import pack_entries
from cometmq.protocol.records.message import pack_record, unpack_records
from cometmq.protocol.records.properties import encode_properties

NOT_UTF8 = b"KEYS\x01k\xff\xfe1\x02TAGS\x01t\xe9"


async def send_batch(whole, properties, batch_properties=""):
    body = pack_entries((0, b"body", each) for each in properties)
    header = send_header(topic="T", queue_id=0, properties=batch_properties, batch=True)
    reply = await whole.ask(RequestCode.SEND_BATCH_MESSAGE, header, body)
    assert reply.code == 0, reply.remark


async def pull_all(whole):
    reply = await whole.ask(RequestCode.PULL_MESSAGE, pull_header())
    assert reply.code == 0, reply.remark
    return list(unpack_records(memoryview(reply.body)))


def test_inner_messages_keep_wait_and_get_the_properties_of_the_batch():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            inner = encode_properties({"KEYS": "k1", "WAIT": "true"}).encode()
            outer = encode_properties({"WAIT": "false", "shared": "yes"})
            await send_batch(whole, [inner, b"", inner + b"\x02"], outer)
            cluster = whole.identity.cluster
            rest = {"WAIT": "false", "shared": "yes", "CLUSTER": cluster}
            assert [each.properties for each in await pull_all(whole)] == [
                {"KEYS": "k1"} | rest,
                rest,
                {"KEYS": "k1"} | rest,
            ]
            tail = "\x02".join(f"{name}\x01{value}" for name, value in rest.items())
            texts = [each.properties_text for each in await pull_all(whole)]
            assert texts == [f"{inner.decode()}\x02{tail}", tail, f"{inner.decode()}\x02{tail}"]

    asyncio.run(story())


def test_properties_that_are_not_utf8_are_stored_and_found():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            await send_batch(whole, [NOT_UTF8, b"KEYS\x01plain"])
            first, second = await pull_all(whole)
            assert NOT_UTF8 in pack_record(first)
            assert first.properties["KEYS"] == "k\ufffd\ufffd1"
            assert first.properties["TAGS"] == "t\ufffd"
            assert second.properties["KEYS"] == "plain"
            viewed = await whole.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})
            assert viewed.body == pack_record(first)
            by_key = {
                "topic": "T", "key": "k\ufffd\ufffd1", "maxNum": "5", "beginTimestamp": "0",
                "endTimestamp": str(2**63 - 1),
            }  # fmt: skip
            found = await whole.ask(RequestCode.QUERY_MESSAGE, by_key)
            assert found.body == pack_record(first)
            reply = await whole.ask(RequestCode.PULL_MESSAGE, pull_header(subscription="t\ufffd"))
            assert reply.body == pack_record(first)

    asyncio.run(story())


def test_a_store_with_properties_that_are_not_utf8_is_recovered():
    async def story():
        async with open_whole() as whole:
            whole.make_topic()
            await send_batch(whole, [NOT_UTF8, b"KEYS\x01plain"])
            disk = whole.disk.kill()  # what was written is there, and nothing was closed
        async with open_whole(disk=disk) as again:
            assert again.store.damaged == 0
            assert len(await pull_all(again)) == 2

    asyncio.run(story())
