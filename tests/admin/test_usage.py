"""Parsing the command line of the admin tool."""

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
def test_all_spellings_of_one_command(text):
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


def test_the_output_option_beside_an_o_of_the_command():
    found = asked("queryMsgByOffset -t T -b B -i 0 -o 7 -o csv")
    assert (found.given["offset"], found.form) == (7, "csv")
    assert asked("updateTopic -c C -t T -o true").given["order"] is True


def test_a_flag_may_have_a_value():
    assert asked("consumerStatus -g g -s").given["stacks"] is True
    assert asked("consumerStatus -g g -s true").given["stacks"] is True
    assert asked("consumerStatus -g g -s false").given["stacks"] is False


def test_only_commands_that_change_something_have_dry_run():
    assert asked("deleteTopic -t T -c C --dry-run").common["dry_run"] is True
    with pytest.raises(BadSetting, match="dry-run"):
        asked("topicStatus -t T --dry-run")


@pytest.mark.parametrize(("text", "why"), [
    ("", "no command given"),
    ("topicLst", "did you mean topicList?"),
    ("topic lst", "did you mean topic list?"),
    ("frobnicate", "unknown command frobnicate"),
    ("topicStatus", "-t/--topic"),
    ("topicStatus -t", "expected one argument"),
    ("topicStatus -t T extra", "unrecognized arguments: extra"),
    ("topicStatus -t T --frob", "unrecognized arguments: --frob"),
    ("updateTopic -t T", "exactly one of -b and -c"),
    ("updateTopic -t T -c C -b a:1", "exactly one of -b and -c"),
    ("updateTopic -t T -c C -r 0", "0 is not from 1 to 65535"),
    ("updateTopic -t T -c C -r many", "'many' is not an integer"),
    ("updateTopic -t T -c C -o maybe", "'maybe' is neither true nor false"),
    ("updateTopic -t T -b nowhere", "'nowhere' is not an address"),
    ("updateTopic -t T -c C -p 7", "'7' is not 2"),
    ("updateOrderConf -t T -m burn", "'burn' is not one of put, get, delete"),
    ("resetOffsetByTime -g g -t T -s yesterday", "'yesterday' is not a time"),
    ("topicList -o xml", "'xml' is not one of"),
    ("help frobnicate", "unknown command"),
])  # fmt: skip
def test_bad_command_lines_are_rejected(text, why):
    with pytest.raises(BadSetting) as wrong:
        usage.parse(text.split(), "mqadmin")
    assert why in str(wrong.value)


@pytest.mark.parametrize("text", ["help", "-h", "--help"])
def test_help_lists_all_commands(text):
    said = usage.parse([text], "mqadmin")
    assert all(each.plain in said and each.about in said for each in usage.ALL)


@pytest.mark.parametrize("text", ["help topicRoute", "topicRoute -h", "topic route --help"])
def test_help_of_one_command(text):
    said = usage.parse(text.split(), "mqadmin")
    assert "--topic" in said and "--namesrvAddr" in said and "--dry-run" not in said


@pytest.mark.parametrize("command", usage.ALL, ids=lambda each: each.name)
def test_every_command_has_help(command):
    said = usage.parse(["help", *command.name.split()], "mqadmin")
    assert all(f"--{each.long}" in said for each in command.arguments)
    assert ("--dry-run" in said) == command.changes
