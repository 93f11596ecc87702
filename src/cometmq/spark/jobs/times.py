"""Times as people write them: how long, and when."""

import re
from datetime import UTC, datetime

from cometmq.errors import BadSetting

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONG = {"millisecond": "ms", "sec": "s", "second": "s", "min": "m", "minute": "m"}
_LONG |= {"hour": "h", "day": "d"}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")


def duration_ms(option: str, text: str) -> int:
    """`500ms`, `30s`, `10 minutes`; BadSetting, with the name of the option, if it is none."""
    found = _DURATION.fullmatch(text.lower())
    unit = found[2] if found else ""
    unit = _LONG.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
    if found is None or unit not in _UNITS_MS:
        raise BadSetting(f"option {option} is {text!r}: such as 500ms, 30s, 10 minutes, 2h or 1d")
    return int(found[1]) * _UNITS_MS[unit]


def in_spark(time_ms: int) -> str:
    """As Spark reads an interval."""
    return f"{time_ms} milliseconds"


def moment_ms(option: str, text: str) -> int:
    """`2026-05-01`, `2026-05-01T10:30`, with a zone or in UTC: milliseconds since 1970."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadSetting(
            f"option {option} is {text!r}: such as 2026-05-01 or 2026-05-01T10:30, in UTC"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
