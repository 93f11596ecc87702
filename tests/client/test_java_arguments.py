"""The constructors of Java's clients: which text is what, and what is not understood."""

import pytest

from cometmq.client.consumer.shared.allocate import AveragelyByCircle
from cometmq.compat import (
    AclClientRPCHook,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    SessionCredentials,
    TransactionMQProducer,
)
from cometmq.errors import BadSetting

CLIENTS = [DefaultMQProducer, TransactionMQProducer, DefaultMQPushConsumer, DefaultLitePullConsumer]
SIGNS = AclClientRPCHook(SessionCredentials("who", "secret"))


@pytest.mark.parametrize("kind", CLIENTS)
def test_of_two_texts_the_first_is_the_namespace(kind):
    assert (kind("g").getNamespace(), kind("g").getGroup()) == ("", "g")
    assert (kind("ns", "g").getNamespace(), kind("ns", "g").getGroup()) == ("ns", "g")
    assert (kind("ns", "g", None).getNamespace(), kind("g", None).getGroup()) == ("ns", "g")
    assert (kind(None, "g").getNamespace(), kind(None, "g").getGroup()) == ("", "g")


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_hook_signs(kind):
    for client in (kind("g", SIGNS), kind("ns", "g", SIGNS)):
        assert (client.getAccessKey(), client.getSecretKey()) == ("who", "secret")
    assert "secret" not in repr(SIGNS)


def test_a_strategy_is_for_consumers():
    circle = AveragelyByCircle()
    consumer = DefaultMQPushConsumer("ns", "g", SIGNS, circle)
    assert consumer.getAllocateMessageQueueStrategy() is circle
    with pytest.raises(TypeError, match="a DefaultMQProducer has no allocation"):
        DefaultMQProducer("g", None, circle)


@pytest.mark.parametrize("kind", [DefaultMQProducer, DefaultMQPushConsumer])
def test_a_truth_is_whether_to_trace_and_a_text_after_it_is_where(kind):
    assert not kind("g")._trace.is_on
    assert not kind("g", False)._trace.is_on
    for client in (kind("g", True, "Traces"), kind("ns", "g", SIGNS, True, "Traces")):
        assert (client._trace.is_on, client._trace.topic) == (True, "Traces")
        assert client.getGroup() == "g"
    assert kind("g", True)._trace.topic is None


def test_what_java_would_not_compile_is_told():
    with pytest.raises(TypeError, match="'third' is not a valid argument"):
        DefaultMQProducer("ns", "g", "third")
    with pytest.raises(TypeError, match="7 is not a valid argument"):
        DefaultMQPushConsumer("g", 7)
    with pytest.raises(TypeError, match="a DefaultLitePullConsumer does not support traces"):
        DefaultLitePullConsumer("g", True)


def test_a_group_may_be_set_later_but_must_be():
    producer = DefaultMQProducer()
    with pytest.raises(BadSetting, match="DEFAULT_PRODUCER"):
        producer.start()
    producer.setProducerGroup("g")
    assert producer.getProducerGroup() == "g"
    consumer = DefaultMQPushConsumer()
    assert consumer.getConsumerGroup() == "DEFAULT_CONSUMER"
