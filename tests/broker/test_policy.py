"""The policy of every row: permission, writes, and what a slave answers."""

import asyncio

import pytest

from broker.test_every_code import DECLINED, TABLE, furnish
from broker.whole import open_whole, raw_fields
from cometmq.protocol.bodies.heartbeat import CheckClient, ConsumerData, Heartbeat, ProducerData
from cometmq.protocol.bodies.queues import LockQueues, MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.remoting.access import Action, Need, Resource
from cometmq.remoting.dispatch import Call, Dispatcher, Reply, Role

IN_BODY = "SUB on each topic and group in the body"
NEEDS = {
    "PUB topic": {10, 310, 320, 324, 325},
    "SUB topic, SUB group": {11, 14, 15, 303},
    "SUB topic": {12},
    "PUB or SUB topic": {29, 30, 31, 32, 202},
    "SUB group": {35, 38, 203, 208},
    "SUB group, SUB on the topic of the stored message": {36},
    "SUB on the topic of the stored message": {33},
    "PUB on the topic of the stored message": {37},
    IN_BODY: {34, 41, 42, 46},
    "replica": {21, 28, 43, 45, 201},
    "admin": {
        17, 25, 26, 50, 51, 52, 53, 54, 200, 204, 207, 215, 222, 223, 300, 301, 302, 305, 306, 307,
        308, 309, 314, 315, 316, 317, 321, 323, 328, 329,
    },
}  # fmt: skip
WRITES = {
    10, 11, 15, 17, 25, 34, 35, 36, 37, 41, 42, 200, 207, 215, 222, 306, 310, 314, 316, 320, 323,
    324, 325, 329,
}  # fmt: skip
NO_SEND = "service not available now. It may be caused by one of the following reasons: "
NO_CHANGE = (
    "Can't modify topic or subscription group from slave broker, please execute it from "
    "master broker."
)
SLAVE_REFUSES = {
    **dict.fromkeys((10, 310, 320), (14, NO_SEND)),
    **dict.fromkeys((17, 215, 200, 207), (1, NO_CHANGE)),
    36: (1, "SERVICE_NOT_AVAILABLE"),
    37: (11, "not set any response code"),
}


def routes():
    async def read():
        async with open_whole() as whole:
            return whole.routes

    return asyncio.run(read())


def test_every_row_has_its_policy():
    table = routes()
    found = {}
    for code, route in table.items():
        found.setdefault(str(route.access), set()).add(int(code))
    assert found == NEEDS
    assert {code for code, route in table.items() if route.writes} == WRITES
    assert {code for code, route in table.items() if route.on_slave} == set(SLAVE_REFUSES)
    assert {code for code, route in table.items() if not route.vip_port} == {11}


@pytest.mark.parametrize("code", TABLE, ids=lambda code: code.name)
def test_a_slave_answers_or_refuses_by_the_table(code):
    async def story():
        async with open_whole(enable_property_filter=True) as whole:
            fields, body = (await furnish(whole)).get(code, ({}, b""))
            slave = Dispatcher(whole.routes, whole.lanes, role=Role(is_slave=True))
            before = whole.state()
            command = Command(code=code, language="JAVA", fields=raw_fields(fields), body=body)
            outcome = slave.answer(Call(command, whole.link, whole.clock.wall_ms()))
            reply = outcome if isinstance(outcome, Reply) else await outcome
            if code in SLAVE_REFUSES:
                refused, remark = SLAVE_REFUSES[code]
                assert reply.code == refused
                assert str(reply.remark).startswith(remark)
                assert whole.state() == before
            elif code not in DECLINED:
                assert (reply.code, reply.remark) == (0, None)

    asyncio.run(story())


def sub(kind, *names):
    return {Need(Action.SUB, kind, name) for name in names}


def test_topics_and_groups_in_bodies_are_needed():
    table = routes()

    def needs(code, body):
        return set(table[code].access.needs(NoHeader(), dumps(body)))

    beat = Heartbeat(
        client_id="c",
        producer_data_set=[ProducerData(group_name="P")],
        consumer_data_set=[
            ConsumerData(group_name="G", subscription_data_set=[subscription_of("T", "*")]),
            ConsumerData(group_name="H", subscription_data_set=[subscription_of("U", "*")]),
        ],
    )
    both = sub(Resource.GROUP, "G", "H") | sub(Resource.TOPIC, "T", "U")
    assert needs(RequestCode.HEART_BEAT, beat) == both
    queues = [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1), MessageQueue("U", "b", 0)]
    locks = LockQueues(client_id="c", consumer_group="G", mq_set=queues)
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert needs(code, locks) == sub(Resource.GROUP, "G") | sub(Resource.TOPIC, "T", "U")
    check = CheckClient(client_id="c", group="G", subscription_data=subscription_of("T", "a"))
    wanted = sub(Resource.GROUP, "G") | sub(Resource.TOPIC, "T")
    assert needs(RequestCode.CHECK_CLIENT_CONFIG, check) == wanted
    assert needs(RequestCode.CHECK_CLIENT_CONFIG, CheckClient()) == set()
