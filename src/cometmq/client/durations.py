"""Times as people give them, in milliseconds."""

from datetime import datetime, timedelta

from cometmq.errors import BadSetting

Timeout = int | timedelta | None  # a number is of ms; None is the client's own

_MILLISECOND = timedelta(milliseconds=1)


def duration_ms(given: int | timedelta) -> int:
    """Of a number of milliseconds or a timedelta; BadSetting if it is none, or less than none."""
    found = given // _MILLISECOND if isinstance(given, timedelta) else given
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise BadSetting(f"{given!r} is no time to wait: give milliseconds, or a timedelta")
    return found


def moment_ms(given: int | datetime) -> int:
    """Since 1970, of a number of milliseconds or a datetime; one without zone is local time."""
    if isinstance(given, datetime):
        return int(given.timestamp() * 1000)
    if not isinstance(given, int) or isinstance(given, bool):
        raise BadSetting(f"{given!r} is no moment: give a datetime, or milliseconds since 1970")
    return given
