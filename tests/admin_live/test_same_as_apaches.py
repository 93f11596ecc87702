"""Our tool and Apache's mqadmin, asked the same of one broker, tell the same."""

import asyncio
import json
import re

import pytest

from cometmq.protocol.java.fastjson import standard_json
from peers.admin import AdminShell
from peers.raw import RawClient

pytestmark = pytest.mark.apache

CLUSTER = "DefaultCluster"
TOPIC = "Both"


@pytest.fixture(scope="module")
def shell(site):
    with AdminShell(site.name_server) as shell:
        yield shell


@pytest.fixture(scope="module")
def sent(site):
    """A topic of two queues, messages in both, and a group that was there once."""
    site.run("updateTopic", "-c", CLUSTER, "-t", TOPIC, "-r", 2, "-w", 2)
    site.run("updateSubGroup", "-c", CLUSTER, "-g", "both")
    site.run("updateTopic", "-c", CLUSTER, "-t", "%RETRY%both", "-r", 1, "-w", 1)

    async def fill():
        async with RawClient(site.broker.address) as client:
            found = [
                await client.send(TOPIC, number % 2, b"%d" % number, {"KEYS": "same", "TAGS": "a"})
                for number in range(5)
            ]
            await client.until_end(TOPIC, 0, 3)
            await client.until_end(TOPIC, 1, 2)
            await client.commit_offset("both", TOPIC, 0, 1)
            return found

    return asyncio.run(fill())


def rows(said):
    """The words of each line that is neither a heading nor empty."""
    return [line.split() for line in said.splitlines() if line.strip() and line[0] != "#"]


def pairs(said, sign):
    return dict(re.findall(rf"^(\w\S*)\s*{sign} *(.*?) *$", said, re.MULTILINE))


def test_lists(site, shell, sent):
    assert sorted(shell.run("topicList").split()) == site.run("topicList").split()
    same = ("topicClusterList", "-t", TOPIC)
    assert shell.run(*same).split() == site.run(*same).split()


@pytest.mark.parametrize("words", ["topicStatus -t Both", "queryMsgByKey -t Both -k same"])
def test_tables_have_the_same_rows(site, shell, sent, words):
    theirs = sorted(rows(shell.run(*words.split())))
    ours = sorted(row[: len(theirs[0])] for row in rows(site.run(*words.split())))
    assert ours == theirs and theirs


def test_progress(site, shell, sent):
    def places(said):
        return sorted(row[:6] for row in rows(said) if row[0] == TOPIC)

    same = ("consumerProgress", "-g", "both")
    theirs, ours = shell.run(*same), site.run(*same)
    assert places(ours) == places(theirs) and len(places(ours)) == 2
    assert re.search(r"Diff Total: +(\d+)", ours)[1] == re.search(r"Diff Total: (\d+)", theirs)[1]


@pytest.mark.parametrize(
    ("words", "sign"),
    [("getConsumerConfig -g both", "="), ("getNamesrvConfig", "="), ("getBrokerConfig -b {}", "=")],
)
def test_settings(site, shell, sent, words, sign):
    same = words.format(site.broker.address).split()
    assert pairs(site.run(*same), sign) == pairs(shell.run(*same), sign)


def test_broker_status(site, shell, sent):
    same = ("brokerStatus", "-b", site.broker.address)
    ours, theirs = pairs(site.run(*same), ":"), pairs(shell.run(*same), ":")
    assert ours.keys() == theirs.keys()
    for key in ("bootTimestamp", "brokerVersionDesc", "commitLogMinOffset"):
        assert ours[key] == theirs[key]
    # What is free may change between the two.
    totals = [each["commitLogDirCapacity"].partition(", Free")[0] for each in (ours, theirs)]
    assert totals[0] == totals[1] and totals[0].startswith("Total : ")


@pytest.mark.parametrize("words", ["topicRoute -t Both", "allocateMQ -t Both -i 10.0.0.1,10.0.0.2"])
def test_json(site, shell, sent, words):
    theirs = json.loads(standard_json(shell.run(*words.split())))
    assert json.loads(site.run(*words.split())) == theirs


def test_a_message(site, shell, sent):
    def fields(said):
        found = re.findall(r"^([A-Z][\w ]*):\s+(.*)$", said, re.MULTILINE)
        return {name.replace(" ", "").lower(): value.strip("[]") for name, value in found}

    ours = fields(site.run("queryMsgById", "-i", sent[0].offset_id))
    theirs = fields(shell.run("queryMsgById", "-i", sent[0].offset_id))
    del theirs["messagebodypath"]
    properties = [set(each.pop("properties").strip("{}").split(", ")) for each in (ours, theirs)]
    assert properties[0] == properties[1]
    assert theirs.items() <= ours.items()


@pytest.mark.parametrize(
    ("command", "words", "file"),
    [
        ("exportMetadata", "", "metadata"),
        ("exportMetadata", "-t", "topic"),
        ("exportMetadata", "-g", "subscriptionGroup"),
        ("exportMetadata", "-t -s", "topic"),
        ("exportConfigs", "", "configs"),
    ],
)
def test_exports(site, shell, sent, tmp_path, command, words, file):
    found = []
    for tool, folder in ((site.run, tmp_path / "ours"), (shell.run, tmp_path / "theirs")):
        tool(command, "-c", CLUSTER, *words.split(), "-f", str(folder))
        found.append(json.loads((folder / f"{file}.json").read_text()))
        found[-1].pop("exportTime", None)
    assert found[0] == found[1] and found[0]


def test_metrics_have_the_same_parts(site, shell, sent, tmp_path):
    """But for the number of processors and the versions of clients, which ours leaves out."""
    found = []
    for tool, folder in ((site.run, tmp_path / "ours"), (shell.run, tmp_path / "theirs")):
        tool("exportMetrics", "-c", CLUSTER, "-f", str(folder))
        found.append(json.loads((folder / "metrics.json").read_text()))
    ours, theirs = (each["evaluateReport"]["broker-a"] for each in found)
    assert ours["runtimeQuota"].keys() == theirs["runtimeQuota"].keys()
    for part in ("topicSize", "groupSize"):
        assert ours["runtimeQuota"][part] == theirs["runtimeQuota"][part]
    for part in ("tps", "oneDayNum"):
        assert ours["runtimeQuota"][part].keys() == theirs["runtimeQuota"][part].keys()
    assert found[0]["totalData"].keys() == found[1]["totalData"].keys()
    for part, rates in found[1]["totalData"].items():
        assert found[0]["totalData"][part].keys() == rates.keys()


def test_changes_of_one_tool_are_visible_to_the_other(site, shell, sent):
    site.run("updateSubGroup", "-c", CLUSTER, "-g", "made", "-r", 3)
    shell.run("updateSubGroup", "-c", CLUSTER, "-g", "theirs", "-r", "3")
    ours, theirs = (
        site.ask("getConsumerConfig", "-g", group)["DefaultCluster:broker-a"]
        for group in ("made", "theirs")
    )
    assert ours | {"groupName": ""} == theirs | {"groupName": ""}
    site.run("topic", "create", "-c", CLUSTER, "-t", "OneWay", "-o", "true", "-w", 3)
    assert "broker-a:3" in shell.run("updateOrderConf", "-t", "OneWay", "-m", "get")
    site.run("topic", "permission", "-c", CLUSTER, "-t", "OneWay", "-p", "R")
    assert '"perm":4' in shell.run("topicRoute", "-t", "OneWay")
    site.run("topic", "delete", "-c", CLUSTER, "-t", "OneWay")
    assert "OneWay" not in shell.run("topicList").split()
    assert "Exception" in shell.run("updateOrderConf", "-t", "OneWay", "-m", "get", fails=True)
