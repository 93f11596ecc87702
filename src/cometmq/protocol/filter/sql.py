"""Compiles SQL92 conditions on message properties, as RocketMQ 4.9 does.

    condition   = both {OR both}
    both        = equality {AND equality}
    equality    = comparison {(= | <>) comparison | IS [NOT] NULL}
    comparison  = operand {(> | >= | < | <=) operand | [NOT] BETWEEN operand AND operand
                          | [NOT] IN (string {, string})}
    operand     = (+ | - | NOT) operand | literal | name | ( condition )

NOT binds to the operand alone: NOT a = 1 is (NOT a) = 1. Text after a complete condition is
ignored, as in RocketMQ.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.errors import BadExpression
from cometmq.protocol.filter import evaluate
from cometmq.protocol.filter.evaluate import Properties, Term, ValueKind
from cometmq.protocol.filter.numbers import java_long
from cometmq.protocol.filter.tokens import DECIMAL, END, INTEGER, NAME, STRING, Token, Tokens, bad
from cometmq.protocol.limits import EXPRESSION_DEPTH_MAX, EXPRESSION_LENGTH_MAX

_INT_MAX = 2**31 - 1
_ORDERS = frozenset({">", ">=", "<", "<="})


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled expression. `matches` never raises: a failed comparison does not match."""

    matches: Callable[[Properties], bool]
    cost: int  # maximum number of comparisons


def compile_sql(text: str) -> Callable[[Properties], bool]:
    """Compile an expression to a function of properties. Raises BadExpression if it is invalid.

    The function never raises: a failed comparison does not match.
    """
    return compile_condition(text).matches


def compile_condition(text: str) -> Condition:
    """Like `compile_sql`, with the maximum number of comparisons."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise BadExpression(f"{len(text)} characters, the limit is {EXPRESSION_LENGTH_MAX}")
    term = evaluate.condition(_Parser(Tokens(text)).condition())
    test = term.value

    def wanted(properties: Properties) -> bool:
        try:
            return test(properties) is True
        except ValueError:
            return False

    return Condition(wanted, term.cost)


class _Parser:
    """A recursive descent parser with one method per rule of the grammar."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = 0

    def condition(self) -> Term:
        terms = [self._both()]
        while self._tokens.accept("OR"):
            terms.append(self._both())
        return evaluate.any_of(terms) if len(terms) > 1 else terms[0]

    def _both(self) -> Term:
        terms = [self._equality()]
        while self._tokens.accept("AND"):
            terms.append(self._equality())
        return evaluate.all_of(terms) if len(terms) > 1 else terms[0]

    def _equality(self) -> Term:
        tokens = self._tokens
        term = self._comparison()
        links = 0
        while (sign := tokens.peek()).kind in ("=", "<>", "IS"):
            tokens.take()
            if sign.kind == "IS":
                wanted = not tokens.accept("NOT")
                tokens.expect("NULL")
                term = evaluate.is_null(term)
            else:
                wanted = sign.kind == "="
                term = evaluate.equal(term, self._comparison())
            if not wanted:
                term = evaluate.negated(term, term.at)
            links += 1
            if links > 1:
                # Each element of a chain adds a level of nesting.
                self._deeper(sign)
        return term

    def _comparison(self) -> Term:
        tokens = self._tokens
        term = self._operand()
        while True:
            sign = tokens.peek()
            if sign.kind in _ORDERS:
                tokens.take()
                term = evaluate.ordered(term, sign.kind, self._operand())
            elif sign.kind in ("NOT", "BETWEEN", "IN"):
                term = self._membership(term)
            else:
                return term

    def _membership(self, term: Term) -> Term:
        tokens = self._tokens
        wanted = not tokens.accept("NOT")
        if tokens.accept("BETWEEN"):
            low = self._operand()
            tokens.expect("AND")
            high = self._operand()
            return (evaluate.between if wanted else evaluate.outside)(term, low, high)
        tokens.expect("IN")
        tokens.expect("(")
        strings = [_unquoted(tokens.expect(STRING))]
        while tokens.accept(","):
            strings.append(_unquoted(tokens.expect(STRING)))
        tokens.expect(")")
        return evaluate.one_of(term, strings, wanted)

    def _operand(self) -> Term:
        token = self._tokens.take()
        nested = _NESTED.get(token.kind)
        if nested is not None:
            self._deeper(token)
            term = nested(self, token)
            self._depth -= 1
            return term
        made = _LITERALS.get(token.kind)
        if made is None:
            shown = token.kind if token.kind == END else repr(token.text)
            raise bad(f"a value is expected, not {shown}", token.at)
        return made(token)

    def _deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > EXPRESSION_DEPTH_MAX:
            raise bad(f"nested deeper than {EXPRESSION_DEPTH_MAX} levels", token.at)

    def group(self, token: Token) -> Term:
        term = self.condition()
        self._tokens.expect(")")
        return term

    def plus(self, token: Token) -> Term:
        return self._operand()

    def minus(self, token: Token) -> Term:
        return evaluate.negation(self._operand(), token.at)

    def inverse(self, token: Token) -> Term:
        return evaluate.negated(self._operand(), token.at)


_NESTED: dict[str, Callable[[_Parser, Token], Term]] = {
    "(": _Parser.group,
    "+": _Parser.plus,
    "-": _Parser.minus,
    "NOT": _Parser.inverse,
}


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _integer(token: Token) -> Term:
    try:
        value = java_long(token.text.rstrip("lL"))
    except ValueError as error:
        raise bad(f"an integer has 64 bits: {error}", token.at) from None
    # The value decides about the type: 5L is a 32-bit integer.
    kind = ValueKind.INTEGER if value <= _INT_MAX else ValueKind.LONG
    return evaluate.literal(kind, value, token.at)


def _decimal(token: Token) -> Term:
    value = float(token.text)
    if not 0 < value < float("inf"):
        raise bad("a decimal is more than zero and less than infinite", token.at)
    return evaluate.literal(ValueKind.DOUBLE, value, token.at)


_LITERALS: dict[str, Callable[[Token], Term]] = {
    STRING: lambda token: evaluate.literal(ValueKind.STRING, _unquoted(token), token.at),
    INTEGER: _integer,
    DECIMAL: _decimal,
    "TRUE": lambda token: evaluate.literal(ValueKind.BOOLEAN, True, token.at),
    "FALSE": lambda token: evaluate.literal(ValueKind.BOOLEAN, False, token.at),
    "NULL": lambda token: evaluate.literal(ValueKind.NULL, None, token.at),
    NAME: lambda token: evaluate.property_of(token.text, token.at),
}
