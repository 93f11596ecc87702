"""Parses numbers like Java's Integer, Long and Double, and compares them like Double.

Java is stricter than Python in some ways (no underscores, no white space around an integer) and
more lenient in others (`1.5f`, `0x1p3`). A difference would change which messages a consumer gets.
"""

import math
import re
from functools import lru_cache

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_SAFE_LENGTH = 18  # maximum digits of a long

# Digits of any script with one UTF-16 unit, because Java reads units.
_INTEGER = re.compile(r"([+-]?)0*((?:(?![\U00010000-\U0010FFFF])\d)+)")
_DOUBLE = re.compile(
    r"(?P<decimal>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
    r"|(?P<infinity>[+-]?Infinity)"
    r"|(?P<nan>[+-]?NaN)"
)
_BLANKS = "".join(map(chr, range(33)))  # the characters that `String.trim` removes


_LONG_TEXT = 64  # characters; the parsed value of a longer text is cached


def java_int(text: str) -> int:
    """`Integer.valueOf`; ValueError where it throws."""
    value = java_long(text)
    if not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise ValueError("not within 32 bits")
    return value


def java_long(text: str) -> int:
    """`Long.valueOf`; ValueError where it throws."""
    if len(text) <= _SAFE_LENGTH and text.isdigit() and text.isascii():
        return int(text)
    if len(text) > _LONG_TEXT:
        return _long_of_long_text(text)
    return _read_long(text)


def _read_long(text: str) -> int:
    parts = _INTEGER.fullmatch(text)
    if parts is None:
        raise ValueError("no integer")
    value = int(parts[1] + parts[2])  # also raises ValueError for thousands of digits
    if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
        raise ValueError("not within 64 bits")
    return value


def java_double(text: str) -> float:
    """`Double.valueOf`; ValueError where it throws."""
    if len(text) > _LONG_TEXT:
        return _double_of_long_text(text)
    if (
        text.replace(".", "", 1).isdigit() and text.isascii()
    ):  # the usual case: takes a third of the time
        return float(text)
    return _read_double(text)


def _read_double(text: str) -> float:
    parts = _DOUBLE.fullmatch(text.strip(_BLANKS))
    if parts is None:
        raise ValueError("no number")
    if parts["decimal"]:
        return float(parts["decimal"])
    if parts["hex"]:
        return _from_hex(parts["hex"])
    if parts["nan"]:
        return math.nan
    return float(parts["infinity"])


# An expression can compare one property thousands of times. Failures end it, and are not cached.
_long_of_long_text = lru_cache(16)(_read_long)
_double_of_long_text = lru_cache(16)(_read_double)


def _from_hex(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def double_order(left: float, right: float) -> int:
    """`Double.compareTo`: NaN is the greatest and equal to itself, -0.0 is less than 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right != 0.0:
        return 0
    left_place, right_place = _place(left), _place(right)
    return (left_place > right_place) - (left_place < right_place)


def _place(value: float) -> tuple[bool, float]:
    return math.isnan(value), math.copysign(1.0, value)
