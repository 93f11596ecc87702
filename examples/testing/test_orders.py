"""How a service is tested with a broker inside the test: run it with `pytest`."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from orders import OrderService

from cometmq import Message
from cometmq.blocking import LitePullConsumer, Producer
from cometmq.testing.blocking import EmbeddedCluster


@pytest.fixture
def producer(rocketmq: EmbeddedCluster) -> Iterator[Producer]:
    """A customer."""
    with Producer("customers", rocketmq.name_server) as one:
        yield one


def order(producer: Producer, topic: str, number: str, amount: int) -> None:
    """Order apples."""
    text = json.dumps({"id": number, "item": "apples", "amount": amount})
    producer.send(Message(topic, text))


def first_of(rocketmq: EmbeddedCluster, topic: str) -> str:
    """The first message of a topic."""
    with LitePullConsumer("accountants", rocketmq.name_server) as consumer:
        consumer.subscribe(topic)
        return next(iter(consumer)).text()


def test_an_order_is_billed(
    rocketmq: EmbeddedCluster, rocketmq_topic: str, producer: Producer
) -> None:
    """The usual case."""
    bills = rocketmq_topic + "-bills"
    with OrderService(rocketmq.name_server, rocketmq_topic, bills):
        order(producer, rocketmq_topic, "17", 3)
        assert first_of(rocketmq, bills) == "3 x apples"


def test_an_order_of_nothing_ends_as_a_dead_letter(
    rocketmq: EmbeddedCluster, rocketmq_topic: str, producer: Producer
) -> None:
    """Sixteen retries take hours; here the broker's clock is put forward instead."""
    with OrderService(rocketmq.name_server, rocketmq_topic, "bills"):
        order(producer, rocketmq_topic, "18", 0)
        with LitePullConsumer("undertakers", rocketmq.name_server) as consumer:
            consumer.subscribe("%DLQ%order-service")
            while not (dead := consumer.poll(0.1)):
                rocketmq.advance(timedelta(hours=2))
        assert dead[0].json()["id"] == "18"
