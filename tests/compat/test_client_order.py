"""Apache's orderly consumer: a queue has one reader at a time, and waits for what fails."""

import pytest

from compat.orderly import done_in_order, of_members

pytestmark = pytest.mark.apache

STORIES = ("Orderly", "OrderlyDead")


def test_order_holds_over_failures_and_a_change_of_member(observed):
    lines = of_members(observed)
    assert {line["event"] for line in lines} == {"member-0", "member-1"}
    done = done_in_order(lines)
    assert set().union(*done.values()) == {f"Orderly-{i}" for i in range(80)}


def test_a_failure_is_tried_again_in_its_place(observed):
    failing = [line for line in observed.of("Orderly") if line.get("body", "").endswith("3")]
    times = {}
    for line in failing:
        times.setdefault(line["body"], []).append((line["times"], line["ok"]))
    assert len(times) == 8
    # A member that takes over counts from 0 again.
    assert all(tried[0] == (0, False) for tried in times.values())
    assert all((2, True) in tried for tried in times.values())


def test_what_fails_too_often_leaves_its_queue(observed):
    tried = [(line["body"], line["times"]) for line in observed.of("OrderlyDead", "tried")]
    assert tried == [
        ("dead-0", 0), ("dead-1", 0), ("dead-2", 0), ("dead-2", 1), ("dead-2", 2),
        ("dead-3", 0), ("dead-4", 0),
    ]  # fmt: skip
    (dead,) = observed.of("OrderlyDead", "stored")
    assert (dead["topic"], dead["body"]) == ("%DLQ%OrderlyDead-takers", "dead-2")
