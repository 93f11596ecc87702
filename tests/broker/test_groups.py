"""Consumer groups: which are there from the start, which may be made, what is kept."""

import asyncio
from pathlib import Path

import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.errors import BadName
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.settings.live_settings import LiveSettings
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk

PATH = Path("/store/config/subscriptionGroup.json")


def table_on(disk, **config):
    settings = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", **config)
    live = LiveSettings((settings,), UPDATE_RULES, Path("/b.properties"), disk)
    table = GroupTable(disk, PATH, ManualClock(), live)
    table.load()
    return table


def test_groups_of_the_system_s_own_are_there():
    table = table_on(ShadowDisk())
    assert {"TOOLS_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY"} <= set(table.names())
    assert all(table.get(name).consume_broadcast_enable for name in table.names())


def test_an_unknown_group_is_found_as_it_would_be_and_made_by_keep_alone():
    table = table_on(ShadowDisk())
    version = table.body.data_version
    found = table.find("G")
    assert found == GroupConfig(group_name="G")
    assert (found.retry_queue_nums, found.retry_max_times) == (1, 16)
    assert table.get("G") is None
    assert table.body.data_version == version
    table.keep(found)
    table.keep(GroupConfig(group_name="G", retry_max_times=3))
    assert table.get("G") == found
    assert table.body.data_version.counter == version.counter + 1


def test_without_auto_creation_only_the_system_s_own_may_be_made():
    table = table_on(ShadowDisk(), auto_create_subscription_group=False)
    assert table.find("G") is None
    assert table.find("CID_RMQ_SYS_MINE") == GroupConfig(group_name="CID_RMQ_SYS_MINE")
    assert table.find("DEFAULT_CONSUMER") is not None
    table.put(GroupConfig(group_name="G", retry_max_times=3))
    assert table.find("G").retry_max_times == 3


def test_what_was_changed_is_there_after_a_restart():
    async def story():
        disk = ShadowDisk()
        table = table_on(disk)
        mine = GroupConfig(group_name="G", consume_enable=False, retry_queue_nums=3)
        table.put(mine)
        table.put(GroupConfig(group_name="Gone"))
        assert table.delete("Gone")
        assert not table.delete("Gone")
        version = table.body.data_version
        await table.file.save()
        again = table_on(disk)
        assert (again.get("G"), again.get("Gone")) == (mine, None)
        assert again.body.data_version == version

    asyncio.run(story())


@pytest.mark.parametrize("name", ["", "../x", "a b", "n" * 256, "T@G"])
def test_a_bad_name_is_never_a_group(name):
    table = table_on(ShadowDisk())
    before = table.body
    with pytest.raises(BadName):
        table.find(name)
    with pytest.raises(BadName):
        table.put(GroupConfig(group_name=name))
    assert table.body == before
