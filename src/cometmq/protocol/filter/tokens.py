"""Words of an SQL92 condition, read one by one.

The original reads no further than it needs: what follows a complete condition by more than one word
is never looked at, whatever it is. So a word is read only when it is asked for.
"""

import re
from dataclasses import dataclass

from cometmq.errors import BadExpression

END = "the end"
NAME, STRING, INTEGER, DECIMAL = "a name", "a string", "an integer", "a decimal"

KEYWORDS = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})

# A comment to the end of the line must have that end: without it the two dashes are two signs.
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*+[\n\r]|/\*.*?\*/)*", re.DOTALL)
# In the last line it is not looked for: thousands of dashes there would each scan to the end.
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
    """One word: its kind is one of the four above, END, a keyword or the sign itself."""

    kind: str
    text: str
    at: int  # characters before it


def bad(reason: str, at: int) -> BadExpression:
    """The error that says what is wrong, and where."""
    return BadExpression(f"{reason}, at character {at + 1}")


class Tokens:
    """The words of a text, with one word of foresight."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_line = max(text.rfind("\n"), text.rfind("\r")) + 1
        self._at = 0
        self._next: Token | None = None

    def peek(self) -> Token:
        """The next word, left where it is; BadExpression if no word begins there."""
        if self._next is None:
            self._next = self._read()
        return self._next

    def take(self) -> Token:
        """The next word, taken."""
        token = self.peek()
        self._next = None
        return token

    def accept(self, kind: str) -> bool:
        """Take the next word if it is of this kind."""
        if self.peek().kind != kind:
            return False
        self._next = None
        return True

    def expect(self, kind: str) -> Token:
        """Take the next word, which must be of this kind."""
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
