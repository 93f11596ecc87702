"""Words of an SQL92 condition."""

import pytest

from cometmq.errors import BadExpression
from cometmq.protocol.filter.tokens import DECIMAL, END, INTEGER, NAME, STRING, Tokens


def words(text):
    tokens = Tokens(text)
    found = []
    while (token := tokens.take()).kind != END:
        found.append((token.kind, token.text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_1$ B", [(NAME, "a_1$"), (NAME, "B")]),
        ("nOt Between", [("NOT", "nOt"), ("BETWEEN", "Between")]),
        ("NOTE", [(NAME, "NOTE")]),
        ("<>=<=<", [("<>", "<>"), ("=", "="), ("<=", "<="), ("<", "<")]),
        ("12 12l 007", [(INTEGER, x) for x in ("12", "12l", "0", "0", "7")]),
        ("5. .5 5E1 5.5e-1 00.5", [(DECIMAL, x) for x in ("5.", ".5", "5E1", "5.5e-1", "00.5")]),
        ("5e", [(INTEGER, "5"), (NAME, "e")]),
        ("'it''s''' ''", [(STRING, "'it''s'''"), (STRING, "''")]),
        ("a--b\r\nc", [(NAME, "a"), (NAME, "c")]),
        ("a--b", [(NAME, "a"), ("-", "-"), ("-", "-"), (NAME, "b")]),
        ("a\n--b", [(NAME, "a"), ("-", "-"), ("-", "-"), (NAME, "b")]),
        ("a --b\r--c\n d", [(NAME, "a"), (NAME, "d")]),
        ("a/* ' * / -- **/b", [(NAME, "a"), (NAME, "b")]),
        (" \t\n\r\f", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(("text", "at"), [("a @", 3), ("a /* b", 3), ("'x", 1), ("é", 1)])
def test_no_word(text, at):
    with pytest.raises(BadExpression, match=f"at character {at}$"):
        words(text)


def test_nothing_is_read_before_it_is_asked_for():
    tokens = Tokens("a = @")
    assert tokens.take().text == "a"
    assert tokens.peek().kind == "="
    assert not tokens.accept("<>")
    assert tokens.accept("=")
    with pytest.raises(BadExpression):
        tokens.peek()
