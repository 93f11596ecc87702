"""What is not known is not shown as zero, nobody, or all well."""

import asyncio

import pytest

from admin.fake_cluster import BROKERS, NAMESRV, FakeCluster
from cometmq.admin import cluster, doctor, kv
from cometmq.admin.groups import members, progress
from cometmq.admin.rows import is_failure
from cometmq.admin.session import AdminConfig, AdminSession
from cometmq.errors import BadSetting, Malformed, Refused
from cometmq.protocol.bodies.consumer import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    ProducerConnection,
)
from cometmq.protocol.bodies.heartbeat import MessageModel, Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.stats import ConsumedOffset, ConsumeStats
from cometmq.protocol.codes import RequestCode, ResponseCode

QUEUE = MessageQueue("T", "a", 0)


def member(client_id):
    return Connection(client_id=client_id, client_addr="127.0.0.1:1", language="JAVA", version=407)


def online(*client_ids, model=MessageModel.CLUSTERING):
    return ConsumerConnection(connection_set=[*map(member, client_ids)], message_model=model)


def inside(*queues):
    return ConsumerRunningInfo(
        mq_table=dict.fromkeys(queues, ProcessQueueInfo()),
        subscription_set=[Subscription(topic="T", sub_string="*")],
    )


def cluster_at_work():
    cluster = FakeCluster("%RETRY%behind")
    place = ConsumedOffset(broker_offset=10, consumer_offset=3)
    stats = ConsumeStats(offset_table={QUEUE: place})
    cluster.answers(RequestCode.GET_CONSUME_STATS, stats)
    cluster.answers(RequestCode.GET_CONSUMER_CONNECTION_LIST, online("x@1"))
    return cluster


def asked(cluster, what, **given):
    async def story():
        async with cluster.session() as admin:
            return await what(admin, **given)

    return asyncio.run(story())


def watched(cluster):
    async def once(admin):
        (rows,) = [each async for each in progress.monitor(admin, rounds=1)]
        return rows

    return asked(cluster, once)


def test_how_far_a_group_is_while_a_broker_is_down():
    cluster = cluster_at_work()
    (row,) = asked(cluster, progress.of_groups)
    assert (row.count, row.diff_total, row.error) == (1, 7, None)
    (row,) = watched(cluster)
    assert (row.topic, row.members, row.undone, row.error) == ("T", 1, 7, None)
    assert not is_failure([row])
    cluster.down = {BROKERS["b"]}
    for rows in (asked(cluster, progress.of_groups), watched(cluster)):
        (row,) = rows
        assert (row.group, row.error) == ("behind", f"no connection to {BROKERS['b']}")
        assert is_failure(rows)
    assert asked(cluster, progress.of_groups)[0].diff_total is None
    assert watched(cluster)[0].undone is None


@pytest.mark.parametrize("more", [False, True])
def test_a_broker_that_is_down_is_one_row_of_the_cluster(more):
    found = FakeCluster()
    told = {"msgPutTotalTodayMorning": "3", "msgPutTotalTodayNow": "5"}
    found.answers(RequestCode.GET_BROKER_RUNTIME_INFO, {"table": told})
    found.down = {BROKERS["b"]}

    async def once(admin):
        (rows,) = [each async for each in cluster.nodes(admin, more=more)]
        return rows

    up, down = asked(found, once)
    assert (up.broker_name, up.error, down.broker_name) == ("a", None, "b")
    assert down.error == f"no connection to {BROKERS['b']}"
    assert is_failure([down]) and not is_failure([up])
    if more:
        assert (up.in_total_today, down.in_total_today) == (2, None)


def test_a_broker_that_knows_no_such_producers_is_passed_over_and_no_other():
    cluster = FakeCluster()
    known = ProducerConnection(connection_set=[member("x@1")])
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    cluster.answers(code, known, at=BROKERS["a"])
    cluster.answers(code, ResponseCode.SYSTEM_ERROR, at=BROKERS["b"])
    assert [each.client_id for each in asked(cluster, members.producers, group="p", topic="T")] == [
        "x@1"
    ]
    cluster.answers(code, ResponseCode.NO_PERMISSION, at=BROKERS["b"])
    with pytest.raises(Refused, match="NO_PERMISSION"):
        asked(cluster, members.producers, group="p", topic="T")


def state_of(answers, model=MessageModel.CLUSTERING):
    """What is told of a group with these members, by what each says of itself."""
    cluster = FakeCluster()
    cluster.answers(RequestCode.GET_CONSUMER_CONNECTION_LIST, online(*answers, model=model))
    cluster.answers(RequestCode.GET_CONSUMER_RUNNING_INFO, lambda ask: answers[ask.client_id])
    found = asked(cluster, members.status, group="g")
    return found.subscriptions, found.rebalance


def test_members_that_do_not_answer_agree_to_nothing():
    silent = ResponseCode.CONSUME_MSG_TIMEOUT
    same, shared = "Same subscription in the same group of consumer", "Rebalance OK"
    assert state_of({"x@1": inside(QUEUE), "y@2": inside()}) == (same, shared)
    unknown = "Unknown: no member answers"
    assert state_of({"x@1": silent, "y@2": silent}) == (unknown, unknown)
    some = ", of the 1 of 2 members that answer"
    assert state_of({"x@1": inside(QUEUE), "y@2": silent}) == (same + some, shared + some)


def test_queues_of_a_broadcasting_group_have_many_owners():
    both = {"x@1": inside(QUEUE), "y@2": inside(QUEUE)}
    assert state_of(both)[1].startswith("Queues with two owners")
    assert state_of(both, MessageModel.BROADCASTING)[1].startswith("Not shared")


def test_a_second_port_that_speaks_otherwise_does_not_end_the_doctor():
    cluster = FakeCluster()
    strange = Malformed("that is no frame")
    cluster.answers(RequestCode.GET_BROKER_RUNTIME_INFO, strange, at="127.0.0.1:10909")
    findings = asked(cluster, doctor.examine)
    assert [(each.address, each.state) for each in findings] == [
        (NAMESRV, "ok"),
        (BROKERS["a"], "ok"),
        ("127.0.0.1:10909", "warning"),
        (BROKERS["b"], "ok"),
    ]


def test_what_all_name_servers_should_do_needs_one():
    async def story():
        async with AdminSession(AdminConfig()) as admin:
            await kv.update(admin, namespace="n", key="k", value="v")

    with pytest.raises(BadSetting, match="NAMESRV_ADDR"):
        asyncio.run(story())
