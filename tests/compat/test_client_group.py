"""Groups of Apache's consumers: who has which queue, and offsets moved by an admin."""

from collections import Counter

import pytest

pytestmark = pytest.mark.apache

STORIES = ("Rebalance", "ResetOnline", "ResetOffline")


@pytest.mark.parametrize("members", [3, 2, 1])
def test_the_queues_are_shared_fairly(observed, members):
    """The members leave one by one; nothing is lost on the way, or the story would not end."""
    shares = [line["queues"] for line in observed.of("Rebalance", f"share of {members}")]
    assert len(shares) == members
    queues = [queue for share in shares for queue in share]
    assert len(set(queues)) == len(queues) and len(queues) % 6 == 0
    assert len({len(share) for share in shares}) == 1


def test_every_message_is_seen(observed):
    (seen,) = observed.of("Rebalance", "seen")
    assert seen["count"] == 180


def twice(story):
    """Bodies 0 to 19, a pause, 0 to 9; the reset goes back to the pause."""
    return {f"{story}-{i}": 3 if i < 10 else 1 for i in range(20)}


def test_reset_of_a_group_that_runs(observed):
    taken = Counter(line["body"] for line in observed.of("ResetOnline", "taken"))
    assert taken == twice("ResetOnline")
    assert sum(line["offset"] for line in observed.of("ResetOnline", "reset")) == 20


def test_reset_of_a_group_that_is_away(observed):
    taken = Counter(line["body"] for line in observed.of("ResetOffline", "ResetOffline-takers"))
    assert taken == twice("ResetOffline")
