"""What Apache's mqadmin changes and shows of our broker alone: with the original it could not."""

import asyncio
import re
import time

import pytest

from peers.admin import AdminShell
from peers.clusters import QUICK, running
from peers.driver import start_java
from peers.raw import NotAnswered, RawClient

pytestmark = pytest.mark.apache

CLUSTER, TOPIC = "DefaultCluster", "Unlike"
WAIT_S_MAX = 60
CHANGES = {
    "fileReservedTime": "48", "deleteWhen": "05", "maxMessageSize": "4096",
    "diskMaxUsedSpaceRatio": "80", "cleanFileForciblyEnable": "false",
    "syncFlushTimeout": "4000", "flushIntervalCommitLog": "200", "flushDiskType": "SYNC_FLUSH",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(apache_class_path, tmp_path_factory):
    with running("cometmq", tmp_path_factory.mktemp("shown"), QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def run(cluster):
    with AdminShell(cluster.namesrv.address) as shell:
        run = shell.run
        run("updateTopic", "-c", CLUSTER, "-t", TOPIC, "-r", "1", "-w", "1")
        yield run


def test_settings_of_the_store_that_is_open(cluster, run):
    address = cluster.broker.address

    def shown():
        said = run("getBrokerConfig", "-b", address)
        return dict(re.findall(r"^(\w+)\s*=[ ]*(\S*)", said, re.MULTILINE))

    async def send(size):
        async with RawClient(address) as client:
            await client.send(TOPIC, 0, bytes(size))

    before = shown()
    assert before.keys() > CHANGES.keys()
    for key, value in CHANGES.items():
        assert "success" in run("updateBrokerConfig", "-b", address, "-k", key, "-v", value), key
    assert shown() == before | CHANGES
    asyncio.run(send(4096))
    with pytest.raises(NotAnswered, match="maxMessageSize, is 4096"):
        asyncio.run(send(4097))


def test_members_that_subscribe_differently(cluster, run):
    namesrv = cluster.namesrv.address
    with (
        start_java("Consume", namesrv, TOPIC, "unlike", 0, "filter=red") as first,
        start_java("Consume", namesrv, TOPIC, "unlike", 0, "filter=blue") as second,
    ):
        assert [one.next(timeout=150)["status"] for one in (first, second)] == ["STARTED"] * 2
        pattern = re.compile(r"^groupsSubscribingDifferently\s*: unlike$", re.MULTILINE)
        deadline = time.monotonic() + WAIT_S_MAX
        while not pattern.search(status := run("brokerStatus", "-b", cluster.broker.address)):
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
        # Its reader passes over what it does not know.
        said = run("consumerConnection", "-g", "unlike")
        assert said.count("JAVA") == 2
        assert re.search(rf"^{TOPIC}\s+(red|blue)$", said, re.MULTILINE)
