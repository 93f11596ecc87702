"""updateBrokerConfig rewrote the `-c` file of the operator.

Its comments were gone, a hundred defaults were frozen in it, and keys without effect were deleted.
"""

import asyncio
import os
from pathlib import Path

import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.settings.live_settings import LiveSettings
from crash.shadow_disk import ShadowDisk
from peers.configured import ConfiguredBroker, ConfiguredNamesrv, shown, update

# Comments, blank lines, both line ends, a continuation, escapes, a key twice, one without effect.
BEFORE = b"""\
# Broker of the shop. Caf\xc3\xa9.
  ! another comment = not a setting

brokerName : broker-a\r
traceOn=true
abortFile=/somewhere
messageDelayLevel = 1s 5s \\
    10s 30s
sendMessageThreadPoolNums=16
r\\u0065gionId=first
regionId   second\\u00e9
transactionCheckMax=15   """
AFTER = BEFORE.replace(b"traceOn=true", b"traceOn=false").replace(
    b"regionId   second\\u00e9", b"regionId   a\\\\b \\u4e2d"
)
CHANGES = "traceOn=false\nregionId=a\\\\b 中\nwaitTimeMillsInPullQueue=1234\nmaxMessageSize=65536\n"
ADDED = b"\nwaitTimeMillsInPullQueue=1234\nmaxMessageSize=65536\n"
NAMESRV = b"# Ours.\n\norderMessageEnable: false\r\nserverWorkerThreads=8 \nkvConfigPath=here\n"


def test_of_a_broker_only_the_changed_values_differ(tmp_path):
    file = tmp_path / "broker.conf"
    file.write_bytes(BEFORE)
    file.chmod(0o600)
    with ConfiguredBroker(tmp_path, "-c", str(file)) as broker:
        assert update(broker, CHANGES).code == 0
    assert file.read_bytes() == AFTER + ADDED
    backup = tmp_path / "broker.conf.bak"
    assert backup.read_bytes() == BEFORE
    assert [path.stat().st_mode & 0o777 for path in (file, backup)] == [0o600, 0o600]
    with broker:
        found = shown(broker)
        assert (found["traceOn"], found["regionId"]) == ("false", "ab 中")  # as Java reads it
        assert (found["waitTimeMillsInPullQueue"], found["maxMessageSize"]) == ("1234", "65536")
        assert found["messageDelayLevel"] == "1s 5s 10s 30s"


def test_of_a_name_server_only_the_changed_values_differ(tmp_path):
    file = tmp_path / "namesrv.conf"
    file.write_bytes(NAMESRV)
    with ConfiguredNamesrv(tmp_path, "-c", str(file)) as server:
        assert update(server, "orderMessageEnable=true\nproductEnvName=shop").code == 0
        assert update(server, "orderMessageEnable=true").code == 0
    after = NAMESRV.replace(b"Enable: false", b"Enable: true") + b"productEnvName=shop\n"
    assert file.read_bytes() == after
    assert (tmp_path / "namesrv.conf.bak").read_bytes() == NAMESRV


def test_a_refused_request_leaves_the_file_and_its_time(tmp_path):
    file = tmp_path / "broker.conf"
    file.write_bytes(BEFORE)
    before = file.stat().st_mtime_ns
    with ConfiguredBroker(tmp_path, "-c", str(file)) as broker:
        for text in ("traceOn=false\nlistenPort=1", "traceOn=false\nmaxMessageSize=many"):
            assert update(broker, text).code != 0
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (BEFORE, before)
    assert [path.name for path in tmp_path.glob("broker.conf*")] == ["broker.conf"]


def test_the_backup_is_written_first(monkeypatch):
    """A crash between the two leaves the settings as they were."""
    disk, file = ShadowDisk(), Path("/conf/broker.conf")
    disk.replace(file, b"traceOn=true\n")
    replaced = []
    replace = disk.replace

    def noted(path, content):
        replaced.append((path.name, content))
        replace(path, content)

    monkeypatch.setattr(disk, "replace", noted)
    config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1")
    asyncio.run(LiveSettings((config,), UPDATE_RULES, file, disk).update(b"traceOn=false"))
    assert replaced == [("broker.conf.bak", b"traceOn=true\n"), ("broker.conf", b"traceOn=false\n")]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    folder = tmp_path / "conf"
    folder.mkdir()
    file = folder / "broker.conf"
    file.write_bytes(BEFORE)
    folder.chmod(0o500)
    with ConfiguredBroker(tmp_path, "-c", str(file)) as broker:
        reply = update(broker, "traceOn=false")
        assert f"nothing is changed, as {file} cannot be replaced" in reply.remark
        assert shown(broker)["traceOn"] == "true"
    assert file.read_bytes() == BEFORE
