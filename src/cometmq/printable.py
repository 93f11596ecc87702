"""Escapes control characters in text that peers sent.

Unescaped, they could forge a log line or move the cursor of a terminal.
"""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Without line breaks and tabs, which a value of several lines may contain.
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """Escape all control characters, line breaks included."""
    return _CONTROL.sub(_escaped, text)


def some_lines(text: str) -> str:
    """Escape all control characters except line breaks and tabs."""
    return _CONTROL_IN_TEXT.sub(_escaped, text)


def json_text(encoded: str) -> str:
    """Escape the control characters that JSON allows unescaped in a string: those from 0x7f on."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
