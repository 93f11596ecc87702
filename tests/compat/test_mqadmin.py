"""Apache's mqadmin: its commands against a broker with a producer and a consumer at work."""

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Any

import pytest

from peers.admin import AdminShell
from peers.driver import JavaProgram, start_java
from peers.raw import RawClient

pytestmark = pytest.mark.apache

CLUSTER = "DefaultCluster"
WAIT_S_MAX = 60
TRACE_WAIT_S_MAX = 15
TRACE_TRIES_MAX = 5


@dataclass(frozen=True)
class AtWork:
    """A producer and a consumer of topic Work, and a message that both have seen."""

    maker: JavaProgram
    taker: JavaProgram
    sent: dict[str, Any]


@pytest.fixture(scope="module")
def run(cluster):
    with AdminShell(cluster.namesrv.address) as shell:
        yield shell.run


@pytest.fixture(scope="module")
def at_work(cluster, run):
    run("updateTopic", "-c", CLUSTER, "-t", "Work", "-r", "4", "-w", "4")
    address = cluster.namesrv.address
    options = ("loop", "delay=50", "key=k", "tag=red")
    with (
        start_java("Produce", address, "Work", "makers", 0, "work", *options) as maker,
        start_java("Consume", address, "Work", "takers", 0) as taker,
    ):
        sent = next_ok(maker)
        while taker.next(timeout=150).get("msgId") != sent["msgId"]:
            pass

        def offsets():
            try:
                said = run("consumerProgress", "-g", "takers")
            except AssertionError:  # nobody has heard of one yet
                return []
            return [int(row[4]) for row in rows(said) if row[0] == "Work"]

        until(offsets, lambda found: len(found) == 4 * len(cluster.brokers) and all(found))
        yield AtWork(maker, taker, sent)


def next_ok(maker):
    line = maker.next(timeout=150)
    assert line["status"] == "OK", line
    return line


@pytest.fixture
def topic(request, run, cluster):
    """A topic with one queue a broker and five messages, for tests that change it."""
    name = request.node.originalname.removeprefix("test_")
    run("updateTopic", "-c", CLUSTER, "-t", name, "-r", "1", "-w", "1")

    # Not by sendMessage, whose producer starts once a JVM.
    async def fill():
        async with RawClient(cluster.broker.address) as client:
            for i in range(5):
                await client.send(name, 0, f"body-{i}".encode(), {"TAGS": "blue"})
            await client.until_end(name, 0, 5)

    asyncio.run(fill())
    return name


def until(ask, is_good):
    """What `ask` gives, once it is good: a broker may tell of a thing a moment after it is done."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_good(said := ask()):
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    return said


def rows(said):
    """The words of each line that is neither a heading nor empty."""
    return [line.split() for line in said.splitlines() if line.strip() and line[0] != "#"]


def test_topics(cluster, run, at_work):
    names = set(run("topicList").split())
    assert {"Work", "%RETRY%takers", "TBW102", "SCHEDULE_TOPIC_XXXX", CLUSTER} <= names
    assert {broker.name for broker in cluster.brokers} <= names
    groups = [row[2:] for row in rows(run("topicList", "-c")) if row[:2] == [CLUSTER, "Work"]]
    assert groups == [["takers"]]
    route = run("topicRoute", "-t", "Work").replace(" ", "")
    assert all(broker.address in route for broker in cluster.brokers)
    assert '"writeQueueNums":4' in route
    assert run("topicClusterList", "-t", "Work").split() == [CLUSTER]
    status = rows(run("topicStatus", "-t", "Work"))
    assert len(status) == 4 * len(cluster.brokers)
    assert sum(int(row[3]) for row in status) > 0
    assert all(row[2] == "0" and row[4].startswith("20") for row in status if row[3] != "0")


def test_brokers(cluster, run, at_work):
    found = {row[1]: row for row in rows(run("clusterList"))}
    assert found.keys() == {broker.name for broker in cluster.brokers}
    for broker in cluster.brokers:
        _, _, number, address, version, *_ = found[broker.name]
        assert (number, address) == ("0", broker.address)
        assert re.fullmatch(r"V\d_\d+_\d+", version)
    assert len(rows(run("clusterList", "-m"))) == len(cluster.brokers)

    status = run("brokerStatus", "-b", cluster.broker.address)
    values = dict(re.findall(r"^(\S+)\s*: (.*)$", status, re.MULTILINE))
    assert int(values["msgPutTotalTodayNow"]) > 0
    assert int(values["commitLogMaxOffset"]) > int(values["commitLogMinOffset"]) == 0
    assert int(values["bootTimestamp"]) > 0
    assert {
        "brokerVersion", "brokerVersionDesc", "putTps", "getFoundTps", "getMissTps", "getTotalTps",
        "getTransferedTps", "putMessageAverageSize", "putMessageEntireTimeMax", "runtime",
        "putMessageDistributeTime", "putMessageTimesTotal", "putMessageFailedTimes",
        "msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning", "msgGetTotalTodayNow",
        "sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity", "pullThreadPoolQueueSize",
        "queryThreadPoolQueueSize", "EndTransactionQueueSize", "commitLogDiskRatio",
        "consumeQueueDiskRatio", "commitLogDirCapacity", "dispatchBehindBytes", "dispatchMaxBuffer",
        "earliestMessageTimeStamp", "pageCacheLockTimeMills", "putLatency99", "putLatency999",
        "remainHowManyDataToFlush", "remainTransientStoreBufferNumbs", "getMessageEntireTimeMax",
        "startAcceptSendRequestTimeStamp", "sendThreadPoolQueueHeadWaitTimeMills",
    } <= values.keys()  # fmt: skip


def test_broker_settings(cluster, run):
    address, key = cluster.broker.address, "autoCreateSubscriptionGroup"

    def value():
        said = run("getBrokerConfig", "-b", address)
        return re.search(rf"{key}\s*=\s*(\S+)", said)[1]

    assert value() == "true"
    assert "success" in run("updateBrokerConfig", "-b", address, "-k", key, "-v", "false")
    assert value() == "false"
    assert "success" in run("updateBrokerConfig", "-c", CLUSTER, "-k", key, "-v", "true")
    assert value() == "true"


def test_one_message_found_in_four_ways(run, at_work):
    sent = at_work.sent
    ways = [
        ("queryMsgById", "-i", sent["offsetMsgId"]),
        ("queryMsgByUniqueKey", "-t", "Work", "-i", sent["msgId"]),
        ("queryMsgByOffset", "-t", "Work", "-b", sent["broker"], "-i", str(sent["queue"]),
         "-o", str(sent["offset"])),
    ]  # fmt: skip
    for words in ways:
        said = run(*words)
        fields = dict(re.findall(r"^([A-Z][^:]*):\s+(.*)$", said, re.MULTILINE))
        assert (fields["Topic"], fields["Tags"], fields["Keys"]) == ("Work", "[red]", "[k-0]")
        assert fields["Queue ID"] == str(sent["queue"])
        assert fields["Queue Offset"] == str(sent["offset"])
        assert sent["msgId"] in fields["Properties"]
        # What became of it: asked of the broker, group by group.
        track = re.search(r"consumerGroup=takers, trackType=(\w+)", said)
        assert track[1] in ("CONSUMED", "NOT_CONSUME_YET")
    (row,) = rows(run("queryMsgByKey", "-t", "Work", "-k", "k-0"))
    assert row == [sent["msgId"], str(sent["queue"]), str(sent["offset"])]


def test_queues(cluster, run, at_work):
    queue = ("-t", "Work", "-q", str(at_work.sent["queue"]), "-i", "0", "-c", "1")
    home = next(one for one in cluster.brokers if one.name == at_work.sent["broker"])
    said = run("queryCq", *queue, "-b", home.address)
    assert re.search(r"max: [1-9]\d*, min: 0", said)
    assert "physicOffset=" in said
    said = run("queryCq", *queue, "-b", home.address, "-g", "absent")
    assert "absent@Work is not online!" in said and "physicOffset=" in said
    said = run("printMsgByQueue", "-t", "Work", "-a", at_work.sent["broker"],
               "-i", str(at_work.sent["queue"]), "-p", "true", "-d", "true")  # fmt: skip
    assert f"MSGID: {at_work.sent['msgId']}" in said and "BODY: work-0" in said


def test_connections(cluster, run, at_work):
    said = run("producerConnection", "-g", "makers", "-t", "Work")
    assert re.search(r"0001\s+\S+@\S+\s+127\.0\.0\.1:\d+\s+JAVA\s+V4_9_7", said)
    said = run("consumerConnection", "-g", "takers")
    assert re.search(r"\S+@\S+\s+127\.0\.0\.1:\d+\s+JAVA\s+V4_9_7", said)
    assert re.search(r"%RETRY%takers\s+\*", said) and re.search(r"Work\s+\*", said)
    assert "CONSUME_PASSIVELY" in said and "CLUSTERING" in said
    assert "CONSUME_FROM_FIRST_OFFSET" in said
    assert "producer group (makers)" in run("producer", "-b", cluster.broker.address)


def test_progress(cluster, run, at_work):
    found = [row for row in rows(run("consumerProgress", "-g", "takers")) if row[0] == "Work"]
    assert len(found) == 4 * len(cluster.brokers)
    for _, _, _, broker_offset, consumer_offset, lag, *_ in found:
        assert int(broker_offset) - int(consumer_offset) == int(lag) >= 0
    groups = {row[0]: row for row in rows(run("consumerProgress"))}
    assert groups["takers"][1:5] == ["1", "V4_9_7", "PUSH", "CLUSTERING"]
    stats = rows(run("brokerConsumeStats", "-b", cluster.broker.address))
    assert len([row for row in stats if row[:2] == ["Work", "takers"]]) == 4
    (row,) = [row for row in rows(run("statsAll", "-t", "Work")) if row[0] == "Work"]
    assert row[1] == "takers"


def test_what_a_consumer_is_doing(run, at_work):
    """The broker relays the question to the client."""
    said = run("consumerStatus", "-g", "takers")
    assert "Same subscription in the same group" in said and "Rebalance OK" in said
    (client,) = re.findall(r"^1\s+(\S+@\S+)", said, re.MULTILINE)
    said = run("consumerStatus", "-g", "takers", "-i", client, "-s", "true")
    assert "PROP_NAMESERVER_ADDR" in said and "Work" in said
    assert "ConsumeMessageThread" in said, "its stacks"
    direct = run("queryMsgById", "-i", at_work.sent["offsetMsgId"], "-g", "takers", "-d", client)
    assert "CR_SUCCESS" in direct


def test_reset_of_a_running_group(cluster, run, at_work):
    for words in (("resetOffsetByTime", "-s", "now"), ("skipAccumulatedMessage",)):
        found = rows(run(*words, "-g", "takers", "-t", "Work"))
        found = [row for row in found if len(row) == 3]
        assert len(found) == 4 * len(cluster.brokers)
        assert sum(int(offset) for _, _, offset in found) > 0
    next_ok(at_work.maker)


def test_messages_by_hand(cluster, run, topic):
    said = run("consumeMessage", "-t", topic, "-g", "lookers", "-c", "10")
    assert said.count("MSGID: ") == 5
    said = run("printMsg", "-t", topic, "-d", "true")
    assert all(f"BODY: body-{i}" in said for i in range(5))
    assert run("sendMsgStatus", "-b", cluster.broker.name, "-c", "2").count("SEND_OK") == 2
    assert run("checkMsgSendRT", "-t", topic, "-a", "3").count("true") == 3
    allocated = json.loads(run("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2"))["result"]
    assert len(allocated["10.0.0.1"]) >= 1


def test_trace(cluster, topic):
    """Its producer waits half a second for a trace to leave, then drops it: tried anew, if so."""
    for _ in range(TRACE_TRIES_MAX):
        # A new one each time: the producer of its command starts once a JVM.
        with AdminShell(cluster.namesrv.address) as shell:
            said = traced(shell, topic)
        if said is not None:
            break
    assert said is not None and "success" in said


def traced(shell, topic):
    """What a trace says of a message sent now; None if there is none."""
    sent = shell.run("sendMessage", "-t", topic, "-p", "traced", "-k", "kept", "-m", "true")
    deadline = time.monotonic() + TRACE_WAIT_S_MAX
    while time.monotonic() < deadline:
        said = shell.say("queryMsgTraceById", "-i", sent.split()[-1], "-n", shell.namesrv)
        if "Pub" in said:
            return said
        time.sleep(0.1)
    return None


def test_offsets_of_an_absent_group(cluster, run, topic):
    group = "absent"
    run("updateSubGroup", "-c", CLUSTER, "-g", group)

    # As if it had been there once: the commands look for the broker by this topic.
    run("updateTopic", "-c", CLUSTER, "-t", f"%RETRY%{group}", "-r", "1", "-w", "1")

    async def consumed(of, commit=None):
        async with RawClient(cluster.broker.address) as client:
            if commit is not None:
                await client.commit_offset(of, topic, 0, commit)
            return await client.consumed(of, topic, 0)

    assert asyncio.run(consumed(group, commit=2)) == 2
    run("resetOffsetByTime", "-s", "0", "-g", group, "-t", topic)
    assert asyncio.run(consumed(group)) == 0
    progress = rows(run("consumerProgress", "-g", group))
    here = [row[3:6] for row in progress if row[:2] == [topic, cluster.broker.name]]
    assert here == [["5", "0", "5"]]
    run("skipAccumulatedMessage", "-g", group, "-t", topic)
    assert asyncio.run(consumed(group)) == 5
    run("cloneGroupOffset", "-s", group, "-d", "twin", "-t", topic)
    assert asyncio.run(consumed("twin")) == 5


def test_permissions(cluster, run, topic):
    broker = cluster.broker

    def permissions():
        return [int(found) for found in re.findall(r'"perm":(\d)', run("topicRoute", "-t", topic))]

    assert "from 6 to 4" in run("updateTopicPerm", "-b", broker.address, "-t", topic, "-p", "4")
    assert sorted(permissions())[0] == 4
    assert "success" in run("updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", "6")
    assert set(permissions()) == {6}
    assert "OK" in run("wipeWritePerm", "-b", broker.name)
    assert sorted(permissions())[0] == 4
    assert "OK" in run("addWritePerm", "-b", broker.name)
    assert set(permissions()) == {6}


def test_groups(cluster, run):
    address = cluster.broker.address
    said = run("updateSubGroup", "-b", address, "-g", "made", "-r", "7", "-q", "2", "-s", "false")
    assert "success" in said
    said = run("getConsumerConfig", "-g", "made")
    values = dict(re.findall(r"^(\w+)\s+=\s+(\S+)$", said, re.MULTILINE))
    assert (values["retryMaxTimes"], values["retryQueueNums"]) == ("7", "2")
    assert values["consumeEnable"] == "false"
    assert "success" in run("deleteSubGroup", "-b", address, "-g", "made", "-r", "true")
    assert "made" not in run("getConsumerConfig", "-g", "made")


def test_cleaning_and_export(cluster, run, tmp_path):
    address = cluster.broker.address
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert "success" in run(command, "-b", address)
    for command, name in (
        ("exportMetadata", "metadata"), ("exportConfigs", "configs"), ("exportMetrics", "metrics"),
    ):  # fmt: skip
        run(command, "-c", CLUSTER, "-f", str(tmp_path))
        assert json.loads((tmp_path / f"{name}.json").read_text())


def test_deletion(run, topic):
    time.sleep(1)  # a topic deleted while its messages are dispatched fells Apache's broker
    assert "success" in run("deleteTopic", "-t", topic, "-c", CLUSTER)
    assert topic not in run("topicList").split()
    assert "No topic route info" in run("topicRoute", "-t", topic, fails=True)
