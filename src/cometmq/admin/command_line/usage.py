"""Parses the command line of the admin tool: the command, its arguments, the output format.

Common options may precede or follow the command. `-o json` selects the output format also for
commands with their own -o option: none of those accepts the name of a format.
"""

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from cometmq.admin.command_line import arguments as of
from cometmq.admin.command_line.command import AdminCommand
from cometmq.admin.command_line.commands import ALL
from cometmq.errors import BadSetting

FORMS = ("table", "json", "yaml", "csv")
_HELP = ("help", "-h", "--help")
_COLUMN = 24


class Asked(NamedTuple):
    """A parsed command line."""

    command: AdminCommand
    given: dict[str, Any]  # arguments of the command's function
    form: str | None  # None: the default format of the command
    common: dict[str, Any]  # common options that were given, by name


class _Parser(ArgumentParser):
    """Raises BadSetting with one line instead of printing a usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise BadSetting(f"{message} (see {self.prog} -h)")


def parse(words: Sequence[str], program: str) -> Asked | str:
    """The parsed command line, or the help text that it requests."""
    before, rest = _split(list(words))
    if not rest:
        if words and words[0] in _HELP[1:]:
            return listing(program)
        raise BadSetting(f"no command given: {program} help lists all commands")
    if rest[0] == _HELP[0]:
        return _parser(_found(rest[1:])[0], program).format_help() if rest[1:] else listing(program)
    command, after = _found(rest)
    if any(word in _HELP[1:] for word in after):
        return _parser(command, program).format_help()
    form, after = _form_in(after)
    parser = _parser(command, program)
    options = vars(_common_parser(program).parse_args(before)) | vars(parser.parse_args(after))
    names = {each.name for each in command.arguments}
    given = {name: options.pop(name) for name in names & options.keys()}
    _check_choice(command, given)
    return Asked(command, given, form or options.pop("output", None), options)


def listing(program: str) -> str:
    """A help text that lists all commands."""
    lines = [f"usage: {program} COMMAND [options]; {program} help COMMAND shows its options", ""]
    for command in ALL:
        name = "" if command.is_ours else command.name
        lines.append(f"  {command.plain:{_COLUMN}} {name:{_COLUMN}} {command.about}")
    return "\n".join(lines)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The options before the name of the command, and the words from the name on."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        takes_value = words[at] in _VALUED
        at += 2 if takes_value else 1
    return words[:at], words[at:]


def _found(words: list[str]) -> tuple[AdminCommand, list[str]]:
    """The command that the first one or two words name, and the words after it."""
    by_name = {name: each for each in ALL for name in (each.name, each.plain, *each.aliases)}
    for count in (2, 1):
        command = by_name.get(" ".join(words[:count]))
        if command is not None:
            return command, words[count:]
    from difflib import get_close_matches  # only needed for a typo

    near = get_close_matches(" ".join(words[:2]), by_name, 1) or get_close_matches(
        words[0], by_name, 1
    )
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise BadSetting(f"unknown command {words[0]}{hint}")


def _form_in(words: list[str]) -> tuple[str | None, list[str]]:
    """The output format that -o selects, and the other words."""
    for at, word in enumerate(words[:-1]):
        if word == "-o" and words[at + 1] in FORMS:
            return words[at + 1], words[:at] + words[at + 2 :]
    return None, words


def _check_choice(command: AdminCommand, given: dict[str, Any]) -> None:
    chosen = [name for name in command.one_of if name in given]
    if command.one_of and len(chosen) != 1:
        flags = [f"-{each.short}" for each in command.arguments if each.name in command.one_of]
        raise BadSetting(f"{command.name} needs exactly one of {' and '.join(flags)}")


def _parser(command: AdminCommand, program: str) -> _Parser:
    prog = f"{program} {command.name}"
    parser = _Parser(prog, description=f"{command.about}.", argument_default=SUPPRESS)
    for each in command.arguments:
        names = [f"--{each.long}"] if not each.short else [f"-{each.short}", f"--{each.long}"]
        optional: dict[str, Any] = {"nargs": "?", "const": True} if each.kind is of.flag else {}
        parser.add_argument(
            *names,
            dest=each.name,
            type=each.kind,
            required=each.is_required,
            help=each.about,
            metavar="VALUE",
            **optional,
        )
    used = {each.short for each in command.arguments}
    _add_common(parser, used, command.changes)
    return parser


def _common_parser(program: str) -> _Parser:
    parser = _Parser(program, argument_default=SUPPRESS, add_help=False)
    _add_common(parser, set(), True)
    return parser


# Options of every command: short and long name, parameter, parser (None: no value), help.
_COMMON = (
    (
        "n",
        "namesrvAddr",
        "name_servers",
        of.text,
        "Name servers, host:port;host:port (default: NAMESRV_ADDR)",
    ),
    ("o", "output", "output", of.one_of(*FORMS), "Output format: table, json, yaml or csv"),
    ("", "timeout", "timeout_ms", of.count, "Timeout per request in ms"),
    (
        "",
        "address-map",
        "address_map",
        of.text,
        "Reachable broker addresses: registered=real,registered=real",
    ),
    ("", "tls", "tls", None, "Connect with TLS"),
)
_DRY_RUN = ("", "dry-run", "dry_run", None, "Show what would be done, without doing it")
_VALUED = {
    name
    for short, long, _, kind, _ in _COMMON
    if kind is not None
    for name in (f"-{short}", f"--{long}")
}


def _add_common(parser: ArgumentParser, used: set[str], changes: bool) -> None:
    group = parser.add_argument_group("common options")
    for short, long, name, kind, about in (*_COMMON, *([_DRY_RUN] if changes else [])):
        names = [f"-{short}"] if short and short not in used else []
        names.append(f"--{long}")
        if kind is None:
            group.add_argument(*names, dest=name, action="store_true", help=about)
        else:
            group.add_argument(*names, dest=name, type=kind, help=about, metavar="VALUE")
