"""Filters against Apache's own: the same texts are refused, the same messages are wanted."""

import random

import pytest

from cometmq.errors import BadExpression
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.protocol.filter.sql import compile_sql
from cometmq.protocol.filter.tags import subscription_of
from peers.filters import CHOSEN, MESSAGES, TAGS, Sentences, ask

pytestmark = [
    pytest.mark.apache,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("apache_class_path"),
]

EXPRESSIONS, MESSAGES_EACH = 20_000, 8


def ours(sql, messages):
    try:
        wanted = compile_sql(sql)
    except BadExpression:
        return None
    return [wanted(message) for message in messages]


def differences(questions):
    """Where we and Apache say different things of the same question, and how much was asked."""
    wrong, accepted, wanted = [], 0, 0
    for question, answer in zip(questions, ask(questions), strict=True):
        theirs = None
        if answer["accepted"]:
            theirs = [outcome is True for outcome in answer["outcomes"]]
            accepted += 1
            wanted += sum(theirs)
        if ours(question["sql"], question["properties"]) != theirs:
            wrong.append((question, answer))
    return wrong, accepted, wanted


def test_chosen_expressions():
    wrong, accepted, wanted = differences([{"sql": sql, "properties": MESSAGES} for sql in CHOSEN])
    assert not wrong
    assert accepted > 50
    assert wanted > 500


@pytest.mark.parametrize("seed", [1, 2])
def test_random_expressions(seed):
    sentences = Sentences(seed)
    questions = [
        {
            "sql": sentences.expression(),
            "properties": [sentences.message() for _ in range(MESSAGES_EACH)],
        }
        for _ in range(EXPRESSIONS)
    ]
    wrong, accepted, wanted = differences(questions)
    assert not wrong
    # Neither the one nor the other is rare, or the test would say little.
    assert EXPRESSIONS * 0.2 < accepted < EXPRESSIONS * 0.8
    assert wanted > EXPRESSIONS * 0.2


def test_nesting_within_our_bound_is_fine_with_apache_too():
    nested = ["(" * 99 + "a = 5" + ")" * 99, "NOT " * 99 + "(a = 5)", "- " * 99 + "5 = a"]
    questions = [{"sql": sql, "properties": [{"a": "5"}, {"a": "-5"}]} for sql in nested]
    wrong, accepted, _ = differences(questions)
    assert not wrong
    assert accepted == len(nested)


def test_tags():
    questions = [{"tags": text, "kind": kind} for text in TAGS for kind in ("TAG", "SQL92", None)]
    for question, answer in zip(questions, ask(questions), strict=True):
        try:
            made = subscription_of("topic", question["tags"], question["kind"] or "TAG")
        except BadExpression:
            assert answer == {"accepted": False}, question
            continue
        assert answer == {
            "accepted": True,
            "tags": sorted(made.tags_set),
            "codes": sorted(made.code_set),
            "text": made.sub_string,
            "kind": made.expression_type,
        }, question


def test_bloom_filters():
    draw = random.Random(5)
    letters = "abcXYZ%#_-é消😀"
    texts = [
        "".join(draw.choices(letters, k=draw.randint(0, 40))) + "#" + "T" * draw.randint(0, 20)
        for _ in range(20)
    ]
    sizes = [(rate, 32) for rate in range(1, 100)] + [(20, count) for count in (1, 7, 128, 4096)]
    questions = [{"rate": rate, "expected": count, "texts": texts} for rate, count in sizes]
    for (rate, count), answer in zip(sizes, ask(questions), strict=True):
        bloom = BloomFilter(rate, count)
        assert bloom.bits_max == answer["bits"], (rate, count)
        positions = [bloom.positions(text) for text in texts]
        assert [list(each) for each in positions] == answer["positions"], (rate, count)
        bits = bytearray(bloom.bits_max // 8)
        for each in positions:
            bloom.set_bits(bits, each)
        assert bits.hex() == answer["all"]
