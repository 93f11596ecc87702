"""Apache's Go client (rocketmq-client-go 2.1.2): the same facts on our servers as on Apache's.

COMETMQ_GO_CAMPAIGN=1 runs every scenario of peers/go on both. Without it, only sends and the pull
consumer run, on ours.
"""

import os

import pytest

from peers.apache import ApacheBroker, ApacheNamesrv
from peers.clusters import QUICK
from peers.comet import CometBroker, CometNamesrv
from peers.go_client import SCENARIOS, program, run_go
from peers.jars import PeerMissing

pytestmark = pytest.mark.apache

CAMPAIGN = os.environ.get("COMETMQ_GO_CAMPAIGN")
CLUSTER = "DefaultCluster"
EXPECTED_POLL = {"bodies": [f"poll-{i:02}" for i in range(12)], "after a restart": []}


@pytest.fixture(scope="module", autouse=True)
def go_program():
    """Built before the servers start; the test is skipped if it cannot be built."""
    try:
        return program()
    except PeerMissing as missing:
        pytest.skip(f"the Go client cannot be run here: {missing}")


def run_on(make_namesrv, make_broker, folder, scenarios):
    namesrv = make_namesrv(folder / "namesrv")
    broker = make_broker(folder / "broker", namesrv=namesrv.address, cluster=CLUSTER, conf=QUICK)
    try:
        namesrv.start()
        broker.start()
        return run_go(namesrv.address, broker.address, CLUSTER, scenarios)
    finally:
        broker.kill()
        namesrv.kill()


def test_sends_and_polls_on_our_broker(tmp_path):
    told = run_on(CometNamesrv, CometBroker, tmp_path, ("sync", "poll"))
    assert [each.error for each in told.values()] == [None, None]
    assert len(told["sync"].facts["messages"]) == 20
    assert told["poll"].facts == EXPECTED_POLL


@pytest.fixture(scope="module")
def both(apache_class_path, tmp_path_factory):
    """What each scenario found on our servers and on Apache's."""
    if not CAMPAIGN:
        pytest.skip("COMETMQ_GO_CAMPAIGN is not set")
    ours = run_on(CometNamesrv, CometBroker, tmp_path_factory.mktemp("comet"), SCENARIOS)
    theirs = run_on(ApacheNamesrv, ApacheBroker, tmp_path_factory.mktemp("apache"), SCENARIOS)
    return ours, theirs


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_facts_are_the_same_on_both_brokers(both, scenario):
    ours, theirs = both
    print("ours:", ours[scenario], "\nApache:", theirs[scenario])
    assert theirs[scenario].error is None
    assert ours[scenario] == theirs[scenario]
