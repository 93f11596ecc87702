"""What of a message's properties the queues and the index need: its tag's code and its keys."""

from cometmq.protocol.java import hash_code
from cometmq.protocol.properties import (
    KEY_SEPARATOR,
    KEYS,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    TAGS,
    UNIQ_KEY,
)

_CODES_KEPT_MAX = 10_000
_MARK = PROPERTY_SEPARATOR + "{}" + NAME_VALUE_SEPARATOR
_TAGS, _KEYS, _UNIQ_KEY = (_MARK.format(name) for name in (TAGS, KEYS, UNIQ_KEY))
_tag_codes: dict[str, int] = {"": 0}


def property_in(text: str, mark: str) -> str:
    """The value of one property, without parsing the others (0.3 us; all of them 1.5)."""
    at = text.find(mark)
    if at >= 0:
        at += len(mark)
    elif text.startswith(mark[1:]):
        at = len(mark) - 1
    else:
        return ""
    end = text.find(PROPERTY_SEPARATOR, at)
    return text[at:] if end < 0 else text[at:end]


def tag_code(properties_text: str) -> int:
    """Java's hash of the tag; 0 without one."""
    tag = property_in(properties_text, _TAGS)
    code = _tag_codes.get(tag)
    if code is None:
        if len(_tag_codes) >= _CODES_KEPT_MAX:
            _tag_codes.clear()
        code = _tag_codes[tag] = hash_code(tag)
    return code


def index_keys(properties_text: str) -> list[str]:
    """The unique key and every word of KEYS."""
    unique = property_in(properties_text, _UNIQ_KEY)
    keys = property_in(properties_text, _KEYS)
    found = [unique] if unique else []
    if keys:
        found += (word for word in keys.split(KEY_SEPARATOR) if word)
    return found
