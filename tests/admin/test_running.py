"""Where the tool gets its settings from, and how it shows what comes bit by bit."""

import asyncio
import io
import json

import pytest

from cometmq.admin.command_line.command import AdminCommand
from cometmq.admin.command_line.running import _show_each, config_of
from cometmq.admin.rows import Row
from cometmq.errors import BadSetting


def test_name_servers_of_the_option_or_of_the_environment():
    environment = {"NAMESRV_ADDR": "a:1;b:2"}
    assert config_of({}, environment).name_servers == ("a:1", "b:2")
    assert config_of({"name_servers": "c:3"}, environment).name_servers == ("c:3",)
    assert config_of({}, {}).name_servers == ()
    with pytest.raises(BadSetting, match="'x' is not a valid address"):
        config_of({"name_servers": "x"}, {})


def test_account_of_the_environment_or_of_tools_yml(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("accessKey: RocketMQ\nsecretKey: 12345678\n")
    found = config_of({}, {"ROCKETMQ_HOME": str(tmp_path)})
    assert (found.access_key, found.secret_key) == ("RocketMQ", "12345678")
    own = {"COMETMQ_ACCESS_KEY": "mine", "COMETMQ_SECRET_KEY": "own"}
    found = config_of({}, {"ROCKETMQ_HOME": str(tmp_path)} | own)
    assert (found.access_key, found.secret_key) == ("mine", "own")
    assert config_of({}, {"ROCKETMQ_HOME": str(tmp_path / "no")}).access_key == ""


@pytest.mark.parametrize("text", ["- a", "a: [", "just text"])
def test_a_broken_tools_yml_is_reported(tmp_path, text):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(text)
    with pytest.raises(BadSetting, match=r"tools\.yml"):
        config_of({}, {"ROCKETMQ_HOME": str(tmp_path)})


def test_an_access_key_without_a_secret_key_is_rejected():
    with pytest.raises(BadSetting, match="belong together"):
        config_of({}, {"COMETMQ_ACCESS_KEY": "mine"})


def test_address_map():
    found = config_of({"address_map": "10.0.0.1:10911=127.0.0.1:10911, b:1=c:2"}, {})
    assert found.address_map == {"10.0.0.1:10911": "127.0.0.1:10911", "b:1": "c:2"}
    with pytest.raises(BadSetting, match="not a valid address"):
        config_of({"address_map": "10.0.0.1:10911"}, {})


class Item(Row, frozen=True):
    layout = "line"
    name: str


def shown(form, *items):
    async def come():
        for item in items:
            yield item

    out = io.StringIO()
    asyncio.run(_show_each(come(), form, out))
    return out.getvalue()


def test_rows_come_line_by_line():
    assert [json.loads(line) for line in shown("json", Item("a"), Item("b")).splitlines()] == [
        {"name": "a"}, {"name": "b"},
    ]  # fmt: skip
    assert shown("csv", Item("a"), Item("b")) == "name\na\nb\n"
    assert shown("table", Item("a"), Item("b")) == "NAME: a\nNAME: b\n"
    assert shown("yaml", Item("a"), Item("b")) == "- name: a\n- name: b\n"


def test_lists_are_documents():
    assert shown("yaml", ["a"], ["b"]) == "- a\n---\n- b\n"


def test_additional_commands_have_only_a_plain_name():
    assert AdminCommand("doctor", "doctor", "", "").is_ours
    assert not AdminCommand("topicList", "topic list", "", "").is_ours
