"""The terms of an SQL92 condition: each checks its operands and compiles to a function.

All properties are strings; only literals have other types. The type of every value except null is
therefore known at compile time, and the comparison of two values is chosen once.

    compared types            comparison
    string, integer literal   the string as Integer.valueOf or Long.valueOf reads it: "1.5" fails
    string, decimal literal   the string as Double.valueOf reads it
    string < string           both as Double.valueOf reads them
    string = string           as texts
    string = boolean          whether the string is "true", in any case
    boolean = string          fails
    boolean = number          never equal

The value of a condition is True, False or None (unknown). A failure raises ValueError, and the
whole expression does not match.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from typing import Any

from cometmq.protocol.filter.numbers import double_order, java_double, java_int, java_long
from cometmq.protocol.filter.tokens import bad

Properties = Mapping[str, str]
Value = Callable[[Properties], Any]
Test = Callable[[Properties], bool | None]
Verdict = Callable[[Any, Any], bool]
Reader = Callable[[Any], Any]


class ValueKind(Enum):
    """The type of a value that is not null."""

    INTEGER = auto()  # of 32 bits
    LONG = auto()
    DOUBLE = auto()
    STRING = auto()
    BOOLEAN = auto()
    NULL = auto()  # always null


class Form(Enum):
    """The syntax of a term, which some checks depend on."""

    LITERAL = auto()
    PROPERTY = auto()
    NEGATION = auto()
    CONDITION = auto()


@dataclass(frozen=True, slots=True)
class Term:
    """A compiled part of an expression."""

    form: Form
    kind: ValueKind
    value: Value
    at: int  # position in the text, for errors
    constant: Any = None  # the value, if it is constant
    name: str = ""  # the name, if it is a property
    cost: int = 1  # maximum number of comparisons
    equality: "_Equality | None" = None  # set if it compares a property to a literal


@dataclass(frozen=True, slots=True)
class _Equality:
    """A property, the conversion of its text, and the literals that it may be equal to."""

    name: str
    read: Reader
    values: tuple[Any, ...]


_READERS: dict[ValueKind, Reader] = {
    ValueKind.INTEGER: java_int,
    ValueKind.LONG: java_long,
    ValueKind.DOUBLE: java_double,
}
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def literal(kind: ValueKind, constant: Any, at: int) -> Term:
    """A literal: a number, a string, TRUE, FALSE or NULL."""
    return Term(Form.LITERAL, kind, lambda properties: constant, at, constant)


def property_of(name: str, at: int) -> Term:
    """The property with this name: a string or null."""
    return Term(
        Form.PROPERTY, ValueKind.STRING, lambda properties: properties.get(name), at, name=name
    )


def negation(term: Term, at: int) -> Term:
    """A negated number; null for every other type, including properties."""
    if term.kind in _READERS:
        opposite = -term.constant
        return Term(Form.NEGATION, term.kind, lambda properties: opposite, at, opposite)
    inner = term.value

    def value(properties: Properties) -> None:
        inner(properties)  # may fail

    return Term(Form.NEGATION, ValueKind.NULL, value, at)


def condition(term: Term) -> Term:
    """A term used as a condition. A property as a condition is never true."""
    if term.form is Form.CONDITION or _is_truth_literal(term):
        return term
    if term.form is Form.PROPERTY:
        name = term.name
        return _condition(
            term.at, lambda properties: None if properties.get(name) is None else False
        )
    raise bad("a condition is expected, not a value", term.at)


def any_of(terms: Sequence[Term]) -> Term:
    """OR: true if one operand is true, otherwise unknown if one is unknown."""
    merged = _merged([condition(term) for term in terms])
    if len(merged) == 1:
        return merged[0]
    test = _first_of([term.value for term in merged], True)
    return _condition(terms[0].at, test, _cost(merged))


def all_of(terms: Sequence[Term]) -> Term:
    """AND: false if one operand is false, otherwise unknown if one is unknown."""
    test = _first_of([condition(term).value for term in terms], False)
    return _condition(terms[0].at, test, _cost(terms))


def _cost(terms: Sequence[Term]) -> int:
    return sum(term.cost for term in terms)


def _merged(terms: list[Term]) -> list[Term]:
    """Merge adjacent equalities of one property with the same conversion into one set lookup.

    Only adjacent ones: a term between them could fail before the second is evaluated.
    """
    merged: list[Term] = []
    for key, group in groupby(terms, _key_of_equality):
        run = list(group)
        if key is None or len(run) == 1:
            merged += run
        else:
            values = [value for term in run if term.equality for value in term.equality.values]
            merged.append(_condition(run[0].at, _in_set(*key, frozenset(values))))
    return merged


def _key_of_equality(term: Term) -> tuple[str, Reader] | None:
    return None if term.equality is None else (term.equality.name, term.equality.read)


def _in_set(name: str, read: Reader, values: frozenset[Any]) -> Test:
    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else read(text) in values

    return test


def _first_of(tests: list[Value], decisive: bool) -> Test:
    def test(properties: Properties) -> bool | None:
        unknown = False
        for part in tests:
            value: bool | None = part(properties)
            if value is decisive:
                return decisive
            if value is None:
                unknown = True
        return None if unknown else not decisive

    return test


def negated(term: Term, at: int) -> Term:
    """NOT: the negation of unknown is unknown."""
    inner = condition(term).value

    def test(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return _condition(at, test, term.cost)


def is_null(term: Term) -> Term:
    """IS NULL: never unknown."""
    inner = term.value
    return _condition(term.at, lambda properties: inner(properties) is None, term.cost)


def one_of(term: Term, strings: Sequence[str], wanted: bool) -> Term:
    """IN, or NOT IN; the left operand must be a property."""
    if term.form is not Form.PROPERTY:
        raise bad("IN goes with a property", term.at)
    name, members = term.name, frozenset(strings)

    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in members) is wanted

    return _condition(term.at, test)


def between(term: Term, low: Term, high: Term) -> Term:
    """BETWEEN, which includes both ends; two literals must be in order."""
    inside = all_of([ordered(term, ">=", low), ordered(term, "<=", high)])
    if low.form is high.form is Form.LITERAL and ordered(low, ">", high).value({}):
        raise bad("BETWEEN has its ends in the wrong order", low.at)
    return inside


def outside(term: Term, low: Term, high: Term) -> Term:
    """NOT BETWEEN; the ends may be in any order."""
    return any_of([ordered(term, "<", low), ordered(term, ">", high)])


def ordered(left: Term, sign: str, right: Term) -> Term:
    """One of < <= > >= for numbers and texts of numbers; unknown if an operand is null."""
    for term in (left, right):
        if term.form is Form.CONDITION or (term.form is Form.LITERAL and term.kind not in _READERS):
            raise bad("only numbers and properties have an order", term.at)
    common = _common_number(left.kind, right.kind)
    read_left, read_right = _reader(left.kind, common), _reader(right.kind, common)
    compare = _SIGNS[sign]
    verdict = _by_double_order(compare) if common is ValueKind.DOUBLE else compare
    if left.form is Form.PROPERTY and right.constant is not None:
        return _condition(
            left.at, _of_property(left.name, read_left, verdict, read_right(right.constant))
        )
    left_value, right_value = left.value, right.value

    def test(properties: Properties) -> bool | None:
        first = left_value(properties)
        if first is None:
            return None
        second = right_value(properties)
        if second is None:
            return None
        return verdict(read_left(first), read_right(second))

    return _condition(left.at, test, left.cost + right.cost)


def equal(left: Term, right: Term) -> Term:
    """= for any types. Null equals null; else null on the left is unknown, on the right false."""
    for term in (left, right):
        if term.form is Form.LITERAL and term.kind is ValueKind.NULL:
            raise bad("NULL goes with IS, not with = or <>", term.at)
    if right.form is Form.LITERAL and _is_truth_literal(left) and not _is_truth_literal(right):
        raise bad("TRUE and FALSE equal no number and no string", left.at)
    read_left, verdict, read_right = _equality(left.kind, right.kind)
    if left.form is Form.PROPERTY and right.constant is not None:
        constant = read_right(right.constant)
        test_property = _of_property(left.name, read_left, verdict, constant)
        if verdict is not operator.eq:
            return _condition(left.at, test_property)
        equality = _Equality(left.name, read_left, (constant,))
        return _condition(left.at, test_property, equality=equality)
    left_value, right_value = left.value, right.value

    def test(properties: Properties) -> bool | None:
        first, second = left_value(properties), right_value(properties)
        if first is None:
            return True if second is None else None
        if second is None:
            return False
        return verdict(read_left(first), read_right(second))

    return _condition(left.at, test, left.cost + right.cost)


def _of_property(name: str, read: Reader, verdict: Verdict, constant: Any) -> Test:
    """The usual case, a property and a literal, with few calls."""
    if read is _as_it_is:

        def test_text(properties: Properties) -> bool | None:
            text = properties.get(name)
            return None if text is None else verdict(text, constant)

        return test_text

    def test_number(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else verdict(read(text), constant)

    return test_number


def _common_number(left: ValueKind, right: ValueKind) -> ValueKind:
    """The number type to which both operands are converted."""
    kinds = {left, right}
    if ValueKind.NULL in kinds:
        return ValueKind.NULL
    if ValueKind.DOUBLE in kinds or kinds == {ValueKind.STRING}:
        return ValueKind.DOUBLE
    if ValueKind.STRING in kinds:
        return right if left is ValueKind.STRING else left
    return ValueKind.LONG


def _reader(kind: ValueKind, common: ValueKind) -> Reader:
    if kind is common or common is ValueKind.NULL:
        return _as_it_is
    if kind is ValueKind.STRING:
        return _READERS[common]
    return float if common is ValueKind.DOUBLE else _as_it_is


def _equality(left: ValueKind, right: ValueKind) -> tuple[Reader, Verdict, Reader]:
    """The conversions and the comparison for the equality of two types."""
    if left is right or ValueKind.NULL in (left, right):
        return _as_it_is, operator.eq, _as_it_is
    if right is ValueKind.BOOLEAN:
        # A string is converted; a number is never equal.
        return (_truth if left is ValueKind.STRING else _as_it_is), _same_truth, _as_it_is
    if left is ValueKind.BOOLEAN:
        return _as_it_is, (_fails if right is ValueKind.STRING else _same_truth), _as_it_is
    common = _common_number(left, right)
    return _reader(left, common), operator.eq, _reader(right, common)


def _by_double_order(compare: Callable[[Any, Any], bool]) -> Verdict:
    return lambda left, right: compare(double_order(left, right), 0)


def _as_it_is(value: Any) -> Any:
    return value


def _truth(text: str) -> bool:
    return len(text) == len("true") and text.lower() == "true"


def _same_truth(left: Any, right: Any) -> bool:
    return left is right  # in Python, 1 == True


def _fails(left: bool, right: str) -> bool:
    raise ValueError("a boolean compared with a string")


def _is_truth_literal(term: Term) -> bool:
    return term.form is Form.LITERAL and term.kind in (ValueKind.BOOLEAN, ValueKind.NULL)


def _condition(at: int, test: Test, cost: int = 1, equality: _Equality | None = None) -> Term:
    return Term(Form.CONDITION, ValueKind.BOOLEAN, test, at, cost=cost, equality=equality)
