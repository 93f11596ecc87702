"""The same requests, good and bad, get the same answers from our broker and from Apache's.

Every code of the route table, every field of its header, and its body: absent, empty, out of range,
of another type, unknown names. Compared are the code, the fields and the body of the answer, what
the broker asks its clients, its tables and its queues with their messages. A difference must stand
in `cometmq.protocol.deviations`. `COMETMQ_DIFFERENTIAL=full` tries more values.
"""

import asyncio
from functools import partial
from unittest.mock import MagicMock

import msgspec
import pytest
from msgspec.inspect import type_info

from cometmq.broker.config import BrokerConfig
from cometmq.broker.handlers.routes import build_routes
from cometmq.broker.tables.identity import identity_of
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.deviations import BROKER
from cometmq.protocol.flags import MessageFlag
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
    _CODE.SEND_MESSAGE, _CODE.SEND_REPLY_MESSAGE,
    _CODE.UPDATE_AND_CREATE_ACL_CONFIG, _CODE.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
}  # fmt: skip
# Three pairs of brokers: each case makes a topic, and a broker writes all of them at each change.
_SENDS = {
    _CODE.SEND_MESSAGE, _CODE.SEND_MESSAGE_V2, _CODE.SEND_BATCH_MESSAGE, _CODE.SEND_REPLY_MESSAGE,
    _CODE.SEND_REPLY_MESSAGE_V2,
}  # fmt: skip
_CONSUMERS = {
    _CODE.PULL_MESSAGE, _CODE.HEART_BEAT, _CODE.CONSUMER_SEND_MSG_BACK, _CODE.END_TRANSACTION,
    _CODE.UPDATE_CONSUMER_OFFSET, _CODE.UNREGISTER_CLIENT, _CODE.LOCK_BATCH_MQ,
    _CODE.UNLOCK_BATCH_MQ, _CODE.GET_CONSUMER_LIST_BY_GROUP,
}  # fmt: skip
_HEADS = (_CODE.SEND_MESSAGE_V2, _CODE.GET_CONSUMER_LIST_BY_GROUP, _CODE.GET_ALL_TOPIC_CONFIG)
_PROTECTED = b"brokerIP2=127.0.0.9"  # harmless: only slaves would use it
_V6_FLAGS = MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6
_TOO_LONG = "inner properties: too long"
_HARM_ATTEMPTS = 3  # on a busy machine the harm may show only at a later attempt
_PARTS = ("sends", "consumers", "administration")


def part_of(code):
    return _PARTS[0] if code in _SENDS else _PARTS[1] if code in _CONSUMERS else _PARTS[2]


def routes():
    """The table, whose handlers are never called."""
    somebody = identity_of(BrokerConfig(broker_name="b", broker_ip1="127.0.0.1"), 10911)
    return build_routes(MagicMock(context=MagicMock(identity=somebody)))


def cases(part):
    good, table = broker_requests(), routes()
    found = [*property_cases(), *unit_mode_cases(), *pull_cases(), *batch_cases()]
    for code, route in sorted(table.items()):
        fields, body = good.get(code, ({}, b""))
        found += cases_of(code, route.header, fields, body, brief=code in _BRIEF)
    found.append(Case(_CODE.UPDATE_BROKER_CONFIG, "body", "protected setting", None, _PROTECTED))
    for code in _HEADS:
        found += head_cases(code, *good.get(code, ({}, b"")))
    for code in (*sorted(set(RequestCode) - table.keys()), 0, -1, 9999):
        found += [Case(code, "code", "unknown", {}, second_port=port) for port in (False, True)]
    return [case for case in found if part_of(case.code) == part and not is_harmful(case)]


def is_harmful(case):
    """Apache's broker stores then what it cannot read, and may put no message in a queue again."""
    value = (case.fields or {}).get(case.field, "0")
    is_number = isinstance(value, str) and value.lstrip("-").isdigit()
    is_flag = case.code in _SENDS and case.field in ("f", "sysFlag") and is_number
    return case.how == _TOO_LONG or (is_flag and bool(int(value) & _V6_FLAGS))


def harmful_cases(part):
    """One of each kind, to be run last, the worst at the end."""
    if part != part_of(_CODE.SEND_BATCH_MESSAGE):
        return []
    (too_long,) = (case for case in batch_cases() if is_harmful(case))
    return [next(filter(is_harmful, property_cases())), too_long]


async def compare(apache, ours, part):
    """Rows of other parts are not looked at."""
    listed = [
        msgspec.structs.replace(row, codes=codes)
        for row in BROKER
        if (codes := tuple(code for code in row.codes if part_of(code) == part)) or not row.codes
    ]
    async with Runner(BrokerWorld(), apache.port, ours.port) as runner:
        found = await runner.run(cases(part), partial(is_listed, listed))
        for case in harmful_cases(part):
            for _ in range(_HARM_ATTEMPTS):
                shown = await runner.run([case], partial(is_listed, listed))
                found += shown
                if shown:
                    break
    return Verdict(listed, found), runner


def test_every_required_field_has_a_good_value():
    """A new code with required fields needs its good request, or its cases would all be refused."""
    good = broker_requests()
    for code, route in routes().items():
        fields, _ = good.get(code, ({}, b""))
        names = {each.encode_name for each in type_info(route.header).fields if each.required}
        assert names <= fields.keys(), RequestCode(code).name


@pytest.mark.apache
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", _PARTS)
def test_both_brokers_answer_and_store_the_same(
    apache_class_path, tmp_path, capsys, record_property, part
):
    with CometNamesrv(tmp_path / "namesrv") as namesrv, CometNamesrv(tmp_path / "other") as other:
        apache = ApacheBroker(tmp_path / "apache", namesrv=other.address, conf=_CONF)
        ours = CometBroker(tmp_path / "ours", namesrv=namesrv.address, conf=_CONF)
        try:
            with ours:
                apache.start()
                verdict, runner = asyncio.run(compare(apache, ours, part))
        finally:
            apache.kill()  # an orderly stop takes seconds, and nobody looks at its folder again
    record_property(part, verdict.report(runner.compared))
    with capsys.disabled():
        print(f"\nbroker, {part}: {verdict.report(runner.compared)}")
    assert not verdict.unlisted, "\n".join(map(str, verdict.unlisted))
    assert not verdict.stale, "\n".join([*verdict.stale, *runner.equal])
