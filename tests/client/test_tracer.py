"""The tracer: large batches, brokers that do not answer, and its end."""

import asyncio

from client.fake_cluster import SILENT, fake_cluster, run, until
from cometmq.client import trace
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.client.trace import Tracer
from cometmq.errors import Refused
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.records.properties import decode_properties
from cometmq.protocol.trace import SentTrace, decode_traces


def record(**fields):
    return SentTrace(time_ms=1, region_id="r", group="g", topic="t", **fields)


def decoded(body):
    return list(decode_traces(body.decode()))


def test_a_large_batch_is_traced_by_its_first_message():
    async def test():
        async with fake_cluster() as cluster:
            cluster.queues[TRACE_TOPIC] = 1
            address = cluster.name_servers
            async with Tracer(address) as tracer, Producer("g", address) as producer:
                producer.add_hook(tracer.of_sends)
                (result,) = await producer.send_batch([Message("orders", b"x")] * 3000)
            traced = [(ask, body) for ask, body in cluster["a"].sends if ask.topic == TRACE_TOPIC]
            ((ask, body),) = traced
            first = result.message_id.partition(",")[0]
            assert decode_properties(ask.properties)["KEYS"] == first
            assert [each.message_id for each in decoded(body)] == [first]
            assert tracer.dropped == 0

    run(test)


def test_words_that_do_not_fit_are_left_out_and_tracing_goes_on():
    async def test():
        async with fake_cluster() as cluster:
            cluster.queues[TRACE_TOPIC] = 1
            async with Tracer(cluster.name_servers) as tracer:
                tracer._add(record(message_id="one", keys=f"short {'long' * 9000}"))
                await tracer._send_some()
                tracer._add(record(message_id="two", keys="k"))
            keys = [
                decode_properties(ask.properties)["KEYS"].split() for ask, _ in cluster["a"].sends
            ]
            assert keys == [["one", "short"], ["k", "two"]]
            assert tracer.dropped == 0

    run(test)


def test_what_cannot_be_sent_is_dropped_and_tracing_goes_on(caplog):
    async def test():
        async with fake_cluster() as cluster:
            cluster.queues[TRACE_TOPIC] = 1
            async with Tracer(cluster.name_servers) as tracer:
                tracer._add(record(message_id="\ud800"))
                tracer._arrived.set()
                await until(lambda: not tracer._waiting)
                tracer._add(record(message_id="two"))
            assert tracer.dropped == 1
            ((_, body),) = cluster["a"].sends
            assert [each.message_id for each in decoded(body)] == ["two"]

    run(test)
    assert "1 trace records are lost" in caplog.text


def test_closing_is_bounded_and_counts_what_is_left(monkeypatch):
    monkeypatch.setattr(trace, "_CLOSE_MS_MAX", 50)

    async def test():
        async with fake_cluster() as cluster, cluster.session() as session:
            cluster.queues[TRACE_TOPIC] = 1
            tracer = Tracer(session=session)
            tracer._producer._timeout_ms = 100
            await tracer.start()
            cluster["a"].answers = [SILENT] * 99
            for number in range(250):
                tracer._add(record(message_id=f"{number}"))
            await tracer.close()
            assert tracer.dropped == 250
            assert not session.members.producers

    run(test)


def test_the_session_ends_even_if_the_producer_does_not_close_well(monkeypatch):
    async def test():
        async with fake_cluster() as cluster:
            tracer = Tracer(cluster.name_servers)
            await tracer.start()
            close = tracer._producer.close

            async def fails():
                await close()
                raise Refused(1, "as the test says")

            monkeypatch.setattr(tracer._producer, "close", fails)
            outcomes = await asyncio.gather(tracer.close(), return_exceptions=True)
            assert isinstance(outcomes[0], Refused)
            assert tracer._lease.session.closed_why

    run(test)
