"""The same requests, good and bad, get the same answers from our broker and from Apache's.

Every code of the route table, every field of its header, and its body: absent, empty, out of range,
of another type, unknown names. Compared are the code, the fields and the body of the answer, what
the broker asks its clients, its tables and its queues with their messages. A difference must stand
in `cometmq.protocol.deviations`. `COMETMQ_DIFFERENTIAL=full` tries more values.
"""

import asyncio
from functools import partial
from unittest.mock import MagicMock

import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.handlers.routes import build_routes
from cometmq.broker.identity import identity_of
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.deviations import BROKER
from compat.differential.broker_world import BrokerWorld
from compat.differential.good import (
    batch_cases,
    broker_requests,
    property_cases,
    pull_cases,
    unit_mode_cases,
)
from compat.differential.requests import Case, cases_of, head_cases
from compat.differential.runner import Runner
from compat.differential.verdict import Verdict, is_listed
from peers.apache import ApacheBroker
from peers.comet import CometBroker, CometNamesrv

_CODE = RequestCode
_CONF = {
    # Nothing is delivered late, checked or refused for being slow while the test looks.
    "messageDelayLevel": " ".join(["10h"] * 18),
    "transactionTimeOut": 36_000_000,
    "transactionCheckInterval": 36_000_000,
    "waitTimeMillsInSendQueue": 60_000,
    "waitTimeMillsInPullQueue": 60_000,
    "waitTimeMillsInTransactionQueue": 60_000,
    "osPageCacheBusyTimeOutMills": 60_000,
    "enablePropertyFilter": "true",
}
# Codes whose headers and handlers are those of others, or that are declined whatever they ask.
_BRIEF = {
    _CODE.SEND_MESSAGE, _CODE.SEND_REPLY_MESSAGE, _CODE.UNLOCK_BATCH_MQ,
    _CODE.UPDATE_AND_CREATE_ACL_CONFIG, _CODE.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
}  # fmt: skip
_WHO_ASKS = range(39, 41)


def routes():
    """The table, whose handlers are never called."""
    somebody = identity_of(BrokerConfig(broker_name="b", broker_ip1="127.0.0.1"), 10911)
    return build_routes(MagicMock(identity=somebody))


def cases():
    good, table = broker_requests(), routes()
    found = [*property_cases(), *unit_mode_cases(), *pull_cases(), *batch_cases()]
    for code, route in sorted(table.items()):
        fields, body = good.get(code, ({}, b""))
        found += cases_of(code, route.header, fields, body, brief=code in _BRIEF)
    for code in (_CODE.SEND_MESSAGE_V2, _CODE.GET_ALL_TOPIC_CONFIG):
        found += head_cases(code, *good.get(code, ({}, b"")))
    for code in sorted(set(RequestCode) - table.keys()) + [0, -1, 9999]:
        for port in (False, True):
            found.append(Case(code, "code", "unknown", {}, second_port=port))
    return found


async def compare(apache, ours):
    async with Runner(BrokerWorld(), apache.port, ours.port) as runner:
        found = await runner.run(cases(), partial(is_listed, BROKER))
    return Verdict(BROKER, found), runner.compared


def test_every_required_field_has_a_good_value():
    """A new code with required fields needs its good request, or its cases would all be refused."""
    good = broker_requests()
    for code, route in routes().items():
        fields, _ = good.get(code, ({}, b""))
        names = {each.encode_name for each in _fields_of(route.header) if each.required}
        assert names <= fields.keys(), RequestCode(code).name


def _fields_of(header):
    from msgspec.inspect import type_info

    return type_info(header).fields


@pytest.mark.apache
@pytest.mark.timeout(900)
def test_both_brokers_answer_and_store_the_same(apache_class_path, tmp_path, capsys):
    with CometNamesrv(tmp_path / "namesrv") as namesrv, CometNamesrv(tmp_path / "other") as other:
        apache = ApacheBroker(tmp_path / "apache", namesrv=other.address, conf=_CONF)
        ours = CometBroker(tmp_path / "ours", namesrv=namesrv.address, conf=_CONF)
        try:
            with ours:
                apache.start()
                verdict, compared = asyncio.run(compare(apache, ours))
        finally:
            apache.kill()  # an orderly stop takes seconds, and nobody looks at its folder again
    with capsys.disabled():
        print(f"\nbroker: {verdict.report(compared)}")
    assert not verdict.unlisted, "\n".join(map(str, verdict.unlisted))
    assert not verdict.stale, "\n".join(verdict.stale)
