"""Text to number, as Java reads it."""

import math

import pytest

from cometmq.protocol.filter.numbers import double_order, java_double, java_int, java_long


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("-5", -5), ("+5", 5), ("007", 7), ("٥", 5), ("0" * 5000 + "5", 5), ("-0", 0)],
)
def test_integers(text, value):
    assert java_int(text) == java_long(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "+", "--5", " 5", "5 ", "5\n", "1_000", "5.0", "5L", "0x5", "²", "\U0001d7d7", "9" * 9999],
)
def test_no_integers(text):
    for read in (java_int, java_long):
        with pytest.raises(ValueError, match=r"no integer|not within 64 bits|Exceeds the limit"):
            read(text)


def test_bounds_of_integers():
    assert java_int("2147483647") == 2**31 - 1
    assert java_int("-2147483648") == -(2**31)
    assert java_long("9223372036854775807") == 2**63 - 1
    assert java_long("-9223372036854775808") == -(2**63)
    for read, text in [
        (java_int, "2147483648"),
        (java_int, "-2147483649"),
        (java_long, "9223372036854775808"),
        (java_long, "-9223372036854775809"),
    ]:
        with pytest.raises(ValueError, match="not within"):
            read(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0), ("-1.5f", -1.5), ("1.D", 1.0), (".5d", 0.5), ("1e400", math.inf),
        (" \t1.5\x00", 1.5), ("Infinity", math.inf), ("-Infinity", -math.inf), ("0x1p3", 8.0),
        ("-0X.8p1f", -1.0), ("0x1p9999", math.inf), ("-0x1p9999", -math.inf), ("0x1p-9999", 0.0),
    ],
)  # fmt: skip
def test_doubles(text, value):
    assert java_double(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "1e", "inf", "nan", "infinity", "1_0", "0x1", "1.5L", "٥", "\u00a05"]
)
def test_no_doubles(text):
    with pytest.raises(ValueError, match="no number"):
        java_double(text)


def test_order_of_doubles():
    rising = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, java_double("-NaN")]
    for i, left in enumerate(rising):
        for j, right in enumerate(rising):
            assert double_order(left, right) == (i > j) - (i < j)
