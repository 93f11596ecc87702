"""Consumers of ours and of Apache's in one group: each queue has one owner, nothing is lost."""

import asyncio
from contextlib import ExitStack
from itertools import chain, pairwise

import pytest

from cometmq.client.consumer.shared.allocate import (
    ConsistentHash,
    clients_in_order,
    queues_in_order,
)
from cometmq.protocol.bodies.queues import MessageQueue
from peers.clusters import CHOSEN, KINDS, QUICK
from peers.comet import CometNamesrv
from peers.members import JavaMember, PythonMember, wait_until
from peers.raw import RawClient

pytestmark = pytest.mark.apache

ROOM = "room1"
BROKER = f"{ROOM}@a"  # a name that every strategy can share queues of
QUEUES = [f"{BROKER}/{number}" for number in range(16)]
STRATEGIES = ["AVG", "CIRCLE", "HASH", "ROOM"]


@pytest.fixture(scope="module", params=[kind for kind in CHOSEN if len(KINDS[kind]) == 1])
def servers(request, tmp_path_factory):
    """A name server of ours and a broker."""
    (make,) = KINDS[request.param]
    folder = tmp_path_factory.mktemp("mixed-group")
    with CometNamesrv(folder / "namesrv") as namesrv:
        broker = make(folder / "broker", namesrv=namesrv.address, name=BROKER, conf=QUICK)
        broker.start()
        yield namesrv.address, broker
        broker.kill()


@pytest.fixture(scope="module")
def members(servers):
    """Two of each, for all tests but those that kill."""
    with ExitStack() as started:
        yield [started.enter_context(each) for each in two_of_each(servers[0])]


def two_of_each(namesrv):
    kinds = (("java", JavaMember), ("python", PythonMember))
    return [make(f"{kind}-{number}", namesrv) for kind, make in kinds for number in (1, 2)]


def make_topic(broker, topic):
    async def made():
        async with RawClient(broker.address) as raw:
            await raw.make_topic(topic, len(QUEUES))

    asyncio.run(made())


def send(broker, topic, first, count):
    """To all queues in turn: bodies are numbers from `first` on."""

    async def sent():
        async with RawClient(broker.address) as raw:
            for number in range(first, first + count):
                await raw.send(topic, number % len(QUEUES), str(number).encode())

    asyncio.run(sent())


def shares(members, group, sizes=None):
    """Who has what, once every queue has exactly one owner, and each member so many if told.

    Not told, the group may not be at rest: before one that is new is heard of, the others have all.
    """

    def at_rest():
        found = {member.name: member.share(group) for member in members}
        is_fair = sizes is None or {name: len(share) for name, share in found.items()} == sizes
        return found if is_fair and sorted(chain(*found.values())) == sorted(QUEUES) else None

    # The locks of who left may stay for a minute.
    return wait_until(at_rest, "queues with one owner each", 120)


def sizes_of(topic, strategy, clients):
    """How many queues each member has in the end; hashes share by chance, fairly do the others."""
    if strategy != "HASH":
        return dict.fromkeys(clients, len(QUEUES) // len(clients))
    queues = queues_in_order(MessageQueue(topic, BROKER, number) for number in range(len(QUEUES)))
    everybody = clients_in_order(clients.values())
    return {
        name: len(ConsistentHash().allocate(client, queues, everybody))
        for name, client in clients.items()
    }


def bodies(members, group):
    return [line["body"] for each in members for line in each.consumed() if line["group"] == group]


def all_consumed(members, group, count):
    wait_until(lambda: len(set(bodies(members, group))) == count, f"{count} messages")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_queue_has_one_owner(servers, members, strategy):
    _, broker = servers
    topic, group = f"Mixed-{strategy}", f"mixed-{strategy}"
    make_topic(broker, topic)
    clients = {member.name: member.join(topic, group, strategy, ROOM) for member in members}
    shares(members, group, sizes_of(topic, strategy, clients))
    send(broker, topic, 0, 160)
    all_consumed(members, group, 160)
    assert len(bodies(members, group)) == 160, "at rest nothing comes twice"
    gone = members[1::2]
    for member in gone:
        member.leave(group)
    shares(members[::2], group)
    send(broker, topic, 160, 160)
    all_consumed(members, group, 320)
    for member in members[::2]:
        member.leave(group)


def test_queues_that_are_chosen_by_hand(servers, members):
    _, broker = servers
    topic, group = "Mixed-CONFIG", "mixed-CONFIG"
    make_topic(broker, topic)
    for rank, member in enumerate(members):
        member.join(topic, group, "CONFIG", ",".join(QUEUES[rank::4]))
    found = shares(members, group)
    assert [sorted(share) for share in found.values()] == [
        sorted(QUEUES[rank::4]) for rank in range(4)
    ]
    send(broker, topic, 0, 64)
    all_consumed(members, group, 64)
    for member in members:
        member.leave(group)


def test_in_order_no_queue_is_run_by_two(servers, members):
    """One of each leaves in the middle, and comes back."""
    _, broker = servers
    topic, group = "Mixed-orderly", "mixed-orderly"
    make_topic(broker, topic)
    for member in members:
        member.join(topic, group, order="orderly", sleep_ms=2)
    shares(members, group)
    send(broker, topic, 0, 320)
    for member in members[1::2]:
        member.leave(group)
    send(broker, topic, 320, 320)
    shares(members[::2], group)
    for member in members[1::2]:
        member.join(topic, group, order="orderly", sleep_ms=2)
    send(broker, topic, 640, 320)
    shares(members, group)
    all_consumed(members, group, 960)
    lines = [line for each in members for line in each.consumed() if line["group"] == group]
    assert_no_overlap(lines)
    for member in members:
        member.leave(group)


def assert_no_overlap(lines):
    queues = {}
    for line in lines:
        queues.setdefault((line["broker"], line["queue"]), []).append(line)
    for calls in queues.values():
        calls.sort(key=lambda call: (call["begun"], call["ended"]))
        for one, other in pairwise(calls):
            assert one["ended"] <= other["begun"], (one, other)


def topic_and_group(strategy):
    return f"Killed-{strategy}", f"killed-{strategy}"


@pytest.fixture(scope="module")
def killed(servers):
    """Two of each in a group for every strategy; one of each was killed amid its messages."""
    namesrv, broker = servers
    with ExitStack() as started:
        members = [started.enter_context(each) for each in two_of_each(namesrv)]
        sizes = {}
        for strategy in (*STRATEGIES, "CONFIG"):
            topic, group = topic_and_group(strategy)
            make_topic(broker, topic)
            clients = {}
            for rank, member in enumerate(members):
                setting = ",".join(QUEUES[rank::4]) if strategy == "CONFIG" else ROOM
                clients[member.name] = member.join(topic, group, strategy, setting, sleep_ms=50)
            sizes[group] = sizes_of(topic, strategy, clients)
        for group in sizes:
            shares(members, group, sizes[group])
        for strategy in (*STRATEGIES, "CONFIG"):
            send(broker, topic_and_group(strategy)[0], 0, 160)
        for member in members[1::2]:
            member.kill()
        for strategy in (*STRATEGIES, "CONFIG"):
            send(broker, topic_and_group(strategy)[0], 160, 160)
        yield members


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_those_who_are_killed_the_others_are_heirs(killed, strategy):
    _, group = topic_and_group(strategy)
    all_consumed(killed, group, 320)
    shares(killed[::2], group)


def test_queues_chosen_by_hand_have_no_heir(killed):
    """Only the messages wait whose queues were chosen for those who were killed."""
    _, group = topic_and_group("CONFIG")
    dead = [*QUEUES[1::4], *QUEUES[3::4]]
    waiting = {str(number) for number in range(160, 320) if QUEUES[number % 16] in dead}
    of_the_living = {str(number) for number in range(320) if QUEUES[number % 16] not in dead}
    wait_until(lambda: of_the_living <= set(bodies(killed, group)), "messages of the living")
    found = {member.name: sorted(member.share(group)) for member in killed[::2]}
    assert list(found.values()) == [sorted(QUEUES[rank::4]) for rank in (0, 2)]
    assert not waiting & set(bodies(killed, group))
