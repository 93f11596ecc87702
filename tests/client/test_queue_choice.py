"""Which queue is next."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.message import Message
from cometmq.client.send.selectors import (
    LATENCIES_MS,
    PENALTIES_MS,
    FaultTable,
    TopicQueues,
    at_random,
    by_hash,
    by_machine_room,
    by_sharding_key,
    penalty_of,
)
from cometmq.errors import NoRoute
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.testing.clock import ManualClock
from protocol import golden

MESSAGE = Message("orders", b"x")


def queues_of(*brokers, each=4):
    return [MessageQueue("orders", broker, number) for broker in brokers for number in range(each)]


def turns(*brokers, seed=1):
    return TopicQueues("orders", queues_of(*brokers), random.Random(seed))


def test_round_robin_from_a_random_start():
    starts = set()
    for seed in range(40):
        queues = turns("a", "b", seed=seed)
        taken = [queues.next() for _ in range(16)]
        assert taken[:8] == taken[8:]
        assert sorted(taken[:8]) == queues_of("a", "b")
        starts.add(taken[0])
    assert len(starts) == 8


@given(st.integers(0, 100), st.integers(1, 4), st.sampled_from("abz"))
def test_the_broker_that_failed_is_skipped(seed, brokers, failed):
    queues = turns(*"abcd"[:brokers], seed=seed)
    others = {queues.next(avoid=failed).broker_name for _ in range(50)}
    assert others == ({"a"} if brokers == 1 else set("abcd"[:brokers]) - {failed})


def test_no_queue_is_no_route():
    with pytest.raises(NoRoute, match="create the topic"):
        TopicQueues("orders", [], random.Random(1)).next()


def test_penalties():
    for latency_ms, penalty_ms in zip(LATENCIES_MS, PENALTIES_MS, strict=True):
        assert penalty_of(latency_ms) == penalty_ms
        assert penalty_of(latency_ms + 1) == penalty_ms
    assert (penalty_of(0), penalty_of(549), penalty_of(550)) == (0, 0, 30_000)
    assert penalty_of(14_999) == 180_000
    assert penalty_of(10**9) == 600_000


def test_a_slow_broker_is_avoided_for_a_while():
    clock = ManualClock()
    faults = FaultTable(clock)
    queues = turns("a", "b")
    faults.observe("a", 560)
    assert {queues.next(faults=faults).broker_name for _ in range(20)} == {"b"}
    clock._monotonic_ms += 29_999
    assert not faults.is_available("a")
    clock._monotonic_ms += 1
    assert faults.is_available("a")
    assert {queues.next(faults=faults).broker_name for _ in range(20)} == {"a", "b"}


def test_a_quick_send_ends_a_penalty():
    faults = FaultTable(ManualClock())
    faults.observe("a", 5, failed=True)
    assert not faults.is_available("a")
    faults.observe("a", 5)
    assert faults.is_available("a")


def test_where_all_are_slow_the_better_half_is_used():
    faults = FaultTable(ManualClock())
    queues = turns("a", "b", "c", "d")
    for broker, latency_ms in {"a": 5000, "b": 600, "c": 700, "d": 9000}.items():
        faults.observe(broker, latency_ms)
    used = Counter(queues.next(faults=faults).broker_name for _ in range(20))
    assert used == {"b": 10, "c": 10}


def test_a_bad_broker_without_our_topic_is_forgotten():
    faults = FaultTable(ManualClock())
    queues = turns("a")
    faults.observe("a", 9000)
    faults.observe("gone", 600)
    assert faults.least_bad() == "gone"
    assert queues.next(faults=faults).broker_name == "a"
    assert faults.is_available("gone")
    assert not faults.is_available("a")


def test_without_observations_no_broker_is_least_bad():
    assert FaultTable(ManualClock()).least_bad() is None


@golden.each("clients", "hash/")
def test_by_hash_as_java(entry):
    asked = entry["value"]
    queues = queues_of("a", each=asked["queues"])
    assert by_hash(queues, MESSAGE, asked["key"]).queue_id == asked["answer"]["queue"]


@given(st.text() | st.integers(-(2**63), 2**63 - 1), st.integers(1, 20))
def test_by_hash_gives_equal_keys_one_queue(key, count):
    queues = queues_of("a", each=count)
    assert by_hash(queues, MESSAGE, key) is by_hash(queues, MESSAGE, key)


def test_by_sharding_key_of_the_message_first():
    queues = queues_of("a", each=97)
    own = Message("orders", b"x", sharding_key="user-42")
    assert by_sharding_key(queues, own, "other") == by_hash(queues, own, "user-42")
    assert by_sharding_key(queues, MESSAGE, "other") == by_hash(queues, MESSAGE, "other")


def test_at_random():
    select = at_random(random.Random(1))
    assert {select(queues_of("a"), MESSAGE, None).queue_id for _ in range(60)} == {0, 1, 2, 3}


def test_by_machine_room():
    select = by_machine_room(frozenset({"east"}), random.Random(1))
    queues = queues_of("east@a", "west@b", "east")
    assert {select(queues, MESSAGE, None).broker_name for _ in range(60)} == {"east@a"}
    with pytest.raises(NoRoute, match="machine rooms east"):
        select(queues_of("west@b"), MESSAGE, None)
