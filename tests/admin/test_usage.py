"""Words of a command line: what they ask for, and what is wrong with them."""

import pytest

from cometmq.admin.command_line import usage
from cometmq.errors import BadSetting


def asked(text):
    found = usage.parse(text.split(), "mqadmin")
    assert isinstance(found, usage.Asked)
    return found


@pytest.mark.parametrize("text", [
    "updateTopic -c C -t T -r 4", "topic create -c C -t T -r 4",
    "updateTopic --clusterName C --topic T --readQueueNums 4",
    "updateTopic --clusterName=C --topic=T -r4", "updateTopic --cluster C --topic T -r 4",
])  # fmt: skip
def test_one_command_in_many_forms(text):
    found = asked(text)
    assert (found.command.name, found.form, found.common) == ("updateTopic", None, {})
    assert found.given == {"cluster": "C", "topic": "T", "read_queues": 4}


@pytest.mark.parametrize("text", [
    "-n a:1;b:2 -o json topicStatus -t T", "topicStatus -t T -n a:1;b:2 -o json",
    "topic status -o json -t T --namesrvAddr a:1;b:2", "--output json topicStatus -n a:1;b:2 -t T",
])  # fmt: skip
def test_common_options_before_and_after(text):
    found = asked(text)
    assert (found.form, found.common["name_servers"]) == ("json", "a:1;b:2")
    assert found.given == {"topic": "T"}


def test_an_o_of_rocketmqs_and_one_of_ours():
    found = asked("queryMsgByOffset -t T -b B -i 0 -o 7 -o csv")
    assert (found.given["offset"], found.form) == (7, "csv")
    assert asked("updateTopic -c C -t T -o true").given["order"] is True


def test_a_flag_may_have_a_value():
    assert asked("consumerStatus -g g -s").given["stacks"] is True
    assert asked("consumerStatus -g g -s true").given["stacks"] is True
    assert asked("consumerStatus -g g -s false").given["stacks"] is False


def test_dry_run_is_for_changes():
    assert asked("deleteTopic -t T -c C --dry-run").common["dry_run"] is True
    with pytest.raises(BadSetting, match="dry-run"):
        asked("topicStatus -t T --dry-run")


@pytest.mark.parametrize(("text", "why"), [
    ("", "no command is given"),
    ("topicLst", "is it topicList?"),
    ("topic lst", "is it topic list?"),
    ("frobnicate", "there is no command frobnicate"),
    ("topicStatus", "-t/--topic"),
    ("topicStatus -t", "expected one argument"),
    ("topicStatus -t T extra", "unrecognized arguments: extra"),
    ("topicStatus -t T --frob", "unrecognized arguments: --frob"),
    ("updateTopic -t T", "just one of -b and -c"),
    ("updateTopic -t T -c C -b a:1", "just one of -b and -c"),
    ("updateTopic -t T -c C -r 0", "0 is not from 1 to 65535"),
    ("updateTopic -t T -c C -r many", "'many' is no whole number"),
    ("updateTopic -t T -c C -o maybe", "'maybe' is neither true nor false"),
    ("updateTopic -t T -b nowhere", "'nowhere' is no address"),
    ("updateTopic -t T -c C -p 7", "'7' is not 2"),
    ("updateOrderConf -t T -m burn", "'burn' is none of put, get, delete"),
    ("resetOffsetByTime -g g -t T -s yesterday", "'yesterday' is no time"),
    ("topicList -o xml", "'xml' is none of"),
    ("help frobnicate", "there is no command"),
])  # fmt: skip
def test_what_is_wrong_is_told(text, why):
    with pytest.raises(BadSetting) as wrong:
        usage.parse(text.split(), "mqadmin")
    assert why in str(wrong.value)


@pytest.mark.parametrize("text", ["help", "-h", "--help"])
def test_help_lists_all(text):
    said = usage.parse([text], "mqadmin")
    assert all(each.plain in said and each.about in said for each in usage.ALL)


@pytest.mark.parametrize("text", ["help topicRoute", "topicRoute -h", "topic route --help"])
def test_help_of_one(text):
    said = usage.parse(text.split(), "mqadmin")
    assert "--topic" in said and "--namesrvAddr" in said and "--dry-run" not in said


@pytest.mark.parametrize("command", usage.ALL, ids=lambda each: each.name)
def test_every_command_has_help(command):
    said = usage.parse(["help", *command.name.split()], "mqadmin")
    assert all(f"--{each.long}" in said for each in command.arguments)
    assert ("--dry-run" in said) == command.changes
