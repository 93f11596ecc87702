"""Habits of Java that must be reproduced: String.hashCode, Double.toString, .properties files."""

import re
from collections.abc import Mapping
from decimal import Decimal

_HASH_BITS = 0xFFFFFFFF


def hash_code(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    value = 0
    for unit in _utf16_units(text):
        value = (value * 31 + unit) & _HASH_BITS
    return value - (1 << 32) if value >= 1 << 31 else value


def _utf16_units(text: str) -> memoryview | bytes:
    if text.isascii():
        return text.encode("ascii")
    return memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")


def double_text(value: float) -> str:
    """`Double.toString` of a finite number: decimal from 0.001 to 10 million, else 1.0E-5."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "neither infinite nor NaN"
    text = "".join(map(str, digits)).rstrip("0")
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


# One logical line: key, separator (white space, one of = or :), value. Escapes hide a separator.
_KEY = re.compile(
    r"(?P<key>(?:\\.|[^\\ \t\f=:])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """`Properties.load`: the keys and values of a .properties text, later ones winning."""
    found = {}
    for line in _logical_lines(text):
        parts = _KEY.fullmatch(line)
        assert parts is not None, "every line matches"
        found[_unescape(parts["key"])] = _unescape(parts["value"])
    return found


def format_properties(values: Mapping[str, str], *, escaped: bool = False) -> str:
    """`key=value` lines, sorted: escaped for a file, or plain, as RocketMQ's servers answer.

    Plain, a backslash is lost on those who parse the text, as there; a line break is escaped in
    both forms: it would add settings of its own.
    """
    lines = []
    for key in sorted(values):
        value = values[key].replace("\\", "\\\\") if escaped else values[key]
        lines.append(f"{key}={value}".replace("\n", "\\n").replace("\r", "\\r") + "\n")
    return "".join(lines)


def java_text(value: object) -> str:
    """As Java writes a boolean, a number, a text or nothing."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _logical_lines(text: str) -> list[str]:
    """Comments and blank lines dropped, lines that end in an odd number of backslashes joined."""
    lines: list[str] = []
    continued = False
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        ends_open = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if ends_open else line
        if continued:
            lines[-1] += part
        else:
            lines.append(part)
        continued = ends_open
    return [line for line in lines if line]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Two escapes may be the halves of one character; a half alone is none.
    units = _ESCAPE.sub(_unescaped, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def _unescaped(match: re.Match[str]) -> str:
    sign = match[1]
    if len(sign) == 5:
        return chr(int(sign[1:], 16))
    return _ESCAPED.get(sign, sign)
