"""Sharing queues: what a member computes from what brokers say."""

import asyncio

from client.consumer.fake_broker import FakeBroker
from cometmq.client.consumer.shared.allocate import Averagely, ByConfig
from cometmq.client.consumer.shared.rebalance import Rebalance
from cometmq.protocol.bodies.heartbeat import ConsumerData, MessageModel
from cometmq.protocol.codes import RequestCode, ResponseCode

GROUP = "G"


class Member:
    """Enough of a consumer for heartbeats."""

    group = GROUP

    def data(self):
        return ConsumerData(group_name=GROUP)


async def shared(
    broker, topics, *, model=MessageModel.CLUSTERING, allocation=None, joins=True, namespace=""
):
    """The topics that could not be settled, and the queue ids that we got, by topic."""
    got = {}

    async def settle(topic, mine):
        got[topic] = [queue.queue_id for queue in mine]

    async with broker.session(namespace=namespace) as session:
        if joins:
            session.members.join_consumer(Member())
        rebalance = Rebalance(session, GROUP, model, allocation or Averagely(), settle)
        return await rebalance.run(topics), got


def test_members_share_and_broadcasters_do_not():
    broker = FakeBroker(T=5, U=1)
    broker.others = ["127.0.0.1@zzz"]
    assert asyncio.run(shared(broker, ["T", "U"])) == ([], {"T": [0, 1, 2], "U": [0]})
    broadcast = shared(broker, ["T"], model=MessageModel.BROADCASTING)
    assert asyncio.run(broadcast) == ([], {"T": [0, 1, 2, 3, 4]})


def test_a_topic_that_nothing_is_known_of_does_not_keep_others():
    broker = FakeBroker(T=2)
    assert asyncio.run(shared(broker, ["unknown", "T"])) == (["unknown"], {"T": [0, 1]})
    broker.has_names = False
    assert asyncio.run(shared(broker, ["T"])) == (["T"], {})


def test_a_broker_that_does_not_answer_changes_nothing():
    broker = FakeBroker(T=2)
    broker.refuses[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = ResponseCode.SYSTEM_ERROR
    assert asyncio.run(shared(broker, ["T"])) == (["T"], {})


def test_who_is_not_listed_beats_and_asks_again():
    broker = FakeBroker(T=2)
    broker.others = ["127.0.0.1@zzz"]
    assert asyncio.run(shared(broker, ["T"])) == ([], {"T": [0]})
    assert broker.count(RequestCode.HEART_BEAT) == 1
    assert asyncio.run(shared(FakeBroker(T=2), ["T"], joins=False)) == (["T"], {})


def test_queues_that_were_chosen_are_given_for_their_own_topic():
    broker = FakeBroker(T=4, U=4)
    chosen = ByConfig((broker.queue("T", 1), broker.queue("T", 3), broker.queue("U", 2)))
    found = asyncio.run(shared(broker, ["T", "U"], allocation=chosen))
    assert found == ([], {"T": [1, 3], "U": [2]})


def test_queues_are_chosen_without_their_namespace():
    broker = FakeBroker(**{"ns%T": 4, "%RETRY%ns%G": 1})
    chosen = ByConfig((broker.queue("T", 1), broker.queue("ns%T", 2), broker.queue("%RETRY%G", 0)))
    topics = ["ns%T", "%RETRY%ns%G"]
    found = asyncio.run(shared(broker, topics, allocation=chosen, namespace="ns"))
    assert found == ([], {"ns%T": [1, 2], "%RETRY%ns%G": [0]})


def test_an_allocated_queue_that_does_not_exist_is_logged(caplog):
    broker = FakeBroker(T=2)
    chosen = ByConfig((broker.queue("T", 1), broker.queue("T", 7)))
    assert asyncio.run(shared(broker, ["T"], allocation=chosen)) == ([], {"T": [1]})
    (line,) = [each.getMessage() for each in caplog.records if "allocated" in each.getMessage()]
    assert line == f"{broker.queue('T', 7)} is allocated to group G, but does not exist"
