"""Two brokers of two makers in one cluster: topics lie on both, and Apache's client cannot tell."""

from collections import Counter

import pytest

from compat.orderly import done_in_order, of_members
from peers.admin import AdminShell
from peers.clusters import PAIR, QUICK, running

pytestmark = pytest.mark.apache

STORIES = (
    "Sync", "Async", "Batch", "Delayed", "Concurrent", "LiteSubscribe", "Retry", "Dead", "Orderly",
    "Rebalance", "Transaction", "CheckedBack", "Query", "Request",
)  # fmt: skip


@pytest.fixture(scope="module")
def pair(apache_class_path, tmp_path_factory):
    with running(PAIR, tmp_path_factory.mktemp("pair"), QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def observed(pair):
    return pair.observe(*STORIES)


def bodies(lines):
    return sorted(line["body"] for line in lines)


def test_sends_go_to_both(observed):
    for story, count in (("Sync", 8), ("Async", 50)):
        sent = observed.of(story, "sent")
        assert {line["broker"] for line in sent} == {"broker-a", "broker-b"}
        stored = observed.of(story, "stored")
        assert len(stored) == len(sent) == count
        assert {line["msgId"] for line in stored} == {line["msgId"] for line in sent}
    assert bodies(observed.of("Batch", "stored")) == [f"batch-{i}" for i in range(10)]


def test_consumers_take_from_both(observed):
    taken = observed.of("Concurrent", "Concurrent-takers")
    assert {line["broker"] for line in taken} == {"broker-a", "broker-b"}
    assert Counter(bodies(taken)) == {f"Concurrent-{i}": 2 for i in range(100)}
    assert len(observed.of("LiteSubscribe", "first")) == 20
    assert len(observed.of("LiteSubscribe", "second")) == 10


def test_what_waits_comes_from_where_it_was_sent(observed):
    sent = {line["msgId"]: line["broker"] for line in observed.of("Delayed", "sent")}
    assert {
        line["msgId"]: line["broker"] for line in observed.of("Delayed", "Delayed-takers")
    } == sent
    tried = Counter(bodies(observed.of("Retry", "tried")))
    assert tried == {f"Retry-{i}": i + 1 for i in range(4)}
    assert len({line["broker"] for line in observed.of("Retry", "tried")}) == 2
    (dead,) = observed.of("Dead", "stored")
    assert dead["topic"] == "%DLQ%Dead-takers"


def test_order_holds_on_both(observed):
    done = done_in_order(of_members(observed))
    assert len(done) == 8
    assert len(set().union(*done.values())) == 80


def test_queues_of_both_are_shared(observed):
    for members in (3, 2, 1):
        shares = [line["queues"] for line in observed.of("Rebalance", f"share of {members}")]
        assert sorted(map(len, shares)) == [12 // members] * members
        assert len({queue for share in shares for queue in share}) == 12


def test_transactions_end_where_they_began(observed):
    """At least once: test_client_transaction.py looks more closely."""
    assert set(bodies(observed.of("Transaction", "stored"))) == {"commit-0", "commit-2"}
    checked = set(bodies(observed.of("CheckedBack", "stored")))
    assert checked == {"check-commit-0", "check-commit-2"}


def test_queries_and_requests(observed):
    assert bodies(observed.of("Query", "by shared key")) == [f"query-{i}" for i in range(6)]
    # A question may be consumed, and answered, twice while its queues change hands.
    replies = observed.of("Request", "reply")
    assert {line["body"] for line in replies} == {f"answer to question {i}" for i in range(4)}


def test_admin_sees_one_cluster(pair, observed):
    names = {broker.name for broker in pair.brokers}
    with AdminShell(pair.namesrv.address) as admin:
        listing = admin.run("clusterList")
        assert all(broker.address in listing for broker in pair.brokers)
        for command in (
            ("topicStatus", "-t", "Concurrent"), ("consumerProgress", "-g", "Concurrent-takers"),
        ):  # fmt: skip
            said = admin.run(*command)
            assert all(said.count(f"{name} ") >= 4 for name in names), said
        said = admin.run("updateTopic", "-c", "DefaultCluster", "-t", "Both", "-r", "2", "-w", "2")
        assert said.count("success") == 2
        assert admin.run("deleteTopic", "-t", "Both", "-c", "DefaultCluster").count("success") == 2
