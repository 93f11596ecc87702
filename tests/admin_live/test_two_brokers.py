"""A cluster of two brokers: what is done is done at both, and one that is down is told."""

import asyncio

import pytest

from peers.comet import CometBroker, CometNamesrv
from peers.raw import RawClient

CLUSTER = "DefaultCluster"


@pytest.fixture(scope="module")
def pair(site_of, tmp_path_factory):
    """Two brokers, and the admin tool connected to the first."""
    folder = tmp_path_factory.mktemp("pair")
    with CometNamesrv(folder / "namesrv") as namesrv:
        brokers = [
            CometBroker(folder / letter, namesrv=namesrv.address, name=f"broker-{letter}")
            for letter in "ab"
        ]
        with brokers[0], brokers[1]:
            yield site_of("pair", namesrv.address, brokers[0]), brokers[1]


def test_everything_is_done_at_both(pair):
    site, other = pair
    both = {site.broker.address, other.address}
    changes = site.ask("updateTopic", "-c", CLUSTER, "-t", "T", "-r", 2, "-w", 2, "-o", "true")
    assert {change["at"] for change in changes} == both | {site.name_server}
    assert site.ask("updateOrderConf", "-t", "T", "-m", "get") == {"T": "broker-a:2;broker-b:2"}
    assert len(site.ask("topicStatus", "-t", "T")) == 4
    changes = site.ask("updateSubGroup", "-c", CLUSTER, "-g", "g")
    assert {change["at"] for change in changes} == both
    assert len(site.ask("getConsumerConfig", "-g", "g")) == 2
    assert len(site.ask("clusterList")) == 2
    site.run("updateBrokerConfig", "-c", CLUSTER, "-k", "traceOn", "-v", "false")
    settings = site.ask("getBrokerConfig", "-c", CLUSTER)
    assert {address: each["traceOn"] for address, each in settings.items()} == dict.fromkeys(
        both, "false"
    )


def test_messages_and_offsets_of_both(pair):
    site, other = pair
    site.run("updateTopic", "-c", CLUSTER, "-t", "U", "-r", 1, "-w", 1)

    async def fill():
        for address in (site.broker.address, other.address):
            async with RawClient(address) as client:
                await client.send("U", 0, address.encode(), {"KEYS": "k"})
                await client.commit_offset("u", "U", 0, 0)

    asyncio.run(fill())
    found = site.ask("queryMsgByKey", "-t", "U", "-k", "k")
    assert sorted(row["brokerName"] for row in found) == ["broker-a", "broker-b"]
    assert [row["body"] for row in site.lines("printMsg", "-t", "U")] == [
        site.broker.address, other.address,
    ]  # fmt: skip
    moves = site.ask("skipAccumulatedMessage", "-g", "u", "-t", "U")
    assert [(move["brokerName"], move["newOffset"]) for move in moves] == [
        ("broker-a", 1), ("broker-b", 1),
    ]  # fmt: skip
    progress = site.ask("consumerProgress", "-g", "u")
    assert (len(progress["queues"]), progress["diffTotal"]) == (2, 0)
    one = ("-g", "u", "-t", "U", "--broker-name", "broker-b", "--to-earliest")
    assert [move["brokerName"] for move in site.ask("offset", "reset", *one)] == ["broker-b"]
    assert site.ask("consumerProgress", "-g", "u")["diffTotal"] == 1


def test_an_unknown_group_is_not_reset(pair):
    site, _ = pair
    site.run("updateTopic", "-c", CLUSTER, "-t", "V", "-r", 1, "-w", 1)
    said = site.run("offset", "reset", "-g", "mistyped", "-t", "V", "--to-latest", code=1)
    assert "group mistyped is unknown to all brokers" in said


def test_a_broker_that_does_not_answer(pair):
    """The change is done at the other broker, and the exit code reports the failure."""
    site, other = pair
    other.pause()
    try:
        patience = ("--timeout", 15_000)  # the other one has to answer within it
        changes = site.ask("updateTopic", "-c", CLUSTER, "-t", "W", *patience, code=1)
        outcomes = {change["at"]: change["outcome"] for change in changes}
        assert outcomes[site.broker.address] == "success"
        assert outcomes[other.address].startswith("failed: ")
        nodes = site.ask("clusterList", *patience, code=1)
        assert [node["error"] is None for node in nodes] == [True, False]
    finally:
        other.resume()
