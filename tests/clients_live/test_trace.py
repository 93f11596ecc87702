"""Traces of our clients, on our broker and on Apache's, read by us and by mqadmin."""

import asyncio
from queue import SimpleQueue

from clients_live.reading import read_all
from cometmq import blocking, compat
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.client.send.transaction import TransactionState
from cometmq.client.trace import Tracer
from cometmq.protocol import trace
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import decode_traces
from peers.admin import AdminShell

WAIT_S_MAX = 60
KINDS = {trace.SentTrace, trace.TakenTrace, trace.ConsumedTrace}


async def traces_of(name_server, message_id, kinds=KINDS):
    """All records of a message, once there is one of each of these kinds."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            kept = await read_all(name_server, TRACE_TOPIC)
            found = [
                record
                for message in kept
                if message_id in message.keys
                for record in decode_traces(message.text())
                if record.message_id == message_id
            ]
            if {type(record) for record in found} >= kinds:
                return found
            await asyncio.sleep(0.2)


def test_a_message_leaves_three_records(cluster):
    async def story():
        address, taken = cluster.namesrv.address, asyncio.Queue()

        async def take(message):
            taken.put_nowait(message.message_id)

        async with Tracer(address) as tracer, Producer("traced-senders", address) as producer:
            producer.add_hook(tracer.of_sends)
            consumer = PushConsumer("traced-takers", address)
            consumer.add_hook(tracer.of_consumption("traced-takers"))
            consumer.subscribe("Traced")
            consumer.listen(take)
            message = Message("Traced", "x", tags="T", keys="traced-key")
            await producer.send(message)  # the topic is made by it
            async with consumer:
                sent = await producer.send(message)
                async with asyncio.timeout(WAIT_S_MAX):
                    while await taken.get() != sent.message_id:
                        pass  # the group is new: the one that made the topic may come too
        assert tracer.dropped == 0
        return sent, await traces_of(address, sent.message_id)

    sent, records = asyncio.run(story())
    by_kind = {type(record): record for record in records}
    first, before, after = (
        by_kind[kind] for kind in (trace.SentTrace, trace.TakenTrace, trace.ConsumedTrace)
    )
    assert (first.group, first.topic, first.tags) == ("traced-senders", "Traced", "T")
    assert first.offset_id == sent.offset_id
    assert (before.group, before.keys) == ("traced-takers", "traced-key")
    assert (after.request_id, after.success) == (before.request_id, True)
    with AdminShell(cluster.namesrv.address) as shell:
        printed = shell.run("queryMsgTraceById", "-i", sent.message_id)
    assert "traced-senders" in printed
    assert "traced-takers" in printed


def test_a_transaction_leaves_a_record_of_its_send_and_one_of_its_end(cluster):
    address = cluster.namesrv.address

    def never(message):
        raise AssertionError("it is told at once")

    with (
        blocking.Tracer(address) as tracer,
        blocking.TransactionProducer("traced-payers", address, check=never) as producer,
    ):
        producer.add_hook(tracer.of_sends)
        message = Message("TracedPayments", "x", tags="T", keys="paid")
        ended = producer.send_in_transaction(message, lambda _: TransactionState.ROLLBACK)
    assert tracer.dropped == 0
    message_id = ended.sent.message_id
    kinds = {trace.SentTrace, trace.EndedTrace}
    records = asyncio.run(traces_of(address, message_id, kinds))
    by_kind = {type(record): record for record in records}
    sent, end = by_kind[trace.SentTrace], by_kind[trace.EndedTrace]
    assert (sent.kind, end.kind) == (trace.MessageKind.HALF, trace.MessageKind.COMMITTED)
    assert (end.group, end.topic, end.tags) == ("traced-payers", "TracedPayments", "T")
    assert (end.transaction_id, end.state) == (message_id, "ROLLBACK_MESSAGE")
    assert (end.store_host, end.region_id) == (sent.store_host, sent.region_id)
    with AdminShell(address) as shell:
        assert "traced-payers" in shell.run("queryMsgTraceById", "-i", message_id)


def test_java_s_flag_traces_sends_and_consumption(cluster):
    address, taken = cluster.namesrv.address, SimpleQueue()

    def consume(messages, context):
        for message in messages:
            taken.put(message.getMsgId())
        return compat.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    producer = compat.DefaultMQProducer("flagged-senders", True)
    consumer = compat.DefaultMQPushConsumer("flagged-takers", True)
    consumer.setConsumeFromWhere(compat.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.registerMessageListener(consume)
    consumer.subscribe("Flagged", "*")
    for client in (producer, consumer):
        client.setNamesrvAddr(address)
    producer.start()
    message_id = producer.send(compat.Message("Flagged", "T", "flagged-key", b"x")).getMsgId()
    consumer.start()
    assert taken.get(timeout=WAIT_S_MAX) == message_id
    for client in (producer, consumer):
        client.shutdown()
    records = asyncio.run(traces_of(address, message_id))
    groups = {record.group for record in records}
    assert groups == {"flagged-senders", "flagged-takers"}
