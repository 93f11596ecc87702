"""Blocking clients that share a session, and their traces."""

import asyncio

import pytest

from client.fake_cluster import fake_cluster, run
from cometmq import blocking
from cometmq.client.config import ClientConfig
from cometmq.client.message import Message
from cometmq.client.session.session import Session
from cometmq.compat import DefaultMQProducer
from cometmq.compat import Message as JavaMessage
from cometmq.errors import Closed
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import SentTrace, decode_traces


def beside(story, *topics):
    """The story, in a thread of its own, and the records of traces by topic."""
    found = {}

    async def test():
        async with fake_cluster() as cluster:
            cluster.queues.update(dict.fromkeys(topics, 1))
            await asyncio.to_thread(story, cluster.name_servers)
            for topic in topics:
                bodies = [body for ask, body in cluster["a"].sends if ask.topic == topic]
                found[topic] = [each for body in bodies for each in decode_traces(body.decode())]

    run(test)
    return found


def test_a_session_is_shared_and_closed_after_its_clients():
    def story(address):
        client = ClientConfig(name_servers=address, instance_name="both")
        with blocking.Session(client) as session:
            consumer = blocking.PushConsumer("takers", session=session)
            assert consumer.client_id == session.client_id == client.client_id
            with (
                blocking.Producer("one", session=session) as one,
                blocking.Producer("two", session=session) as two,
            ):
                one.send(Message("orders", b"x"))
                two.send(Message("orders", b"y"))
            consumer.close()
        session.close()
        with pytest.raises(Closed):
            blocking.Producer("three", session=session)

    beside(story)


def test_a_session_made_for_awaiting_clients_serves_too():
    def story(address):
        session = Session(ClientConfig(name_servers=address))
        with blocking.Producer("one", session=session) as producer:
            producer.send(Message("orders", b"x"))

    beside(story)


def test_sends_are_traced():
    def story(address):
        with blocking.Tracer(address) as tracer, blocking.Producer("g", address) as producer:
            producer.add_hook(tracer.of_sends)
            ids.append(producer.send(Message("orders", b"x", keys="k")).message_id)
        assert tracer.dropped == 0
        assert tracer.of_consumption("takers").group == "takers"

    ids = []
    (record,) = beside(story, TRACE_TOPIC)[TRACE_TOPIC]
    assert isinstance(record, SentTrace)
    assert (record.message_id, record.group, record.keys) == (ids[0], "g", "k")


@pytest.mark.parametrize(("wish", "topic"), [((), TRACE_TOPIC), (("Traces",), "Traces")])
def test_java_s_flag_traces_where_it_says(wish, topic):
    def story(address):
        producer = DefaultMQProducer("g", True, *wish)
        producer.setNamesrvAddr(address)
        producer.start()
        producer.send(JavaMessage("orders", b"x"))
        producer.shutdown()

    found = beside(story, TRACE_TOPIC, "Traces")
    assert {where: len(records) for where, records in found.items() if records} == {topic: 1}
