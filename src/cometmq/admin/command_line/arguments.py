"""Arguments of admin commands: their names, and parsers for their values."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any, NamedTuple

NOW = -1  # a time after all messages
_INT32_MAX = 2**31 - 1
_TIMES = (
    "%Y-%m-%d#%H:%M:%S:%f",
    "%Y-%m-%d#%H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S,%f",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%d",
)
_YES = {"true": True, "false": False}
_PERMISSIONS = {"2": 2, "4": 4, "6": 6, "W": 2, "R": 4, "RW": 6}

Kind = Callable[[str], Any]


class Argument(NamedTuple):
    """One option of a command. `short` and `long` are RocketMQ's unless `is_ours`."""

    short: str
    long: str
    name: str  # parameter of the command's function
    about: str
    kind: Kind
    is_required: bool = False
    is_ours: bool = False


def text(given: str) -> str:
    """A text without surrounding blanks; not empty."""
    found = given.strip()
    if not found:
        raise ArgumentTypeError("the value is empty")
    return found


def as_it_is(given: str) -> str:
    """A text with its blanks."""
    return given


def whole(least: int = 0, most: int = _INT32_MAX) -> Kind:
    """A parser of integers from `least` to `most`."""

    def read(given: str) -> int:
        try:
            found = int(given)
        except ValueError:
            raise ArgumentTypeError(f"{given!r} is not an integer") from None
        if not least <= found <= most:
            raise ArgumentTypeError(f"{found} is not from {least} to {most}")
        return found

    return read


count = whole(1)
index = whole(0)
offset = whole(0, 2**63 - 1)
shift = whole(-(2**63), 2**63 - 1)


def yes(given: str) -> bool:
    found = _YES.get(given.strip().lower())
    if found is None:
        raise ArgumentTypeError(f"{given!r} is neither true nor false")
    return found


def flag(given: str) -> bool:
    """Like `yes`; without a value the option means true."""
    return yes(given)


def permission(given: str) -> int:
    """A permission as a number (2, 4, 6) or as W, R, RW."""
    found = _PERMISSIONS.get(given.strip().upper())
    if found is None:
        raise ArgumentTypeError(f"{given!r} is not 2 (write), 4 (read) or 6 (both)")
    return found


def address(given: str) -> str:
    """The host:port of a broker."""
    host, _, port = given.strip().rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ArgumentTypeError(f"{given!r} is not an address like 127.0.0.1:10911")
    return given.strip()


def time(given: str) -> int:
    """Milliseconds since 1970, from that number, from `now`, or from a local time."""
    given = given.strip()
    if given == "now":
        return NOW
    if given.removeprefix("-").isdigit():
        return int(given)
    from datetime import datetime

    for form in _TIMES:
        try:
            return int(datetime.strptime(given, form).astimezone().timestamp() * 1000)
        except ValueError:
            continue
    raise ArgumentTypeError(
        f"{given!r} is not a time: use now, milliseconds, or 2026-01-31#23:59:59:000"
    )


def one_of(*choices: str) -> Kind:
    """A parser that accepts only these words."""

    def read(given: str) -> str:
        if given.strip() not in choices:
            raise ArgumentTypeError(f"{given!r} is not one of {', '.join(choices)}")
        return given.strip()

    return read
