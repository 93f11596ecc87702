"""Commands of one read that stand side by side and can be served together."""

from collections.abc import Sequence

from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag

_RESPONSE = int(CommandFlag.RESPONSE)


def requests_end(commands: Sequence[Command], at: int) -> int:
    """Where the requests end, from `at` on, that have one code."""
    code = commands[at].code
    for after in range(at + 1, len(commands)):
        command = commands[after]
        if command.code != code or command.flag & _RESPONSE:
            return after
    return len(commands)


def responses_end(commands: Sequence[Command], at: int, count_max: int) -> int:
    """Where the responses end, from `at` on, or the first so many of them."""
    end = min(at + count_max, len(commands))
    for after in range(at + 1, end):
        if not commands[after].flag & _RESPONSE:
            return after
    return end
