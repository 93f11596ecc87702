"""SQL92 conditions: what is taken, what is refused, what matches."""

import pytest

from cometmq.errors import BadExpression
from cometmq.protocol.filter.sql import compile_sql
from cometmq.protocol.limits import EXPRESSION_DEPTH_MAX, EXPRESSION_LENGTH_MAX
from protocol.golden import each, value_of

MESSAGES = value_of("filters", "messages")


def matches(sql, **properties):
    return compile_sql(sql)(properties)


@each("filters", "sql/")
def test_as_apache_says(entry):
    """Of each message: true is a match; false, null and error are none."""
    if entry["text"] == "refused":
        with pytest.raises(BadExpression):
            compile_sql(entry["value"])
        return
    wanted = compile_sql(entry["value"])
    assert [wanted(message) for message in MESSAGES] == [letter == "t" for letter in entry["text"]]


def test_every_operator():
    assert matches("a > 1 AND a >= 2 AND a < 3 AND a <= 2 AND a = 2 AND a <> 3", a="2")
    assert matches("a BETWEEN 1 AND 2 AND a NOT BETWEEN 3 AND 4", a="2")
    assert matches("a IN ('1', '2') AND a NOT IN ('3')", a="2")
    assert matches("a IS NOT NULL AND b IS NULL AND NOT (a = 3) AND TRUE", a="2")


def test_a_decimal_property_fails_against_an_integer_and_with_it_all():
    assert not matches("d < -1", d="0.5")
    assert not matches("d < 1", d="0.5")
    assert not matches("d < 1 OR TRUE", d="0.5")
    assert matches("TRUE OR d < 1", d="0.5")
    assert matches("d < 1.5", d="0.5")
    assert not matches("d < -1.5", d="0.5")


def test_unknown_is_neither_true_nor_false():
    assert not matches("a = 1")
    assert not matches("NOT (a = 1)")
    assert matches("(a = 1) IS NULL")
    assert matches("a = 1 OR b = 2", b="2")
    assert not matches("a = 1 AND b = 2", b="2")
    assert matches("NOT (a = 1 AND b = 2)", b="3")


def test_a_chain_is_as_long_as_the_text_allows():
    sql = " OR ".join(f"a={number}" for number in range(5000))
    assert matches(sql, a="4999")
    assert not matches(sql, a="5000")
    assert not matches(sql.replace("OR", "AND"), a="0")


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("a = ", "a value is expected, not the end, at character 5"),
        ("a = 5 AND )", r"a value is expected, not '\)', at character 11"),
        ("(a = 5 b", "\\) is expected, not 'b', at character 8"),
        ("a @ 5", "no word begins with '@', at character 3"),
        ("b = 1 AND a > 'x'", "only numbers and properties have an order, at character 15"),
        ("a = NULL", "NULL goes with IS, not with = or <>, at character 5"),
        ("TRUE = 5", "TRUE and FALSE equal no number and no string, at character 1"),
        ("a BETWEEN 2 AND 1", "BETWEEN has its ends in the wrong order, at character 11"),
        ("5 IN ('5')", "IN goes with a property, at character 1"),
        ("a IN (5)", "a string is expected, not '5', at character 7"),
        ("a OR 5", "a condition is expected, not a value, at character 6"),
        ("a = 9223372036854775808", "an integer has 64 bits: not within 64 bits, at character 5"),
        ("a = 0.0", "a decimal is more than zero and less than infinite, at character 5"),
        ("a IS 5", "NULL is expected, not '5', at character 6"),
    ],
)
def test_a_refusal_says_what_and_where(sql, text):
    with pytest.raises(BadExpression, match=text):
        compile_sql(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "(" * 10_000 + "a = 1" + ")" * 10_000,
        "NOT " * 10_000 + "a",
        "a = 1" + " = 1" * 10_000,
        "a" + " IS NULL" * 5_000,
        "+" * 10_000 + "a = 1",
        "-" * 60_000,
        "(a = 1 OR " * 5_000,
    ],
)
def test_depth_is_bounded(sql):
    with pytest.raises(BadExpression, match=f"nested deeper than {EXPRESSION_DEPTH_MAX} levels"):
        compile_sql(sql)


@pytest.mark.parametrize(
    ("front", "back"),
    [
        ("(", ")"),
        ("(NOT a = 2 OR b = 1 AND 'x' <> ", ")"),
        ("NOT ", ""),
        ("- ", " > 1"),
        ("", " = TRUE"),
    ],
)
def test_the_deepest_that_is_taken_is_also_evaluated(front, back):
    levels = EXPRESSION_DEPTH_MAX - 1
    sql = front * levels + "a" + back * (1 if front == "- " else levels)
    assert compile_sql(sql)({"a": "1"}) in (True, False)


def test_length_is_bounded():
    assert matches("a = '" + "x" * (EXPRESSION_LENGTH_MAX - 6) + "'") is False
    with pytest.raises(BadExpression, match=f"the limit is {EXPRESSION_LENGTH_MAX}"):
        compile_sql("a = '" + "x" * EXPRESSION_LENGTH_MAX + "'")
