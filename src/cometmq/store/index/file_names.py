"""Names of index files: the local time of creation, yyyyMMddHHmmssSSS."""

from datetime import datetime, timedelta

_NAME_DIGITS = 17
_NAME_FORMAT = "%Y%m%d%H%M%S%f"  # the last three of its 20 digits are cut off


def next_name(newest: str, now_ms: int) -> str:
    """A name for a new file that sorts after `newest`, also when the clock was set back."""
    now = datetime.fromtimestamp(now_ms / 1000)
    if newest >= _name_of(now):
        now = datetime.strptime(newest, _NAME_FORMAT) + timedelta(milliseconds=1)
    return _name_of(now)


def is_index_name(name: str) -> bool:
    """Whether a file of this name can belong to the index.

    Names of the year 9999 are rejected: every name needs a successor.
    """
    try:
        return _name_of(datetime.strptime(name, _NAME_FORMAT)) == name < "9999"
    except ValueError:
        return False


def _name_of(moment: datetime) -> str:
    return moment.strftime(_NAME_FORMAT)[:_NAME_DIGITS]
