"""The table of commands: it has RocketMQ's names and flags, and functions that fit."""

import inspect
import re

import pytest

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.commands import ALL
from cometmq.admin.command_line.running import function_of
from peers.admin import AdminShell
from peers.apache import mqadmin

REMOVED_LATER = {"getAclConfig"}  # of 4.9.7; 4.9.8 has it no more, as it told secrets
OF_ALL = {("h", "help", False), ("n", "namesrvAddr", True)}
# One option in a line of help: -b,--brokerAddr <arg>   what it is
OPTION = re.compile(r"^ -(\w),--([\w ]+?) *(<arg>)?(?:   |$)", re.MULTILINE)


def test_there_are_56_of_rocketmqs():
    assert len([each for each in ALL if not each.is_ours]) == 56


def test_names_are_unique():
    names = [name for each in ALL for name in {each.name, each.plain, *each.aliases}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("command", ALL, ids=lambda each: each.name)
def test_a_function_takes_what_its_command_gives(command):
    """All of it; and it needs nothing but what the command requires."""
    parameters = dict(inspect.signature(function_of(command.function)).parameters)
    del parameters["admin"]
    assert {each.name for each in command.arguments} == parameters.keys()
    needed = {name for name, each in parameters.items() if each.default is inspect.Parameter.empty}
    assert needed == {each.name for each in command.arguments if each.is_required}
    assert set(command.one_of) <= parameters.keys()


@pytest.mark.parametrize("command", ALL, ids=lambda each: each.name)
def test_flags_are_told_apart(command):
    shorts = [each.short for each in command.arguments if each.short]
    longs = [each.long for each in command.arguments]
    assert len(shorts) == len(set(shorts)) and len(longs) == len(set(longs))
    assert not set(shorts) & {"h", "n"}
    assert all(each.is_ours or each.short for each in command.arguments)


@pytest.fixture(scope="module")
def apaches(apache_class_path):
    """By command: its options, and those that must be given, as its own help tells them."""
    names = set(re.findall(r"^   (\w+) ", mqadmin().stdout, re.MULTILINE)) - REMOVED_LATER
    found = {}
    with AdminShell("127.0.0.1:1") as shell:
        for name in names:
            said = shell.say("help", name)
            usage, _, options = said.partition("\n -")
            # What stands in brackets may be left out; what stands beside a bar is a choice.
            required = re.sub(r"\[[^]]*\]|-\w\s+<arg>\s+\|\s+-\w\s+<arg>", "", usage)
            found[name] = (
                {
                    (short, long, bool(takes))
                    for short, long, takes in OPTION.findall(f" -{options}")
                },
                set(re.findall(r"-(\w)\s+<arg>", required)),
                set(re.findall(r"-(\w)\s+<arg>\s+\|\s+-(\w)", usage)),
            )
    return found


@pytest.mark.apache
def test_names_are_apaches(apaches):
    assert apaches.keys() == {each.name for each in ALL if not each.is_ours}


@pytest.mark.apache
@pytest.mark.parametrize(
    "command", [each for each in ALL if not each.is_ours], ids=lambda e: e.name
)
def test_flags_are_apaches(apaches, command):
    options, required, choices = apaches[command.name]
    own = [each for each in command.arguments if not each.is_ours]
    assert {(each.short, each.long, each.kind is not of.flag) for each in own} | OF_ALL == options
    assert {each.short for each in own if each.is_required} == required
    assert len(choices) <= 1
    for pair in choices:
        assert {each.short for each in own if each.name in command.one_of} == set(pair)
