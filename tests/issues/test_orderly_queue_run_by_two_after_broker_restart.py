"""After a broker restart, the first member to reconnect got the locks of the other members.

The other members still consumed those queues: two members of an orderly group ran one queue.
`COMETMQ_LOCK_RESTARTS` sets the number of restarts of each kind (default 2); if it is set, a
group of two Java members is tested too.
"""

import asyncio
import os
import signal
import threading
from contextlib import ExitStack
from itertools import pairwise

import pytest

from clients_live.consuming import make_topic, named
from cometmq.protocol.bodies.queues import LockedQueues, LockQueues, MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import dumps, loads
from peers.clusters import QUICK, running
from peers.members import JavaMember, PythonMember, wait_until
from peers.raw import RawClient

RESTARTS = int(os.environ.get("COMETMQ_LOCK_RESTARTS", "2"))
SIGNALS = [signal.SIGKILL, signal.SIGTERM]
QUEUES = 4
CALL_MS = 150  # long enough for a second member to begin a call of the same queue
MESSAGES_A_PHASE = 20


async def lock(cluster, group, client_id, queues):
    body = dumps(LockQueues(client_id=client_id, consumer_group=group, mq_set=queues))
    async with RawClient(cluster.broker.address) as raw:
        reply = await raw.ask(RequestCode.LOCK_BATCH_MQ, None, body)
        return loads(reply.body, LockedQueues).locked


async def unlock(cluster, group, client_id, queues):
    body = dumps(LockQueues(client_id=client_id, consumer_group=group, mq_set=queues))
    async with RawClient(cluster.broker.address) as raw:
        await raw.ask(RequestCode.UNLOCK_BATCH_MQ, None, body)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running("cometmq", tmp_path_factory.mktemp("restarted"), QUICK) as servers:
        yield servers


def restart(cluster, number):
    cluster.broker.stop(number)
    cluster.broker.start()


@pytest.mark.parametrize("number", SIGNALS)
def test_only_the_holder_gets_the_lock_after_a_restart(cluster, number):
    topic, group = named("Locked"), named("lockers")
    asyncio.run(make_topic(cluster, topic, 3))
    held, released, free = (MessageQueue(topic, "broker-a", each) for each in range(3))
    assert asyncio.run(lock(cluster, group, "a", [held])) == [held]
    assert asyncio.run(lock(cluster, group, "a", [released])) == [released]
    asyncio.run(unlock(cluster, group, "a", [released]))
    assert asyncio.run(lock(cluster, group, "b", [released])) == [released]
    restart(cluster, number)
    assert asyncio.run(lock(cluster, group, "b", [held, released, free])) == [released, free]
    assert asyncio.run(lock(cluster, group, "a", [held, released, free])) == [held]


class Sender:
    """Sends to all queues in turn until stopped; a send that fails is retried."""

    def __init__(self, cluster, topic):
        self._cluster, self._topic = cluster, topic
        self._end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.sent = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join(60)

    async def _run(self):
        async with RawClient(self._cluster.broker.address) as raw:
            while not self._end.is_set():
                try:
                    await raw.send(self._topic, self.sent % QUEUES, str(self.sent).encode())
                    self.sent += 1
                except Exception as error:  # noqa: BLE001 - the broker is being restarted
                    self.last_error = error
                await asyncio.sleep(CALL_MS / QUEUES / 1000)


def overlaps(calls):
    queues = {}
    for call in calls:
        queues.setdefault(call["queue"], []).append(call)
    found = []
    for each in queues.values():
        each.sort(key=lambda call: (call["begun"], call["ended"]))
        found += [(one, two) for one, two in pairwise(each) if one["ended"] > two["begun"]]
    return found


def check_restarts(cluster, kinds):
    topic, group = named("Restarted"), named("restarted")
    asyncio.run(make_topic(cluster, topic, QUEUES))
    with ExitStack() as stack:
        members = [
            stack.enter_context(kind(name, cluster.namesrv.address))
            for kind, name in zip(kinds, "ab", strict=True)
        ]
        for member in members:
            member.join(topic, group, order="orderly", sleep_ms=CALL_MS)
        wait_until(lambda: [len(each.share(group)) for each in members] == [2, 2], "shares")
        stack.enter_context(Sender(cluster, topic))

        def calls():
            return [line for each in members for line in each.consumed() if line["group"] == group]

        def wait_for_more():
            for member in members:
                wanted = len(member.consumed()) + MESSAGES_A_PHASE
                wait_until(lambda each=member, count=wanted: len(each.consumed()) >= count, "calls")

        wait_for_more()
        for number in SIGNALS * RESTARTS:
            restart(cluster, number)
            wait_for_more()
        found = calls()
        assert len(found) > 2 * MESSAGES_A_PHASE * len(SIGNALS) * RESTARTS
        assert overlaps(found) == []
        for member in members:
            member.leave(group)


@pytest.mark.timeout(400)
def test_no_queue_is_run_by_two_of_our_members(cluster):
    check_restarts(cluster, [PythonMember, PythonMember])


@pytest.mark.apache
@pytest.mark.timeout(400)
def test_no_queue_is_run_by_a_java_member_and_one_of_ours(cluster):
    check_restarts(cluster, [JavaMember, PythonMember])


@pytest.mark.apache
@pytest.mark.timeout(2000)
@pytest.mark.skipif("COMETMQ_LOCK_RESTARTS" not in os.environ, reason="a campaign")
def test_no_queue_is_run_by_two_java_members(cluster):
    check_restarts(cluster, [JavaMember, JavaMember])
