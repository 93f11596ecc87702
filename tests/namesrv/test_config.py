"""Settings of a name server, and which of them a request may change."""

from collections import Counter

import pytest

from cometmq.namesrv.config import UPDATE_RULES, NamesrvConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.java.values import parse_properties
from cometmq.settings.settings import as_texts
from cometmq.settings.unused_settings import FixedServerConfig, IgnoredServerConfig

PATHS = {"kv_config_path": "k", "config_store_path": "c"}
SHAPES = (NamesrvConfig, IgnoredServerConfig, FixedServerConfig)
EVERY_KEY = sorted(key for shape in SHAPES for key in shape.__struct_encode_fields__)


def shown(desk):
    return parse_properties(desk.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode())


def test_all_settings_are_shown_but_no_secret(desk):
    found = shown(desk)
    assert found["orderMessageEnable"] == "false"
    assert found["listenPort"] == "9876"
    assert "tls.server.keyPassword" not in found
    texts = [as_texts(each) for each in (desk.config, IgnoredServerConfig(), FixedServerConfig())]
    assert found.keys() == set().union(*texts) - {"tls.server.keyPassword"}


@pytest.mark.parametrize("key", [*EVERY_KEY, "configBlackList"])
def test_only_listed_keys_change_and_nothing_else_is_written(desk, tmp_path, key):
    before, files = shown(desk), sorted(tmp_path.iterdir())
    value = {"true": "false", "false": "true"}.get(before.get(key, ""), "12345")
    reply = desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"{key}={value}\n".encode())
    if key in UPDATE_RULES.accepted:
        assert reply.code == 0
        assert shown(desk) == before | {key: value}
        assert (tmp_path / "namesrv.properties").read_text() == f"{key}={value}\n"
    else:
        assert reply.code == ResponseCode.NO_PERMISSION
        assert reply.remark.startswith(f"{key} cannot be changed by a request: ")
        assert shown(desk) == before
        assert sorted(tmp_path.iterdir()) == files


def test_each_setting_has_one_rule_for_updates():
    rules = UPDATE_RULES
    kinds = (rules.live, rules.next_start, rules.without_effect, frozenset(rules.refused))
    counted = Counter(key for keys in kinds for key in keys)
    assert counted == Counter({*EVERY_KEY, "configBlackList"})


def test_one_barred_key_keeps_all_the_others_out(desk):
    before = shown(desk)
    body = b"productEnvName=other\nkvConfigPath=elsewhere\n"
    assert desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body).code == ResponseCode.NO_PERMISSION
    assert shown(desk) == before


@pytest.mark.parametrize("body", [b"orderMessageEnable=perhaps", b"\xff\xfe=1", b"nonsense=1"])
def test_a_bad_value_is_reported_and_changes_nothing(desk, body):
    before = shown(desk)
    reply = desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert shown(desk) == before
