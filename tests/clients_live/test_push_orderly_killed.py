"""An orderly member dies: its locks live on for a minute, so this takes longer than that."""

import asyncio
from contextlib import ExitStack
from itertools import pairwise

import pytest

from clients_live.consuming import make_topic, named, send
from peers.clusters import QUICK, running
from peers.members import PythonMember, wait_until


def lines_of(members, group):
    return [line for each in members for line in each.consumed() if line["group"] == group]


@pytest.mark.timeout(600)
def test_an_orderly_consumer_is_killed(tmp_path):
    """Nobody runs its queues before its locks have expired, and nothing is passed over."""
    topic, group = named("Broken"), named("orderly-mortal")
    with running("cometmq", tmp_path, QUICK) as servers, ExitStack() as stack:
        asyncio.run(make_topic(servers, topic, 4))
        members = [
            stack.enter_context(PythonMember(name, servers.namesrv.address)) for name in "abc"
        ]
        for member in members:
            member.join(topic, group, order="orderly", sleep_ms=5)
        # At rest: while the first one alone has been counted, it has them all.
        wait_until(
            lambda: sorted(len(each.share(group)) for each in members) == [1, 1, 2], "shares", 120
        )
        asyncio.run(send(servers, topic, [f"a{number}" for number in range(200)], queues=4))
        members[0].kill()
        asyncio.run(send(servers, topic, [f"b{number}" for number in range(200)], queues=4))
        wait_until(
            lambda: len({line["body"] for line in lines_of(members, group)}) == 400,
            "all messages", 150,
        )  # fmt: skip
        queues = {}
        for line in lines_of(members, group):
            queues.setdefault(line["queue"], []).append(line)
        for calls in queues.values():
            calls.sort(key=lambda call: (call["begun"], call["ended"]))
            for one, other in pairwise(calls):
                assert one["ended"] <= other["begun"]
                assert other["offset"] <= one["offset"] + 1, "nothing is passed over"
