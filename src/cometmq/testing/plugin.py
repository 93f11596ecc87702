"""Fixtures for pytest, available as soon as cometmq is installed.

    def test_orders(rocketmq, rocketmq_topic):
        with Producer("group", rocketmq.name_server) as producer:
            producer.send(Message(rocketmq_topic, b"..."))

`rocketmq` is a broker and a name server in the process of the tests, for the whole run; it starts
in a tenth of a second. `rocketmq_topic` is a topic that no other test uses.
"""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cometmq.testing.blocking import EmbeddedCluster

_topics = count()
_TOPIC_LENGTH_MAX = 100


@pytest.fixture(scope="session")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[EmbeddedCluster]":
    """A cluster for all tests of the run. Give clients `rocketmq.name_server`."""
    from cometmq.testing.blocking import EmbeddedCluster  # imported here: most runs do not use it

    with EmbeddedCluster(tmp_path_factory.mktemp("rocketmq")) as cluster:
        yield cluster


@pytest.fixture
def rocketmq_topic(rocketmq: "EmbeddedCluster", request: pytest.FixtureRequest) -> str:
    """The name of a topic that only this test uses, with four queues."""
    words = "".join(
        sign if sign.isalnum() and sign.isascii() else "-" for sign in request.node.name
    )
    topic = f"{words[:_TOPIC_LENGTH_MAX]}-{next(_topics)}"
    rocketmq.create_topic(topic)
    return topic
