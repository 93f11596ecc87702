"""Some properties of several messages as columns: names, and one value per message.

Most producers set the same properties in the same order for all messages. One pattern then
finds the values in the joined texts: 0.7 us a message; searching each text takes 1.3.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from cometmq.protocol.records.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

_BETWEEN = PROPERTY_SEPARATOR * 2  # two messages: no usual text has an empty property
_VALUE = f"[^{NAME_VALUE_SEPARATOR}{PROPERTY_SEPARATOR}]++"

Layout = tuple["re.Pattern[str]", tuple[str, ...]]  # the names whose values the pattern finds


def property_columns(texts: Sequence[str], wanted: tuple[str, ...]) -> dict[str, list[str]] | None:
    """Values by wanted name, without the names that no text has.

    None unless all texts have the same names, once, in the same order, and no empty value.
    """
    names = [each.partition(NAME_VALUE_SEPARATOR)[0] for each in texts[0].split(PROPERTY_SEPARATOR)]
    layout = _layout(tuple(names), wanted)
    if layout is None:
        return None
    pattern, found = layout
    count, width = len(texts), len(names)
    whole = _BETWEEN + _BETWEEN.join(texts)
    # With these counts, `count` matches have all separators, so each is a whole text.
    if (
        whole.count(NAME_VALUE_SEPARATOR) != count * width
        or whole.count(PROPERTY_SEPARATOR) != count * (width + 1)
        or len(rows := pattern.findall(whole)) != count
    ):
        return None
    columns = [rows] if len(found) == 1 else map(list, zip(*rows, strict=True))
    return dict(zip(found, columns, strict=True)) if found else {}


@lru_cache(256)
def _layout(names: tuple[str, ...], wanted: tuple[str, ...]) -> Layout | None:
    """None if a name is empty or occurs twice."""
    if len(set(names)) < len(names) or "" in names:
        return None
    cells = [
        f"{re.escape(name)}{NAME_VALUE_SEPARATOR}" + (f"({_VALUE})" if name in wanted else _VALUE)
        for name in names
    ]
    pattern = re.compile(_BETWEEN + PROPERTY_SEPARATOR.join(cells))
    return pattern, tuple(name for name in names if name in wanted)
