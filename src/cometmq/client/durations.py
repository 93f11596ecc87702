"""Durations and points in time as the public API accepts them, converted to milliseconds.

The public Python API takes durations in seconds (`int`, `float`) or as `timedelta`. Everything
below it works with whole milliseconds. `duration_ms` converts the first form to the second;
`parse_duration_ms` reads text such as `30s`, as in Spark options and on the command line.
"""

import math
import re
from datetime import datetime, timedelta

from cometmq.errors import BadSetting

Duration = float | timedelta
Timeout = Duration | None  # None: the client's configured timeout

DURATION_FORMS = "a number of seconds or a timedelta"
_MILLISECOND = timedelta(milliseconds=1)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONG_UNITS = {
    "millisecond": "ms",
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hour": "h",
    "day": "d",
}
_TIMESTAMP = "%Y%m%d%H%M%S"  # local time, as Java's consumeTimestamp
_DURATION_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII)


def duration_ms(given: Duration, name: str = "timeout") -> int:
    """Convert seconds or a timedelta to the nearest whole millisecond.

    Raises BadSetting, with the argument's `name`, for a negative value, NaN, infinity, a bool or
    any other type.
    """
    if isinstance(given, timedelta):
        found = round(given / _MILLISECOND)
    elif isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        found = round(given * 1000)
    else:
        found = -1
    if found < 0 or given != abs(given):
        raise BadSetting(f"{name} is {given!r}: it must be {DURATION_FORMS}, 0 or more")
    return found


def optional_duration_ms(given: Timeout, name: str = "timeout") -> int | None:
    """Convert like `duration_ms`; None stays None."""
    return None if given is None else duration_ms(given, name)


def parse_duration_ms(name: str, text: str) -> int:
    """Parse `500ms`, `30s`, `1.5 minutes`, `2h` or `1d`; a bare number is milliseconds.

    A bare number has the same unit as in Spark's own options. Raises BadSetting, with the option's
    `name`, for any other text.
    """
    found = _DURATION_TEXT.fullmatch(text.lower())
    unit = found[2] if found else "none"
    unit = _LONG_UNITS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit or "ms")
    if found is None or unit not in _UNITS_MS:
        raise BadSetting(
            f"{name} is {text!r}: it must be a duration such as 500ms, 30s, 10 minutes, 2h or 1d"
        )
    return round(float(found[1]) * _UNITS_MS[unit])


def moment_ms(given: int | datetime, name: str = "time") -> int:
    """Convert a datetime to milliseconds since 1970; a datetime without a zone is local time.

    An int is returned unchanged. Raises BadSetting, with the argument's `name`, for other types.
    """
    if isinstance(given, datetime):
        return int(given.timestamp() * 1000)
    if not isinstance(given, int) or isinstance(given, bool):
        raise BadSetting(f"{name} is {given!r}: it must be a datetime or milliseconds since 1970")
    return given


def parse_timestamp(text: str) -> datetime:
    """Parse Java's `consumeTimestamp`: yyyyMMddHHmmss, local time."""
    try:
        return datetime.strptime(text, _TIMESTAMP).astimezone()
    except ValueError as error:
        raise BadSetting(f"{text!r} is not a time such as 20260131235959") from error
