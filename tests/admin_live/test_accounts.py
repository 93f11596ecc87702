"""Accounts: an Apache broker that has some lets its admin change them, and nobody else."""

import json
import time

import pytest

from peers.apache import ApacheBroker
from peers.comet import CometNamesrv

pytestmark = pytest.mark.apache

CLUSTER = "DefaultCluster"
ACCESS, SECRET = "the-admin", "a secret of theirs"
ACCOUNTS = f"""
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {ACCESS}
  secretKey: {SECRET}
  admin: true
"""
WAIT_S_MAX = 60


@pytest.fixture(scope="module")
def guarded(site_of, apache_class_path, tmp_path_factory):
    """A broker with accounts, and its folder."""
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "broker" / "conf").mkdir(parents=True)
    (folder / "broker" / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    with CometNamesrv(folder / "namesrv") as namesrv:
        broker = ApacheBroker(
            folder / "broker", namesrv=namesrv.address, conf={"aclEnable": "true"}
        ).start()
        yield site_of("guarded", namesrv.address, broker)
        broker.kill()


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setenv("COMETMQ_ACCESS_KEY", ACCESS)
    monkeypatch.setenv("COMETMQ_SECRET_KEY", SECRET)


def version(site):
    (row,) = site.ask("clusterAclConfigVersion", "-c", CLUSTER)
    assert (row["clusterName"], row["brokerName"]) == (CLUSTER, "broker-a")
    assert row["aclFilePath"].endswith("plain_acl.yml")
    return row["aclConfigVersionNum"]


def test_requests_without_an_account_are_refused(guarded, monkeypatch):
    monkeypatch.delenv("COMETMQ_ACCESS_KEY", raising=False)
    (change,) = guarded.ask("updateTopic", "-c", CLUSTER, "-t", "T", code=1)
    assert change["outcome"].startswith("failed: ")
    monkeypatch.setenv("COMETMQ_ACCESS_KEY", ACCESS)
    monkeypatch.setenv("COMETMQ_SECRET_KEY", "another secret")
    (change,) = guarded.ask("updateTopic", "-c", CLUSTER, "-t", "T", code=1)
    assert "ignature" in change["outcome"]


def test_the_admin_makes_and_removes_accounts(guarded, known):
    guarded.run("updateTopic", "-c", CLUSTER, "-t", "T")
    before = version(guarded)
    (change,) = guarded.ask(
        "updateAclConfig", "-c", CLUSTER, "-a", "somebody", "-s", "something", "-i", "DENY",
        "-u", "SUB", "-t", "T=PUB|SUB,U=DENY", "-g", "g=SUB", "-w", "10.0.0.*", "-m", "false",
    )  # fmt: skip
    assert change["outcome"] == "success"
    file = guarded.broker.folder / "conf" / "plain_acl.yml"
    assert "somebody" in file.read_text() and "T=PUB|SUB" in file.read_text()
    address = guarded.broker.address
    guarded.run("updateGlobalWhiteAddr", "-b", address, "-g", "10.10.103.*,192.168.0.*")
    assert "10.10.103.*" in file.read_text()
    guarded.run("deleteAclConfig", "-b", address, "-a", "somebody")
    assert "somebody" not in file.read_text()
    deadline = time.monotonic() + WAIT_S_MAX
    while version(guarded) <= before:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_cannot_be_an_account_is_refused(guarded, known):
    said = guarded.run("updateAclConfig", "-c", CLUSTER, "-a", "x", "-s", "y", "-o", "json", code=1)
    assert json.loads(said)[0]["outcome"].startswith("failed: ")


def test_a_broker_without_access_control_refuses(site):
    if site.kind == "apache":
        pytest.skip("Apache's does not answer at all, in 4.9.7")
    said = site.run("clusterAclConfigVersion", "-c", CLUSTER, code=1)
    assert "REQUEST_CODE_NOT_SUPPORTED" in said
