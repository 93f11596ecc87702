"""The tokens of an SQL92 condition.

Tokens are read on demand: RocketMQ ignores everything after a complete condition and the next
token, even if it is not a valid token.
"""

import re
from dataclasses import dataclass

from cometmq.errors import BadExpression

END = "the end"
NAME, STRING, INTEGER, DECIMAL = "a name", "a string", "an integer", "a decimal"

KEYWORDS = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})

# A comment ends with a line break; without one, the two dashes are two minus signs.
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*+[\n\r]|/\*.*?\*/)*", re.DOTALL)
# Not searched for in the last line: each of thousands of dashes would scan to the end.
_SKIPPED_IN_LAST_LINE = re.compile(r"(?:[ \t\f]+|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(
    r"(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<decimal>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>0|[1-9][0-9]*[lL]?)"
    r"|(?P<string>'[^']*(?:''[^']*)*')"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])"
)
_KINDS = {"decimal": DECIMAL, "integer": INTEGER, "string": STRING}


@dataclass(frozen=True, slots=True)
class Token:
    """A token. Its kind is one of the four above, END, a keyword or the sign itself."""

    kind: str
    text: str
    at: int  # position in the text


def bad(reason: str, at: int) -> BadExpression:
    """A BadExpression with the reason and the position."""
    return BadExpression(f"{reason}, at character {at + 1}")


class Tokens:
    """The tokens of a text, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_line = max(text.rfind("\n"), text.rfind("\r")) + 1
        self._at = 0
        self._next: Token | None = None

    def peek(self) -> Token:
        """The next token, which is not consumed. Raises BadExpression for an invalid one."""
        if self._next is None:
            self._next = self._read()
        return self._next

    def take(self) -> Token:
        """Consume the next token."""
        token = self.peek()
        self._next = None
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of this kind."""
        if self.peek().kind != kind:
            return False
        self._next = None
        return True

    def expect(self, kind: str) -> Token:
        """Consume the next token. Raises BadExpression if it is of another kind."""
        token = self.take()
        if token.kind != kind:
            raise bad(f"{kind} is expected, not {_shown(token)}", token.at)
        return token

    def _read(self) -> Token:
        skippable = _SKIPPED if self._at < self._last_line else _SKIPPED_IN_LAST_LINE
        skipped = skippable.match(self._text, self._at)
        assert skipped is not None, "nothing at all is matched too"
        at = skipped.end()
        if at == len(self._text):
            return Token(END, "", at)
        found = _WORD.match(self._text, at)
        if found is None:
            raise bad(f"no word begins with {self._text[at]!r}", at)
        self._at = found.end()
        return Token(_kind_of(found), found[0], at)


def _kind_of(found: re.Match[str]) -> str:
    group = found.lastgroup
    if group == "sign":
        return found[0]
    if group == "name":
        keyword = found[0].upper()
        return keyword if keyword in KEYWORDS else NAME
    assert group is not None, "one of the groups matched"
    return _KINDS[group]


def _shown(token: Token) -> str:
    return token.kind if token.kind == END else repr(token.text[:40])
