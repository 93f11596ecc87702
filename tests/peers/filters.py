"""What Apache's filters say of an expression, and expressions to ask about: chosen and random."""

import json
import random
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from peers.driver import run_java

_ANSWER_S_MAX = 240
_LETTERS = {True: "t", False: "f", None: "n", "error": "e"}


def ask(questions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of FilterOracle.java, one for each question."""
    asked = list(questions)
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".jsonl") as file:
        file.writelines(json.dumps(question) + "\n" for question in asked)
        file.flush()
        answers = run_java("FilterOracle", file.name, timeout=_ANSWER_S_MAX)
    assert len(answers) == len(asked), "an answer for each question"
    return answers


def golden_entries() -> list[dict[str, Any]]:
    """What to keep of it, for where there is no Java."""
    sqls = [{"sql": sql, "properties": MESSAGES} for sql in CHOSEN]
    tags = [{"tags": text, "kind": "TAG"} for text in TAGS]
    blooms = [{"rate": rate, "expected": 32, "texts": GROUPS} for rate in (1, 20, 50, 99)]
    answers = iter(ask([*sqls, *tags, *blooms]))
    entries: list[dict[str, Any]] = [{"name": "messages", "value": MESSAGES}]
    for number, (sql, answer) in enumerate(zip(CHOSEN, answers, strict=False)):
        said = "".join(map(_LETTERS.get, answer.get("outcomes", [])))
        text = said if answer["accepted"] else "refused"
        entries.append({"name": f"sql/{number}", "text": text, "value": sql})
    for question in tags + blooms:
        name = "tags/" + question["tags"] if "tags" in question else f"bloom/{question['rate']}"
        entries.append({"name": name, "value": {**question, "answer": next(answers)}})
    return entries


# Each is there for a reason of its own: what is easily taken where Apache refuses, or the reverse.
CHOSEN = [
    "a = 5", "a <> 5", "a > 5", "a >= 5", "a < 5", "a <= 5", "5 = a", "5 < a", "a = b", "a > b",
    "a = 'x'", "a <> 'x'", "a = 'it''s'", "a = ''", "a = ''''", "a = 'é😀'", "a > 'x'", "'1' = 1",
    "1 = '1'", "'a' = 1", "1.5 = '1.5'", "1 = 1.0", "3000000000 = 3000000000.0",
    "a = 1.5", "a > 1.5", "a = .5e1", "a = 5.", "a = 5e1", "a = 5e", "a = 5.5L", "a = 0.0",
    "a = 1e400", "a = 1e-400", "a = 007", "a = 5L", "a = 0L", "a = 0x10", "a = 2147483647",
    "a = 2147483648", "a = -2147483648", "a = 9223372036854775807", "a = 9223372036854775808",
    "a = -5", "a = - -5", "a = --5", "a = --5\n6", "a = +5", "-a = b", "a = -b", "a > -b", "-a > 1",
    "a = -'x'", "a = -TRUE", "a < -(b > c)", "+(a = 5)", "a <> -b",
    "a BETWEEN 1 AND 5", "a NOT BETWEEN 1 AND 5", "a BETWEEN 5 AND 3", "a NOT BETWEEN 5 AND 3",
    "a BETWEEN -1 AND -5", "a BETWEEN b AND c", "a BETWEEN 1.5 AND 2", "a BETWEEN 'a' AND 'b'",
    "a BETWEEN NULL AND 5", "5 BETWEEN a AND b", "a BETWEEN 1 AND 2 BETWEEN 1 AND 2",
    "a IN ('5', 'x')", "a NOT IN ('5', 'x')", "(a) IN ('5')", "a IN (5)", "a IN ()", "a IN ('5',)",
    "5 IN ('5')", "a = 5 IN ('5')", "a IN ('1','2','3','4','5','6')", "IN = 5",
    "a IS NULL", "a IS NOT NULL", "a IS NULL IS NULL", "5 IS NULL", "NULL IS NULL", "a IS x",
    "a IS NOT x", "a IS NULL > 5", "(a = 5) IS NULL", "(a > b) IS NULL", "a = NULL", "NULL = a",
    "a > NULL", "a = TRUE", "a = FALSE", "a <> TRUE", "TRUE = a", "TRUE = TRUE", "TRUE = FALSE",
    "TRUE = 5", "TRUE = 'x'", "5 = TRUE", "1 = TRUE", "0 = (a = 5)", "(a = 5) = 1",
    "'x' = TRUE", "'true' = TRUE", "(a = 5) = 'x'",
    "'x' = (a = 5)", "(a = 5) = (b = 3)", "(a = 5) = 5", "a = 5 = TRUE", "a > TRUE", "a > (b = 3)",
    "a > 5 > 3", "TRUE", "FALSE", "NULL", "NOT NULL", "NOT TRUE", "NOT a", "NOT NOT a", "NOT a = 5",
    "NOT (a = 5)", "NOT 5", "NOT 'x'", "NOT -a", "a", "5", "'x'", "-a", "", " ", "()", "(a)",
    "a = 5 AND b = 3", "a = 5 OR b = 3", "a = 5 OR b = 3 AND c = 2", "(a = 5 OR b = 3) AND c = 2",
    "a OR b", "a AND 5", "NULL AND a = 5", "NULL OR a = 5", "a = 5 OR TRUE", "TRUE OR a = 5",
    "a = 5 AND FALSE", "FALSE AND a = 5", "a IS NOT NULL AND a > 5", "a = 5 AND", "AND a = 5",
    "a = 5 garbage", "a = 5 garbage @", "a = 5 @", "a = 5 NOT", "a = 5 NOT @", "a NOT x", "a x",
    "(a = 5", "(a = 5))", "a == 5", "a != 5", "a LIKE 'x'", "a CONTAINS 'x'", "a = 'x", "a = 'x''",
    "a = \"x\"", "a /* x */ = 5", "a /* x * / */ = 5", "a /* x = 5", "a = 5 -- x", "a -- x\n = 5",
    "a -- x\r = 5", "a -- x = 5", "a\t=\f5\r\n", "a\v= 5", "$a_1 = 5", "é = 5", "a.b = 5", "A = 5",
    "not a in ('5')", "a Is nOt NuLl aNd TRUE", "a in('5')or b=3", "a\u00a0= 5",
]  # fmt: skip

VALUES = [
    "5", "-5", "+5", "0", "-0", "007", "3", "2", "1", "x", "it's", "", " ", "é😀", "true", "TRUE",
    "False", "null", "1.5", "1.50", "-1.5", "5.0", "5.", ".5", "0.0", "-0.0", "1e3", "1E-3",
    "1e400", "1e-400", "NaN", "-NaN", "+NaN", "nan", "Infinity", "-Infinity", "inf", "1.5f", "1.5d",
    "1.5D", "5L", "0x1p3", "0X.8P1", "0x10", "0x1p9999", "-0x1p9999", "0x1p-9999", " 1.5", "1.5\t",
    " 5", "5\n", "\u00a05", "1_000", "1_0.5", "٥", "٥.٥", "５", "\U0001d7d7", "²", "--5",
    "+-5", "+", "-", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "0" * 30 + "5", "0.1", "0.30000000000000004", "9007199254740993", "1.7976931348623159e308",
    "4.9e-324",
]  # fmt: skip

MESSAGES: list[dict[str, str]] = [
    {},
    *({"a": value} for value in VALUES),
    *({"a": value, "b": "3", "c": "2"} for value in ("5", "x", "4", "2.5", "true")),
    {"b": "3"},
    {"a": "0.0", "b": "-0.0"},
    {"a": "NaN", "b": "NaN"},
    {"a": "NaN", "b": "1"},
    {"A": "5", "$a_1": "5", "a.b": "5"},
]

TAGS = [
    "*", "", "a", "a || b", "a||b", " a||b ", "||", "||||", "||a", "a||", " || ", "a || a", " *",
    "a|b", "a ||| b", "|||", "*||a", "\ta\u00a0|| b\n", "é || 😀", "Aa || BB", " ", "a || * || ",
]  # fmt: skip

GROUPS = [
    "",
    "group#topic",
    "CID_é#消息",
    "😀",
    "x" * 15,
    "x" * 16,
    "x" * 17,
    "%RETRY%g#" + "t" * 99,
]

_LITERALS = [
    "0", "1", "3", "5", "007", "5L", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1.5", "5.0", ".5", "0.0", "1e3", "4.9e-324", "1e309", "'x'", "'5'",
    "''", "'true'", "'1.5'", "'it''s'", "'é😀'", "TRUE", "false", "NULL",
]  # fmt: skip
_NAMES = ["a", "b", "c", "A", "missing", "$x_1"]
_NOISE = [
    "AND", "or", "NOT", "IS", "NULL", "IN", "BETWEEN", "(", ")", ",", "=", "<>", "<", ">=", "+",
    "-", "--", "/*", "*/", "\n", "@", "'", "5", "a", "'x'", "TRUE", "l", ".", "E5",
]  # fmt: skip


class Sentences:
    """Random expressions: most are grammatical, many are not."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self) -> str:
        """Words of the grammar, of which one in three texts is damaged."""
        words = self._condition(self._random.randint(1, 4))
        if self._random.random() < 0.33:
            words = self._damaged(words)
        return "".join(word + self._random.choice(["", " ", " ", " "]) for word in words)

    def message(self) -> dict[str, str]:
        """Properties of a message."""
        names = [name for name in _NAMES if self._random.random() < 0.6]
        return {name: self._random.choice(VALUES) for name in names}

    def _condition(self, depth: int) -> list[str]:
        shapes: list[Callable[[int], list[str]]] = [
            self._comparison, self._comparison, self._comparison, self._null, self._in,
            self._between, self._operand,
        ]  # fmt: skip
        if depth > 0:
            shapes += [self._joined, self._joined, self._joined, self._grouped, self._denied]
        return self._random.choice(shapes)(depth - 1)

    def _joined(self, depth: int) -> list[str]:
        return [
            *self._condition(depth),
            self._random.choice([" AND ", " OR ", " and "]),
            *self._condition(depth),
        ]

    def _grouped(self, depth: int) -> list[str]:
        return ["(", *self._condition(depth), ")"]

    def _denied(self, depth: int) -> list[str]:
        inner = self._condition(depth)
        return ["NOT ", *inner] if self._random.random() < 0.3 else ["NOT ", "(", *inner, ")"]

    def _comparison(self, depth: int) -> list[str]:
        sign = self._random.choice(["=", "=", "<>", ">", ">=", "<", "<="])
        return [*self._operand(depth), sign, *self._operand(depth)]

    def _null(self, depth: int) -> list[str]:
        words = [" IS ", "NULL "] if self._random.random() < 0.5 else [" IS ", "NOT ", "NULL "]
        return [*self._operand(depth), *words]

    def _in(self, depth: int) -> list[str]:
        strings = [word for word in _LITERALS if word.startswith("'")]
        chosen = self._random.choices(strings, k=self._random.randint(1, 6))
        words = ["(", *[part for word in chosen for part in (",", word)][1:], ")"]
        return [*self._operand(-1), *self._perhaps_not(), " IN ", *words]

    def _between(self, depth: int) -> list[str]:
        words = [*self._operand(-1), *self._perhaps_not(), " BETWEEN ", *self._operand(-1)]
        return [*words, " AND ", *self._operand(-1)]

    def _perhaps_not(self) -> list[str]:
        return [" NOT "] if self._random.random() < 0.4 else []

    def _operand(self, depth: int) -> list[str]:
        chance = self._random.random()
        if chance < 0.5:
            return [self._random.choice(_NAMES)]
        if chance < 0.85:
            return [self._random.choice(_LITERALS)]
        if chance < 0.92:
            return [self._random.choice(["-", "- ", "+"]), *self._operand(-1)]
        return ["(", *(self._condition(depth) if depth > 0 else self._operand(-1)), ")"]

    def _damaged(self, words: list[str]) -> list[str]:
        damaged = list(words)
        for _ in range(self._random.randint(1, 2)):
            at = self._random.randrange(len(damaged) + 1)
            wounds: list[list[str]] = [[], [self._random.choice(_NOISE)], damaged[at : at + 1] * 2]
            damaged[at : at + self._random.randint(0, 1)] = self._random.choice(wounds)
        return damaged
