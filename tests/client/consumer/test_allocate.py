"""Who gets which queue; the random comparison with Java is in compat/."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.shared.allocate import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    clients_in_order,
    queues_in_order,
)
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import machine_room
from peers.clients import allocated
from protocol import golden

SHARING = [
    Averagely(), AveragelyByCircle(), ConsistentHash(),
    MachineRoomNearby(Averagely(), lambda queue: queue.broker_name, lambda client: client[0]),
]  # fmt: skip
groups = st.lists(st.text("abc123", min_size=1, max_size=6), min_size=1, max_size=12, unique=True)


def queues_of(counts):
    return [
        MessageQueue("orders", broker, number)
        for broker, count in zip("abcz", counts, strict=False)
        for number in range(count)
    ]


@golden.each("clients", "allocate/")
def test_as_java(entry):
    assert allocated(entry["value"]) == entry["value"]["answer"]


@pytest.mark.parametrize("strategy", SHARING, ids=lambda strategy: strategy.name)
@given(groups, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_every_queue_has_exactly_one_owner(strategy, clients, counts):
    queues, clients = queues_of(counts), clients_in_order(clients)
    owned = [queue for client in clients for queue in strategy.allocate(client, queues, clients)]
    assert sorted(owned) == queues


@given(groups, st.integers(1, 30))
def test_shares_of_the_averages_differ_by_one_at_most(clients, count):
    for strategy in (Averagely(), AveragelyByCircle()):
        shares = [len(strategy.allocate(one, queues_of([count]), clients)) for one in clients]
        assert max(shares) - min(shares) <= 1


@given(groups, st.integers(1, 30), st.data())
def test_on_the_ring_only_the_queues_of_who_left_change_hands(clients, count, data):
    queues, ring = queues_of([count]), ConsistentHash()
    left = data.draw(st.sampled_from(clients))
    rest = [client for client in clients if client != left]
    for client in rest:
        before = ring.allocate(client, queues, clients)
        assert set(before) <= set(ring.allocate(client, queues, rest))


@pytest.mark.parametrize("strategy", [*SHARING, ByMachineRoom(frozenset({"a"}))])
def test_who_is_no_member_gets_nothing(strategy):
    assert strategy.allocate("nobody", queues_of([4]), ["a1", "b1"]) == []


def test_chosen_queues_are_given_whoever_is_there():
    chosen = tuple(queues_of([2]))
    assert ByConfig(chosen).allocate("nobody", [], []) == chosen


@pytest.mark.parametrize(
    ("broker", "room"),
    [
        ("east@a", "east"),
        ("east", None),
        ("east@", None),
        ("@a", ""),
        ("a@b@c", None),
        ("a@b@", "a"),
    ],
)
def test_room_of_a_broker(broker, room):
    assert machine_room(broker) == room


def test_a_room_that_is_not_known():
    nearby = MachineRoomNearby(Averagely(), lambda queue: "", lambda client: "east")
    with pytest.raises(BadSetting, match="no machine room"):
        nearby.allocate("a", queues_of([1]), ["a"])


def test_a_ring_needs_points():
    with pytest.raises(BadSetting, match="from 1 to"):
        ConsistentHash(0)


def test_order_of_texts_is_that_of_utf_16():
    # As code points, the last but one would be the last.
    names = ["a", "b", "😀", "\uff5e"]
    assert clients_in_order(reversed(names)) == names
    queues = [MessageQueue("t", name, number) for name in names for number in (2, 10)]
    assert queues_in_order(reversed(queues)) == queues
