"""Lists of settings name settings, and what may change live is read live."""

from cometmq.broker.config import CHANGEABLE, IMPORTANT, BrokerConfig
from cometmq.store.config import StoreConfig


def test_what_changes_while_it_runs_is_a_setting_and_never_where_or_who_it_is():
    fields = {*BrokerConfig.__struct_encode_fields__, *StoreConfig.__struct_encode_fields__}
    assert fields >= CHANGEABLE
    fixed = ("Path", "Port", "Name", "Dir", "IP", "Addr", "mappedFile", "maxHash", "maxIndex")
    assert [key for key in CHANGEABLE for part in fixed if part in key] == []


def test_the_important_ones_are_there():
    known = {*BrokerConfig.__struct_encode_fields__, *StoreConfig.__struct_encode_fields__}
    assert known >= IMPORTANT
