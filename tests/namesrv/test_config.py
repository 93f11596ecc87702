"""Settings of a name server, and which of them a request may change."""

import pytest

from cometmq.namesrv.config import CHANGEABLE, NamesrvConfig
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.java import parse_properties
from cometmq.settings import as_texts

PATHS = {"kv_config_path": "k", "config_store_path": "c"}
EVERY_KEY = sorted(NamesrvConfig.__struct_encode_fields__)


def shown(desk):
    return parse_properties(desk.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode())


def test_all_settings_are_shown_but_no_secret(desk):
    found = shown(desk)
    assert found["orderMessageEnable"] == "false"
    assert found["listenPort"] == "9876"
    assert "tls.server.keyPassword" not in found
    assert found.keys() == as_texts(desk.config).keys() - {"tls.server.keyPassword"}


@pytest.mark.parametrize("key", [*EVERY_KEY, "rocketmqHome", "configBlackList", "nonsense"])
def test_only_listed_keys_change_and_nothing_else_is_written(desk, tmp_path, key):
    before, files = shown(desk), sorted(tmp_path.iterdir())
    reply = desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"{key}=true\n".encode())
    if key in CHANGEABLE:
        assert reply.code == 0
        assert shown(desk) == before | {key: "true"}
        kept = parse_properties((tmp_path / "namesrv.properties").read_text())
        assert kept[key] == "true"
    else:
        assert reply.code == ResponseCode.NO_PERMISSION
        assert key in reply.remark
        assert shown(desk) == before
        assert sorted(tmp_path.iterdir()) == files


def test_one_barred_key_keeps_all_the_others_out(desk):
    before = shown(desk)
    body = b"productEnvName=other\nkvConfigPath=elsewhere\n"
    assert desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body).code == ResponseCode.NO_PERMISSION
    assert shown(desk) == before


@pytest.mark.parametrize("body", [b"orderMessageEnable=perhaps", b"\xff\xfe=1"])
def test_a_bad_value_is_told_and_changes_nothing(desk, body):
    before = shown(desk)
    reply = desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert shown(desk) == before
