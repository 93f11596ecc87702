"""getBrokerConfig and getNamesrvConfig showed only the settings that have an effect here.

Apache's servers show all of them; tools of Apache look for them.
"""

import re

import pytest

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.values import parse_properties
from peers.admin import AdminShell
from peers.apache import ApacheBroker, ApacheNamesrv
from peers.comet import CometBroker, CometNamesrv
from peers.configured import ask, shown, update

pytestmark = pytest.mark.apache

# Settings that Apache's servers do not have.
OURS = {
    "bindAddress", "tls.server.mode", "tls.server.certPath", "tls.server.keyPath",
    "tls.server.trustCertPath",
}  # fmt: skip
OURS_OF_BROKERS = {"brokerConfigPath", "tls.client.authServer", "tls.client.trustCertPath"}
OURS_OF_NAMESRVS = {"brokerChannelExpiredTime", "scanNotActiveBrokerInterval"}
# Values that each server has of its own.
PLACES = {
    "storePathRootDir", "storePathCommitLog", "rocketmqHome", "listenPort", "haListenPort",
    "kvConfigPath", "configStorePath",
}  # fmt: skip
ELSEWHERE = {"flushDelayOffsetInterval": "1000"}  # a kill -9 repeats at most the last second


class KeptBroker(CometBroker):
    """A later start uses the settings file as it then is."""

    def _arguments(self):
        path = self.folder / "broker.conf"
        return ["broker", "-c", str(path)] if path.exists() else super()._arguments()


@pytest.fixture(scope="module")
def servers(apache_class_path, tmp_path_factory):
    """Apache's and ours: a name server and a broker each, by the names of the kinds."""
    folder = tmp_path_factory.mktemp("servers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROCKETMQ_HOME", str(folder))
        with (
            ApacheNamesrv(folder / "an") as apache_namesrv,
            CometNamesrv(folder / "on") as namesrv,
            ApacheBroker(folder / "ab", namesrv=apache_namesrv.address) as apache_broker,
            KeptBroker(folder / "ob", namesrv=namesrv.address) as broker,
        ):
            yield {
                "namesrv": (apache_namesrv, namesrv, RequestCode.GET_NAMESRV_CONFIG),
                "broker": (apache_broker, broker, RequestCode.GET_BROKER_CONFIG),
            }


@pytest.mark.parametrize(
    ("kind", "more"), [("broker", OURS_OF_BROKERS), ("namesrv", OURS_OF_NAMESRVS)]
)
def test_the_keys_and_defaults_are_those_of_apache(servers, kind, more):
    *both, code = servers[kind]
    theirs, ours = (parse_properties(ask(each.address, code).body.decode()) for each in both)
    assert ours.keys() == theirs.keys() | OURS | more
    assert len(theirs) == {"broker": 177, "namesrv": 20}[kind]
    compared = theirs.keys() - PLACES - {"namesrvAddr"}
    wanted = {key: theirs[key] for key in compared} | (ELSEWHERE if kind == "broker" else {})
    assert {key: ours[key] for key in compared} == wanted
    if kind == "broker":
        assert int(ours["haListenPort"]) == int(ours["listenPort"]) + 1


def test_an_admin_of_apache_sees_changes_and_stores_a_setting_without_effect(servers):
    key = "waitTimeMillsInPullQueue"
    _, broker, _ = servers["broker"]
    _, namesrv, _ = servers["namesrv"]
    with AdminShell(namesrv.address) as shell:

        def value(name):
            said = shell.run("getBrokerConfig", "-b", broker.address)
            return dict(re.findall(r"^(\S+)\s*=[ ]*(\S*)", said, re.MULTILINE))[name]

        assert value(key) == "5000"
        words = ("updateBrokerConfig", "-b", broker.address, "-k")
        assert "success" in shell.run(*words, key, "-v", "1234")
        assert value(key) == "1234"
        refused = shell.run(*words, "rocketmqHome", "-v", "/x", fails=True)
        assert "rocketmqHome cannot be changed by a request: " in refused
        assert "success" in shell.run("updateNamesrvConfig", "-k", "serverWorkerThreads", "-v", "3")
        assert re.search(r"serverWorkerThreads\s*=\s*3", shell.run("getNamesrvConfig"))
    conf = (broker.folder / "broker.conf").read_text()
    assert conf.splitlines()[-1] == f"{key}=1234"
    broker.stop()
    broker.start()
    assert shown(broker)[key] == "1234"


def test_apache_ignores_what_is_refused_here(servers):
    """It answers with success to an unknown key and to a bad value, and changes nothing."""
    apache, ours, code = servers["broker"]
    update_code = RequestCode.UPDATE_BROKER_CONFIG
    before = [ask(each.address, code).body for each in (apache, ours)]
    for text, named in (
        ("nonsense=1", "unknown setting nonsense"),
        ("waitTimeMillsInPullQueue=abc", "waitTimeMillsInPullQueue=abc: expected an integer"),
        ("brokerPermission=99999999999", "brokerPermission=99999999999: expected an integer"),
        ("flushDiskType=NOPE", "flushDiskType=NOPE: expected ASYNC_FLUSH or SYNC_FLUSH"),
    ):
        assert ask(apache.address, update_code, text.encode()).code == 0, text
        reply = update(ours, text)
        assert (reply.code, reply.remark.startswith(named)) == (1, True), reply.remark
    assert [ask(each.address, code).body for each in (apache, ours)] == before
