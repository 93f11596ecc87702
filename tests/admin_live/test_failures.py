"""What goes wrong is told in one line, with an exit code, and changes nothing."""

import subprocess
import sys
import time

import pytest

from cometmq.admin.command_line.commands import ALL
from cometmq.protocol.names import HALF_TOPIC
from peers import ports

CLUSTER = "DefaultCluster"
WAIT_S_MAX = 60


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("topicStatus -t Nowhere", "topic Nowhere has no route"),
        ("topicRoute -t Nowhere", "topic Nowhere has no route"),
        ("deleteTopic -t T -c Nowhere", "unknown cluster Nowhere; known clusters: DefaultCluster"),
        ("updateTopicPerm -c DefaultCluster -t Nowhere -p 6", "topic Nowhere is unknown to"),
        ("consumerProgress -g nobody", "group nobody has no offsets"),
        ("consumerConnection -g nobody", "nobody is offline"),
        ("consumerStatus -g nobody", "nobody is offline"),
        ("producerConnection -g nobody -t TBW102", "nobody has no member"),
        ("getConsumerConfig -g nobody", "group nobody is unknown to all brokers"),
        ("queryMsgById -i zz", "not a message id"),
        ("queryMsgById -i 00", "32 or 56 digits"),
        ("queryMsgByKey -t TBW102 -k none", "has no message with the key none"),
        (
            "queryMsgByOffset -t TBW102 -b broker-a -i 0 -o 99",
            "has no message at offset 99 (min offset",
        ),
        ("queryMsgByOffset -t TBW102 -b nobody -i 0 -o 0", "known brokers: broker-a"),
        ("wipeWritePerm -b nobody", "known brokers: broker-a"),
        ("sendMessage -t TBW102 -p x -b nobody", "no matching queue"),
        ("updateOrderConf -t TBW102 -m get", "no order configuration"),
        ("topicStatus -t TBW102 --timeout 1 -n 127.0.0.1:{nobody}", "no name server answers"),
        ("brokerStatus -b 127.0.0.1:{nobody}", "no connection to 127.0.0.1"),
        ("topicList -n 127.0.0.1:{nobody}", "check the address"),
    ],
)
def test_refused_or_failed(site, words, why):
    nobody = ports.free_port()
    given = words.format(nobody=nobody).split()
    code, out, err = site.attempt(*given) if "-n" not in given else attempt_elsewhere(given)
    assert code == 1, out + err
    assert why in err and len(err.splitlines()) == 1 and err.startswith("mqadmin: ")


def attempt_elsewhere(words):
    """As a process of its own: its exit code, and what a person sees."""
    done = subprocess.run(
        [sys.executable, "-m", "cometmq", "admin", *words], capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr.replace("cometmq admin: ", "mqadmin: ")


@pytest.mark.parametrize(
    "words",
    ["updateTopic -c DefaultCluster -t no/topic", "updateSubGroup -c DefaultCluster -g no/group"],
)
def test_bad_names(site, words):
    code, _, err = site.attempt(*words.split())
    assert code == 2 and len(err.splitlines()) == 1


def test_without_a_name_server(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    code, _, err = attempt_elsewhere(["topicList"])
    assert code == 2 and "give -n host:port, or set NAMESRV_ADDR" in err
    code, _, err = attempt_elsewhere(["wipeWritePerm", "-b", "x"])
    assert code == 2 and "NAMESRV_ADDR" in err


def test_a_broker_that_refuses_is_one_of_the_outcomes(site):
    """All brokers are tried, and the exit code tells of the one that did not."""
    nobody = f"127.0.0.1:{ports.free_port()}"
    (change,) = site.ask("updateTopic", "-b", nobody, "-t", "T", code=1)
    assert change["at"] == nobody and change["outcome"].startswith("failed: no connection")


DRY = {
    "updateTopic": "-c {cluster} -t Dry",
    "deleteTopic": "-c {cluster} -t TBW102",
    "updateTopicPerm": "-c {cluster} -t TBW102 -p 2",
    "updateOrderConf": "-t Dry -m put -v broker-a:1",
    "updateSubGroup": "-c {cluster} -g dry",
    "deleteSubGroup": "-c {cluster} -g TOOLS_CONSUMER",
    "updateBrokerConfig": "-c {cluster} -k traceOn -v false",
    "sendMsgStatus": "-b broker-a",
    "sendMessage": "-t TBW102 -p dry",
    "checkMsgSendRT": "-t TBW102",
    "clusterRT": "-i 1",
    "cleanExpiredCQ": "-c {cluster}",
    "deleteExpiredCommitLog": "-c {cluster}",
    "cleanUnusedTopic": "-c {cluster}",
    "updateNamesrvConfig": "-k orderMessageEnable -v true",
    "wipeWritePerm": "-b broker-a",
    "addWritePerm": "-b broker-a",
    "updateKvConfig": "-s dry -k a -v b",
    "deleteKvConfig": "-s dry -k a",
    "updateAclConfig": "-c {cluster} -a someone -s something",
    "deleteAclConfig": "-c {cluster} -a someone",
    "updateGlobalWhiteAddr": "-c {cluster} -g 10.0.0.1",
    "exportMetadata": "-c {cluster} -f {folder}",
    "exportConfigs": "-c {cluster} -f {folder}",
    "exportMetrics": "-c {cluster} -f {folder}",
    "queryMsgById": "-i {place} -g dry -d somebody",
    "queryMsgByUniqueKey": "-t Seen -i {id} -g dry -d somebody",
}
# Those that move groups have their own tests.
ELSEWHERE = {"resetOffsetByTime", "skipAccumulatedMessage", "cloneGroupOffset", "offset reset"}


def test_every_change_can_be_dry():
    assert DRY.keys() | ELSEWHERE == {each.name for each in ALL if each.changes}


def test_dry_runs_change_nothing(site, tmp_path):
    sent = message_in_the_index(site)
    words = {"cluster": CLUSTER, "folder": tmp_path / "export"}
    words |= {"id": sent["msgId"], "place": sent["offsetMsgId"]}
    before = state(site)
    for name, text in DRY.items():
        given = text.format(**words).split()
        said = site.run(name, *given, "--dry-run")
        assert name == "clusterRT" or "not done: dry run" in said, said
    assert state(site) == before
    assert not (tmp_path / "export").exists()


def message_in_the_index(site):
    site.run("updateTopic", "-c", CLUSTER, "-t", "Seen")
    (sent,) = site.ask("sendMessage", "-t", "Seen", "-p", "to be looked at")
    deadline = time.monotonic() + WAIT_S_MAX
    while site.attempt("queryMsgByUniqueKey", "-t", "Seen", "-i", sent["msgId"])[0] != 0:
        assert time.monotonic() < deadline, "the broker does not find what it has taken"
        time.sleep(0.1)
    return sent


def state(site):
    status = site.ask("topicStatus", "-t", "TBW102")
    settings = site.ask("getBrokerConfig", "-b", site.broker.address)
    route = site.ask("topicRoute", "-t", "TBW102")
    names = site.ask("getNamesrvConfig")
    # The original's broker makes this one by itself, at its first look for half messages.
    topics = [name for name in site.ask("topicList") if name != HALF_TOPIC]
    return topics, status, settings, route, names
