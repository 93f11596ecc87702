"""Lists of settings name settings, and what may change live is read live."""

import pytest

from cometmq.broker.config import CHANGEABLE, IMPORTANT, BrokerConfig
from cometmq.broker.identity import identity_of
from cometmq.errors import BadSetting
from cometmq.protocol.hosts import Host
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles


def test_what_changes_while_it_runs_is_a_setting_and_never_where_or_who_it_is():
    fields = {*BrokerConfig.__struct_encode_fields__, *StoreConfig.__struct_encode_fields__}
    assert fields >= CHANGEABLE
    fixed = ("Path", "Port", "Name", "Dir", "IP", "Addr", "mappedFile", "maxHash", "maxIndex")
    assert [key for key in CHANGEABLE for part in fixed if part in key] == []


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


def test_a_name_that_nobody_knows_is_refused():
    with pytest.raises(BadSetting, match=r"brokerIP1=nobody\.invalid: "):
        identity_of(BrokerConfig(broker_name="b", broker_ip1="nobody.invalid"), 10911)


def test_a_log_in_several_folders_is_refused():
    with pytest.raises(BadSetting, match=r"storePathCommitLog=/a,/b: .* one folder"):
        StoreFiles.of(StoreConfig(store_path_root_dir="/s", store_path_commit_log="/a,/b"))
