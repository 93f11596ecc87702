"""What the functions of this package return: rows, which know their columns and when they fail."""

from datetime import datetime
from typing import ClassVar

import msgspec

from cometmq.protocol.java.spelling import camel

SUCCESS = "success"
NOT_DONE = "not done: dry run"
_FAILED = "failed: "


class Time(int):
    """Milliseconds since 1970: a number to programs, local time to people.

    A peer may tell any number: one that no calendar has, as microseconds are, stays a number.
    """

    def __str__(self) -> str:
        try:
            second = datetime.fromtimestamp(self // 1000)
        except (ValueError, OverflowError, OSError):
            return str(int(self))
        return f"{second:%Y-%m-%d %H:%M:%S},{self % 1000:03d}"


def time_or_none(time_ms: int) -> Time | None:
    """Brokers say 0 or -1 where there is none."""
    return Time(time_ms) if time_ms > 0 else None


class Row(msgspec.Struct, frozen=True, rename=camel()):
    """One line of a table, or one thing with its parts. Field names make the headings."""

    layout: ClassVar[str] = "table"  # of several in text: as a table, in blocks, or in lines

    @property
    def is_failure(self) -> bool:
        """Something was asked for that is not so."""
        return getattr(self, "outcome", "").startswith(_FAILED)


class Change(Row, frozen=True):
    """What was done, and where."""

    at: str
    change: str
    outcome: str


def failed(error: Exception) -> str:
    """The outcome of what did not work."""
    return f"{_FAILED}{error}"


def is_failure(value: object) -> bool:
    """Is there a failure in what a command returned?"""
    if isinstance(value, list):
        return any(map(is_failure, value))
    if not isinstance(value, Row):
        return False
    parts = (getattr(value, name) for name in value.__struct_fields__)
    return value.is_failure or any(is_failure(part) for part in parts if isinstance(part, list))
