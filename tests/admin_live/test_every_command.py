"""Each of the 56 commands with RocketMQ's flags, on a cluster of this project and on Apache's."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from cometmq.admin.command_line.commands import ALL
from peers.raw import RawClient

CLUSTER = "DefaultCluster"
TOPIC = "Kept"
WAIT_S_MAX = 60
pytestmark = pytest.mark.apache  # a Java producer and consumer are at work


@pytest.fixture(scope="module")
def words(site, at_work, tmp_path_factory) -> dict[str, str]:
    """What stands for the words in braces of CASES."""
    site.run("updateTopic", "-b", site.broker.address, "-t", TOPIC, "-r", 1, "-w", 1)
    site.run("updateTopic", "-c", CLUSTER, "-t", "Doomed", "-r", 1, "-w", 1)
    site.run("updateTopic", "-c", CLUSTER, "-t", "Made", "-r", 3, "-w", 2)
    site.run("updateSubGroup", "-b", site.broker.address, "-g", "doomed")
    site.run("updateSubGroup", "-b", site.broker.address, "-g", "made", "-r", 7)

    async def fill():
        async with RawClient(site.broker.address) as client:
            for number in range(5):
                await client.send(TOPIC, 0, b"body-%d" % number, {"TAGS": "blue", "KEYS": "one"})
            await client.until_end(TOPIC, 0, 5)
            await client.commit_offset("away", TOPIC, 0, 2)

    asyncio.run(fill())
    (member,) = site.ask("consumerConnection", "-g", "takers")["connections"]
    sent = at_work.sent
    return {
        "broker": site.broker.address,
        "name": site.broker.name,
        "cluster": CLUSTER,
        "topic": TOPIC,
        "id": sent["offsetMsgId"],
        "unique": sent["msgId"],
        "queue": str(sent["queue"]),
        "offset": str(sent["offset"]),
        "client": member["clientId"],
        "folder": str(tmp_path_factory.mktemp("export")),
    }


def success(said: Any) -> bool:
    return bool(said) and {row["outcome"] for row in said} == {"success"}


def has(**wanted: Any) -> Callable[[Any], bool]:
    """A list with a row that has these values; or one thing that has them."""

    def check(said: Any) -> bool:
        rows = said if isinstance(said, list) else [said]
        return any(all(row[key] == value for key, value in wanted.items()) for row in rows)

    return check


def moved(to: int) -> Callable[[Any], bool]:
    return lambda said: [(row["newOffset"], row["outcome"]) for row in said] == [(to, "success")]


# By command: what is run, and what its JSON must be. Groups with members are moved elsewhere: a
# Java consumer does nothing else for ten seconds then.
CASES: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {
    "updateTopic": [("-c {cluster} -t Made -r 3 -w 2 -p 6 -o false -u false -s false", success)],
    "deleteTopic": [("-t Doomed -c {cluster}", success)],
    "updateTopicPerm": [
        ("-b {broker} -t Made -p 4", lambda said: "from 6 to 4" in said[0]["change"]),
        ("-c {cluster} -t Made -p 6", success),
    ],
    "topicRoute": [
        ("-t Work", lambda said: said["queueDatas"][0]["writeQueueNums"] == 4),
        ("-t Work -l", has(brokerName="broker-a", readQueues=4, writeQueues=4, perm=6)),
    ],
    "topicStatus": [("-t Kept", has(queueId=0, minOffset=0, maxOffset=5))],
    "topicClusterList": [("-t Work", lambda said: said == [CLUSTER])],
    "topicList": [
        ("", lambda said: {"Work", "%RETRY%takers", "TBW102"} <= set(said)),
        ("-c", has(clusterName=CLUSTER, topic="Work", consumerGroup="takers")),
    ],
    "updateOrderConf": [
        ("-t Made -m put -v {name}:2", success),
        ("-t Made -m get", lambda said: said == {"Made": "broker-a:2"}),
        ("-t Made -m delete", success),
    ],
    "allocateMQ": [
        ("-t Work -i 10.0.0.1,10.0.0.2",
         lambda said: [len(queues) for queues in said["result"].values()] == [2, 2]),
    ],
    "statsAll": [
        ("-t Work", has(topic="Work", consumerGroup="takers")),
        ("-a", lambda said: isinstance(said, list)),
    ],
    "updateSubGroup": [
        ("-b {broker} -g made -r 7 -q 2 -s false -m true -d true -i 0 -w 1 -a true", success),
    ],
    "getConsumerConfig": [
        ("-g made", lambda said: said["DefaultCluster:broker-a"]["retryMaxTimes"] == 7),
    ],
    "deleteSubGroup": [("-c {cluster} -g doomed -r true", success)],
    "consumerProgress": [
        ("", has(group="takers", count=1, version="V4_9_7", type="PUSH", model="CLUSTERING")),
        ("-g takers", lambda said: {row["topic"] for row in said["queues"]} >= {"Work"}),
        ("-g takers -s true",
         lambda said: all(row["clientIp"] for row in said["queues"] if row["topic"] == "Work")),
    ],
    "consumerConnection": [
        ("-g takers",
         lambda said: said["messageModel"] == "CLUSTERING"
         and {"topic": "Work", "subExpression": "*"} in said["subscriptions"]),
        ("-g takers -b {broker}", lambda said: len(said["connections"]) == 1),
    ],
    "consumerStatus": [
        ("-g takers", lambda said: said["rebalance"] == "Rebalance OK"
         and said["members"][0]["queues"] >= 4),
        ("-g takers -i {client} -s",
         lambda said: "ConsumeMessageThread" in said["stacks"]
         and said["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"),
    ],
    "producerConnection": [("-g makers -t Work", has(language="JAVA", version="V4_9_7"))],
    "producer": [("-b {broker}", has(producerGroup="makers", language="JAVA"))],
    "startMonitoring": [("--rounds 1", has(group="takers", topic="Work", members=1))],
    "resetOffsetByTime": [
        ("-g away -t Kept -s 0 -f true", moved(0)),
    ],
    "skipAccumulatedMessage": [
        ("-g away -t Kept -f true", moved(5)),
    ],
    "cloneGroupOffset": [("-s away -d twin -t Kept -o true", moved(5))],
    "queryMsgById": [
        ("-i {id}", has(topic="Work", tags=["red"], keys=["k-0"], body="work-0")),
        ("-i {id} -g takers -d {client}", has(consumeResult="CR_SUCCESS")),
        ("-i {id} -s true", has(outcome="SEND_OK")),
    ],
    "queryMsgByKey": [("-t Work -k k-0", lambda said: said[0]["brokerName"] == "broker-a")],
    "queryMsgByUniqueKey": [
        ("-t Work -i {unique}", has(topic="Work", body="work-0")),
        ("-t Work -i {unique} -a", lambda said: len(said) in (1, 2)),  # if it was sent once more
        ("-t Work -i {unique} -g takers -d {client}", has(consumeResult="CR_SUCCESS")),
    ],
    "queryMsgByOffset": [
        ("-t Work -b {name} -i {queue} -o {offset}", has(topic="Work", body="work-0")),
    ],
    "sendMessage": [
        ("-t Made -p hello -k here -c green -m true", has(outcome="SEND_OK")),
        ("-t Made -p hello -b {name} -i 1", has(outcome="SEND_OK", queueId=1)),
    ],
    "consumeMessage": [
        ("-t Kept -g lookers -c 3", lambda said: [row["body"] for row in said]
         == ["body-0", "body-1", "body-2"]),
        ("-t Kept -b {name} -i 0 -o 4 -s 0", lambda said: [row["queueOffset"] for row in said]
         == [4]),
    ],
    "printMsg": [
        ("-t Kept -d true", lambda said: [row["body"] for row in said]
         == [f"body-{number}" for number in range(5)]),
        ("-t Kept -s red", lambda said: said == []),
        ("-t Kept -c GBK -s blue -b 0 -e now", lambda said: len(said) == 5),
    ],
    "printMsgByQueue": [
        ("-t Kept -a {name} -i 0 -p true -d true", lambda said: len(said) == 5),
        ("-t Kept -a {name} -i 0 -f true", lambda said: said == [{"tag": "blue", "count": 5}]),
    ],
    "queryMsgTraceById": [("-i {traced}", has(type="Pub", status="success"))],
    "checkMsgSendRT": [("-t Made -a 3 -s 10", lambda said: len(said["sends"]) == 3)],
    "queryCq": [
        ("-t Kept -q 0 -i 1 -c 2 -b {broker}",
         lambda said: (said["max"], [row["index"] for row in said["entries"]]) == (5, [1, 2])),
        ("-t Work -q 0 -i 0 -g takers", lambda said: said["subscription"] == "*"),
    ],
    "updateBrokerConfig": [
        ("-b {broker} -k traceOn -v false", success),
        ("-c {cluster} -k traceOn -v true", success),
    ],
    "brokerStatus": [
        ("-b {broker}", lambda said: int(said["msgPutTotalTodayNow"]) > 0),
        ("-c {cluster}", lambda said: len(said) == 1),
    ],
    "getBrokerConfig": [
        ("-b {broker}", lambda said: next(iter(said.values()))["traceOn"] == "true"),
        ("-c {cluster}", lambda said: next(iter(said.values()))["brokerName"] == "broker-a"),
    ],
    "brokerConsumeStats": [
        ("-b {broker} -t 10000 -l 0 -o false",
         lambda said: {row["group"] for row in said["queues"]} >= {"takers"}),
    ],
    "sendMsgStatus": [("-b {name} -c 2 -s 10", has(outcome="SEND_OK"))],
    "cleanExpiredCQ": [("-b {broker}", success), ("", success)],
    "deleteExpiredCommitLog": [("-c {cluster}", success)],
    "cleanUnusedTopic": [("-b {broker}", success)],
    "clusterList": [
        ("", has(brokerName="broker-a", brokerId=0, version="V4_9_7", error=None)),
        ("-m -i 1 --rounds 1", has(brokerName="broker-a")),
    ],
    "clusterRT": [("-a 2 -s 10 -c {cluster} -m here -p false", has(successCount=2, failCount=0))],
    "getNamesrvConfig": [("", lambda said: "kvConfigPath" in next(iter(said.values())))],
    "updateNamesrvConfig": [("-k orderMessageEnable -v false", success)],
    "wipeWritePerm": [("-b {name}", success)],
    "addWritePerm": [("-b {name}", success)],
    "updateKvConfig": [("-s here -k one -v two", success)],
    "deleteKvConfig": [("-s here -k one", success)],
    "exportMetadata": [
        ("-c {cluster} -f {folder}", success),
        ("-b {broker} -t -f {folder}", success),
    ],
    "exportConfigs": [("-c {cluster} -f {folder}", success)],
    "exportMetrics": [("-c {cluster} -f {folder}", success)],
}  # fmt: skip
ACCOUNTS = {
    "updateAclConfig",
    "deleteAclConfig",
    "clusterAclConfigVersion",
    "updateGlobalWhiteAddr",
}
STREAMS = {"printMsg", "printMsgByQueue", "consumeMessage"}


def test_the_cases_are_all_commands():
    """Accounts have a file of their own: they need a broker that has some."""
    assert CASES.keys() | ACCOUNTS == {each.name for each in ALL if not each.is_ours}


@pytest.mark.parametrize("name", [name for name in CASES if name != "queryMsgTraceById"])
def test_a_command(site, words, name):
    for text, is_good in CASES[name]:
        given = [word.format(**words) for word in text.split()]
        ask = site.ask
        if name in STREAMS and "-f" not in given:
            ask = site.lines
        said = ask(name, *given)
        assert is_good(said), said


def test_a_trace(site, words):
    """Its message is found once the broker has indexed it."""
    (sent,) = site.ask("sendMessage", "-t", "Work", "-p", "traced", "-m", "true")
    ((text, is_good),) = CASES["queryMsgTraceById"]
    asked = ("queryMsgTraceById", *text.format(traced=sent["msgId"]).split())
    deadline = time.monotonic() + WAIT_S_MAX
    while site.attempt(*asked)[0] != 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    said = site.ask(*asked)
    assert is_good(said), said


LOOKS = [each.name for each in ALL if not each.changes and each.name in CASES]


@pytest.mark.parametrize("name", [name for name in LOOKS if name != "queryMsgTraceById"])
def test_text_is_for_people(site, words, name):
    """A table, a block, lines or a list; never nothing."""
    text, _ = CASES[name][0]
    said = site.run(name, *(word.format(**words) for word in text.split()))
    assert re.search(r"^#\w|^[A-Z][\w ]*:|^\S+ +: |^\S+$", said, re.MULTILINE), said


def test_a_route_as_a_table(site, words):
    first, second = site.run("topicRoute", "-t", "Work", "-l").splitlines()
    assert first.startswith("#Cluster Name") and second.startswith(f"{CLUSTER}  broker-a")
