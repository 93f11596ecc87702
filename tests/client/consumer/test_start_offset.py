"""Where a consumer begins with a queue."""

import asyncio
from datetime import UTC, datetime

import pytest

from client.consumer.fake_broker import FakeBroker
from cometmq.client.config import ConsumerConfig
from cometmq.client.consumer.shared.offsets import BrokerOffsets
from cometmq.client.consumer.shared.start_offset import StartOffsets
from cometmq.client.session.queries import Queries
from cometmq.errors import Refused
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.codes import RequestCode, ResponseCode

RETRY_TOPIC = "%RETRY%G"
LATE_MS = 1_700_000_010_000


def broker_of():
    """Three messages, of which the last came ten seconds later."""
    broker = FakeBroker(**{"T": 1, RETRY_TOPIC: 1})
    for topic in ("T", RETRY_TOPIC):
        broker.put(topic, 0, b"a", b"b")
    broker.clock.jump(10_000)
    for topic in ("T", RETRY_TOPIC):
        broker.put(topic, 0, b"c")
    return broker


async def begun_at(broker, topic, **settings):
    async with broker.session() as session:
        config = ConsumerConfig(group="G", **settings)
        offsets = BrokerOffsets(session, "G")
        return await StartOffsets(config, offsets, Queries(session)).of(broker.queue(topic))


@pytest.mark.parametrize(
    ("consume_from", "topic", "offset"),
    [
        (ConsumeFrom.FIRST_OFFSET, "T", 0),
        (ConsumeFrom.MIN_OFFSET, "T", 0),
        (ConsumeFrom.LAST_OFFSET, "T", 3),
        (ConsumeFrom.LAST_OR_MIN_AT_FIRST_BOOT, "T", 3),
        (ConsumeFrom.TIMESTAMP, "T", 2),
        (ConsumeFrom.FIRST_OFFSET, RETRY_TOPIC, 0),
        (ConsumeFrom.LAST_OFFSET, RETRY_TOPIC, 0),
        (ConsumeFrom.TIMESTAMP, RETRY_TOPIC, 3),
    ],
)
def test_a_new_group_begins_where_it_is_told_to(consume_from, topic, offset):
    when = datetime.fromtimestamp(LATE_MS / 1000, UTC)
    found = asyncio.run(
        begun_at(broker_of(), topic, consume_from=consume_from, consume_timestamp=when)
    )
    assert found == offset


@pytest.mark.parametrize("consume_from", list(ConsumeFrom))
def test_a_group_goes_on_where_it_was(consume_from):
    broker = broker_of()
    broker.committed["G", broker.queue("T")] = 1
    assert asyncio.run(begun_at(broker, "T", consume_from=consume_from)) == 1


def test_a_broker_that_cannot_say_is_no_new_group():
    broker = broker_of()
    broker.refuses[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.SYSTEM_ERROR
    with pytest.raises(Refused):
        asyncio.run(begun_at(broker, "T"))
