"""The results of admin functions: rows that define columns and whether they are failures."""

from datetime import datetime
from typing import ClassVar

import msgspec

from cometmq.protocol.java.spelling import camel

SUCCESS = "success"
NOT_DONE = "not done: dry run"
_FAILED = "failed: "


class Time(int):
    """Milliseconds since 1970: a number in JSON, YAML and CSV, local time in text.

    Numbers outside the range of the calendar, which a peer may send, are shown as numbers.
    """

    def __str__(self) -> str:
        try:
            second = datetime.fromtimestamp(self // 1000)
        except (ValueError, OverflowError, OSError):
            return str(int(self))
        return f"{second:%Y-%m-%d %H:%M:%S},{self % 1000:03d}"


def time_or_none(time_ms: int) -> Time | None:
    """The time, or None for 0 and -1, which brokers send for a missing time."""
    return Time(time_ms) if time_ms > 0 else None


class Row(msgspec.Struct, frozen=True, rename=camel()):
    """A line of a table, or an object with tables. Headings are made from the field names."""

    layout: ClassVar[str] = "table"  # text format of several rows: "table", "block" or "line"

    @property
    def is_failure(self) -> bool:
        """Does the row report a failure? Then the exit code is 1."""
        return getattr(self, "outcome", "").startswith(_FAILED)


class Change(Row, frozen=True):
    """A change at one server, and its outcome."""

    at: str
    change: str
    outcome: str


def failed(error: Exception) -> str:
    """The outcome text of a failed change."""
    return f"{_FAILED}{error}"


def is_failure(value: object) -> bool:
    """Does the result of a command contain a failure?"""
    if isinstance(value, list):
        return any(map(is_failure, value))
    if not isinstance(value, Row):
        return False
    parts = (getattr(value, name) for name in value.__struct_fields__)
    return value.is_failure or any(is_failure(part) for part in parts if isinstance(part, list))
