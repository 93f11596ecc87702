"""Runs: adjacent commands of one read that can be served together."""

from collections.abc import Sequence

from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag

_RESPONSE = int(CommandFlag.RESPONSE)


def requests_end(commands: Sequence[Command], at: int) -> int:
    """The end of the requests with one code that begin at `at`."""
    code = commands[at].code
    for after in range(at + 1, len(commands)):
        command = commands[after]
        if command.code != code or command.flag & _RESPONSE:
            return after
    return len(commands)


def responses_end(commands: Sequence[Command], at: int, count_max: int) -> int:
    """The end of the responses that begin at `at`, at most `count_max` of them."""
    end = min(at + count_max, len(commands))
    for after in range(at + 1, end):
        if not commands[after].flag & _RESPONSE:
            return after
    return end
