"""Lists of settings name settings, and what may change live is read live."""

from collections import Counter

import pytest

from cometmq.broker.config import IMPORTANT, BrokerConfig
from cometmq.broker.tables.identity import identity_of
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.errors import BadSetting
from cometmq.protocol.records.hosts import Host
from cometmq.settings.unused_settings import FixedBrokerConfig, IgnoredBrokerConfig
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles

SHAPES = (BrokerConfig, StoreConfig, IgnoredBrokerConfig, FixedBrokerConfig)


def test_each_setting_has_one_rule_for_updates():
    rules = UPDATE_RULES
    kinds = (rules.live, rules.next_start, rules.without_effect, frozenset(rules.refused))
    counted = Counter(key for keys in kinds for key in keys)
    fields = {key for shape in SHAPES for key in shape.__struct_encode_fields__}
    assert counted == Counter(fields | {"configBlackList"})


def test_updates_of_paths_ports_names_roles_and_guards_are_refused():
    accepted = UPDATE_RULES.accepted
    fixed = ("Path", "Port", "Name", "Dir", "IP", "Addr", "Home", "PlugIn", "Role", "Leger")
    fixed += ("mappedFile", "maxHash", "maxIndex", "brokerId", "Ledger", "Leader", "TLS", "Master")
    # This one is about the time between registrations.
    harmless = {"registerNameServerPeriod"}
    assert {key for key in accepted for part in fixed if part in key} == harmless
    assert [key for key in accepted if key.startswith(("acl", "tls.", "ha", "filterServer"))] == []
    assert [key for key in accepted if key.endswith("ConfigPath")] == []


def test_the_important_ones_are_there():
    known = {*BrokerConfig.__struct_encode_fields__, *StoreConfig.__struct_encode_fields__}
    assert known >= IMPORTANT


@pytest.mark.parametrize(
    ("given", "told", "number"),
    [
        ("127.0.0.3", "127.0.0.3", "127.0.0.3"),
        ("localhost", "localhost", "127.0.0.1"),
        ("[::1]", "::1", "::1"),
    ],
)
def test_a_broker_may_be_told_by_its_name(given, told, number):
    identity = identity_of(BrokerConfig(broker_name="b", broker_ip1=given), 10911)
    assert (identity.address, identity.host) == (f"{told}:10911", Host(number, 10911))


def test_an_unknown_name_is_refused():
    with pytest.raises(BadSetting, match=r"brokerIP1=nobody\.invalid: "):
        identity_of(BrokerConfig(broker_name="b", broker_ip1="nobody.invalid"), 10911)


def test_a_log_in_several_folders_is_refused():
    with pytest.raises(BadSetting, match=r"storePathCommitLog=/a,/b: .* one folder"):
        StoreFiles.of(StoreConfig(store_path_root_dir="/s", store_path_commit_log="/a,/b"))
