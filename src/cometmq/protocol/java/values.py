"""Functions of Java: String.hashCode, Double.toString, .properties files."""

from collections.abc import Mapping
from decimal import Decimal

from cometmq.protocol.java.java_properties import parse_properties

__all__ = ["double_text", "format_properties", "hash_code", "java_text", "parse_properties"]

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


def format_properties(values: Mapping[str, str], *, escaped: bool = False) -> str:
    """Sorted `key=value` lines, escaped for a file, or plain as in responses of RocketMQ's servers.

    A plain backslash is lost when the text is parsed, as with RocketMQ. Line breaks are always
    escaped, because they would add settings.
    """
    lines = []
    for key in sorted(values):
        value = values[key].replace("\\", "\\\\") if escaped else values[key]
        lines.append(f"{key}={value}".replace("\n", "\\n").replace("\r", "\\r") + "\n")
    return "".join(lines)


def java_text(value: object) -> str:
    """A boolean, a number, a text or None as Java writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
