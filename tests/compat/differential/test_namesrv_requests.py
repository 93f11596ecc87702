"""The same requests, good and bad, get the same answers from our name server and from Apache's.

As `test_broker_requests.py`, for the name server: routes, clusters, topics and configuration items
are read back over the wire.
"""

import asyncio
from functools import partial
from unittest.mock import MagicMock

import pytest

from cometmq.namesrv.handlers import build_routes
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.deviations import NAMESRV
from compat.differential.namesrv_world import NamesrvWorld, namesrv_requests
from compat.differential.requests import Case, cases_of, head_cases
from compat.differential.runner import Runner
from compat.differential.verdict import Verdict, is_listed
from peers.apache import ApacheNamesrv
from peers.comet import CometNamesrv

_UNKNOWN = (0, -1, 9999, RequestCode.SEND_MESSAGE, RequestCode.GET_BROKER_CONFIG)


def cases():
    good, nothing = namesrv_requests(), MagicMock()
    found = []
    for code, route in sorted(build_routes(nothing, nothing, nothing, nothing).items()):
        fields, body = good.get(code, ({}, b""))
        own = cases_of(code, route.header, fields, body)
        found += [case for case in own if not case.second_port]
    for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO):
        found += head_cases(code, *good.get(code, ({}, b"")))
    # Harmless: Apache's name server reads it only at its start.
    protected = b"rocketmqHome=/nowhere"
    code = RequestCode.UPDATE_NAMESRV_CONFIG
    found.append(Case(code, "body", "protected setting", None, protected))
    return found + [Case(code, "code", "unknown", {}) for code in _UNKNOWN]


async def compare(apache, ours):
    async with Runner(NamesrvWorld(), apache.port, ours.port) as runner:
        found = await runner.run(cases(), partial(is_listed, NAMESRV))
    return Verdict(NAMESRV, found), runner.compared


@pytest.mark.apache
@pytest.mark.timeout(900)
def test_both_name_servers_answer_and_keep_the_same(
    apache_class_path, tmp_path, capsys, record_property
):
    with CometNamesrv(tmp_path / "ours") as ours:
        apache = ApacheNamesrv(tmp_path / "apache")
        try:
            apache.start()
            verdict, compared = asyncio.run(compare(apache, ours))
        finally:
            apache.kill()
    record_property("name server", verdict.report(compared))
    with capsys.disabled():
        print(f"\nname server: {verdict.report(compared)}")
    assert not verdict.unlisted, "\n".join(map(str, verdict.unlisted))
    assert not verdict.stale, "\n".join(verdict.stale)
