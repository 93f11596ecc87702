"""Text that may come from anybody, made fit for a terminal and a line.

What would forge a line or move a terminal's cursor is shown escaped.
"""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Of these, line breaks and tabs are text to those who read a value and not a line.
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """Without line breaks or any other control character."""
    return _CONTROL.sub(_escaped, text)


def some_lines(text: str) -> str:
    """With its line breaks and tabs, and without any other control character."""
    return _CONTROL_IN_TEXT.sub(_escaped, text)


def json_text(encoded: str) -> str:
    """JSON must escape the first 32 only: these stand in its strings, and mean the same escaped."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
