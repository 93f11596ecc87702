"""Apache's own integration tests: what passes on two of Apache's brokers passes on two of ours.

COMETMQ_APACHE_SUITE=all runs the whole suite on both clusters (half an hour); simple class names
with commas run these. Without it, only the batch tests run, on our brokers.
"""

import os
from collections import Counter

import pytest

from peers.jars import PeerMissing
from peers.suite import Outcome, apache_cluster, class_names, comet_cluster, run_suite

pytestmark = pytest.mark.apache

CHOSEN = os.environ.get("COMETMQ_APACHE_SUITE", "")
# Apache's cluster fails a test now and then, so one failure on ours proves nothing.
ATTEMPTS = 3


@pytest.fixture(scope="module", autouse=True)
def suite(apache_class_path):
    """The names of the test classes; the test is skipped if they cannot be fetched."""
    try:
        return class_names()
    except PeerMissing as missing:
        pytest.skip(f"Apache's integration tests cannot be run here: {missing}")


def show(outcome):
    print(f"{outcome.outcome:8} {outcome.took_ms / 1000:6.1f} s  {outcome.test}", flush=True)
    if outcome.outcome == "failed":
        print(outcome.error, flush=True)


def failed(outcomes):
    return sorted(each.test for each in outcomes.values() if each.outcome != "passed")


def test_batches_on_our_brokers(tmp_path):
    with comet_cluster(tmp_path) as namesrv:
        outcomes = run_suite(namesrv, class_names(["BatchSendIT"]), show)
    assert len(outcomes) == 2
    assert failed(outcomes) == []


def run_again(namesrv, tests, outcomes):
    """Run the classes of failed tests once more, and note what passes now."""
    names = sorted({test.partition(".")[0] for test in tests})
    for test, outcome in run_suite(namesrv, class_names(names), show).items():
        if outcome.outcome == "passed" and test in tests:
            outcomes[test] = outcome


def table(ours, theirs):
    missing = Outcome("", "missing", 0, "")
    lines = [f"{'ours':8} {'Apache':8} test"]
    lines += [
        f"{ours.get(test, missing).outcome:8} {theirs.get(test, missing).outcome:8} {test}"
        for test in sorted(ours.keys() | theirs.keys())
    ]
    for name, outcomes in (("ours", ours), ("Apache", theirs)):
        lines.append(f"{name}: {dict(Counter(each.outcome for each in outcomes.values()))}")
    return "\n".join(lines)


@pytest.mark.skipif(not CHOSEN, reason="COMETMQ_APACHE_SUITE is not set")
@pytest.mark.timeout(4 * 3600)
@pytest.mark.flaky(reruns=0)
def test_the_same_tests_pass_on_both_clusters(tmp_path):
    classes = class_names([] if CHOSEN == "all" else CHOSEN.split(","))
    with apache_cluster(tmp_path / "apache") as namesrv:
        theirs = run_suite(namesrv, classes, show)
    with comet_cluster(tmp_path / "comet") as namesrv:
        ours = run_suite(namesrv, classes, show)
        for _ in range(1, ATTEMPTS):
            different = set(failed(ours)) - set(failed(theirs))
            if different:
                print("again:", *sorted(different), flush=True)
                run_again(namesrv, different, ours)
    print(table(ours, theirs), flush=True)
    assert ours.keys() == theirs.keys()
    assert set(failed(ours)) <= set(failed(theirs))
