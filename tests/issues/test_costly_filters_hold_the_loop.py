"""An OR of 6 500 SQL92 terms held the loop for 306 ms per pull.

Evaluations are counted for each turn of the loop.
"""

import asyncio
import threading

import pytest

from broker.whole import SUSPEND, at_broker, bodies, place
from cometmq.broker.filtering import consumer_filters, expressions, filters
from cometmq.protocol.bodies.heartbeat import CheckClient
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.filter import evaluate, numbers
from cometmq.protocol.filter.numbers import java_double, java_long
from cometmq.protocol.filter.sql import compile_condition, compile_sql
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.java.fastjson import dumps

MESSAGES = 60
# Different properties, so that they are not merged into one set.
COSTLY = " OR ".join(f"p{number} = 'x'" for number in range(4_000))
RETRY = ResponseCode.PULL_RETRY_IMMEDIATELY


class Turns:
    """Counts turns of the loop, and how often a record was asked for in each."""

    def __init__(self, monkeypatch):
        self.asked = [0]
        matches = filters._matches

        def counted(condition, record):
            self.asked[-1] += 1
            return matches(condition, record)

        monkeypatch.setattr(filters, "_matches", counted)

    async def count(self, outcome):
        task = asyncio.ensure_future(outcome)
        while not task.done():
            self.asked.append(0)
            await asyncio.sleep(0)
        return await task


async def fill(whole, wanted_at=None):
    whole.make_topic("T")
    for number in range(MESSAGES):
        properties = {"p3999": "x" if number == wanted_at else "y"}
        assert (await whole.send(body=b"%d" % number, properties=properties)).code == 0


def pull(whole, **changes):
    return whole.begin_pull(subscription=COSTLY, expression_type="SQL92", **changes)


def test_a_read_with_a_costly_filter_takes_turns(monkeypatch):
    turns = Turns(monkeypatch)

    async def story(whole):
        await fill(whole)
        reply = await turns.count(pull(whole))
        assert (reply.code, place(reply)[0]) == (RETRY, MESSAGES)
        assert sum(turns.asked) == MESSAGES
        assert max(turns.asked) * 4_000 <= 20_000

    at_broker(story, enable_property_filter=True)


def test_many_pulls_with_costly_filters_share_the_turns(monkeypatch):
    turns = Turns(monkeypatch)

    async def story(whole):
        await fill(whole)
        pulls = [pull(whole) for _ in range(10)]
        replies = await turns.count(asyncio.gather(*pulls))
        assert [reply.code for reply in replies] == [RETRY] * 10
        assert sum(turns.asked) == 10 * MESSAGES
        assert max(turns.asked) * 4_000 <= 20_000

    at_broker(story, enable_property_filter=True)


def test_a_costly_filter_finds_what_it_wants():
    async def story(whole):
        await fill(whole, wanted_at=47)
        reply = await pull(whole)
        assert bodies(reply) == [b"47"]
        assert place(reply)[0] > 47

    at_broker(story, enable_property_filter=True)


def test_a_parked_pull_with_a_costly_filter_takes_turns(monkeypatch):
    turns = Turns(monkeypatch)

    async def story(whole):
        whole.make_topic("T")
        waiting = pull(whole, sys_flag=SUSPEND | 4)
        await whole.clock.advance(0)
        while not whole.arrivals.count:
            await asyncio.sleep(0.001)  # the expression is read on a thread
        await fill(whole, wanted_at=MESSAGES - 1)
        reply = await turns.count(waiting)
        assert bodies(reply) == [b"%d" % (MESSAGES - 1)]
        assert max(turns.asked) * 4_000 <= 20_000

    at_broker(story, enable_property_filter=True)


# Reading an expression


@pytest.mark.parametrize("kind", ["SQL92", "TAG"])
def test_a_long_expression_of_a_pull_is_read_once_and_off_the_loop(monkeypatch, kind):
    readers = []
    real = expressions._COMPILERS[kind]

    def watched(text):
        readers.append(threading.current_thread() is threading.main_thread())
        return real(text)

    monkeypatch.setitem(expressions._COMPILERS, kind, watched)

    async def story(whole):
        await fill(whole)
        text = COSTLY if kind == "SQL92" else " || ".join(f"tag{each}" for each in range(5_000))
        for _ in range(3):
            reply = await whole.pull(subscription=text, expression_type=kind)
            assert reply.code == RETRY
        assert readers == [False]

    at_broker(story, enable_property_filter=True)


def test_a_long_expression_is_checked_off_the_loop():
    async def story(whole):
        for text, code in ((COSTLY, 0), (COSTLY + " OR", ResponseCode.SUBSCRIPTION_PARSE_FAILED)):
            body = CheckClient(
                client_id="c", group="G", subscription_data=subscription_of("T", text, "SQL92")
            )
            reply = await whole.ask(RequestCode.CHECK_CLIENT_CONFIG, body=dumps(body))
            assert reply.code == code

    at_broker(story, enable_property_filter=True)


def test_expressions_in_memory_are_bounded_by_their_length(monkeypatch):
    monkeypatch.setattr(expressions, "_LENGTH_MAX", 1_000)
    kept = expressions.Expressions()
    for number in range(500):
        kept.condition(f"a = {number}")
    assert 0 < len(kept) < 200
    assert kept.condition("a = 499").matches({"a": "499"})


# Evaluating an expression


def test_neighbouring_equalities_of_one_property_are_one_comparison():
    texts = compile_condition(" OR ".join(f"a = 'v{number}'" for number in range(4_000)))
    assert texts.cost == 1
    assert [texts.matches({"a": each}) for each in ("v0", "v3999", "v4000")] == [True, True, False]
    integers = compile_condition(" OR ".join(f"a = {number}" for number in range(4_000)))
    assert integers.cost == 1
    assert [integers.matches({"a": each}) for each in ("007", "4000", "x")] == [True, False, False]
    assert not texts.matches({})


@pytest.mark.parametrize(
    ("text", "properties", "wanted"),
    [
        # What stands between two equalities may fail before the second is reached.
        ("a = 'x' OR n > 5 OR a = 'y'", {"a": "y", "n": "bad"}, False),
        ("a = 'x' OR n > 5 OR a = 'y'", {"a": "x", "n": "bad"}, True),
        # Read in two ways: the first fails.
        ("a = 1 OR a = 'x'", {"a": "x"}, False),
        ("a = 'x' OR a = 1", {"a": "x"}, True),
        ("a = 1 OR a = 1.5", {"a": "1.5"}, False),
        ("a = 1.5 OR a = 1", {"a": "1.5"}, True),
        ("a = 1 OR a = 3000000000", {"a": "3000000000"}, False),
        ("a = 3000000000 OR a = 1", {"a": "3000000000"}, True),
        ("a = TRUE OR a = 'x'", {"a": "TRUE"}, True),
        ("NOT (a = 'x' OR a = 'y')", {"a": "z"}, True),
        ("NOT (a = 'x' OR a = 'y')", {}, False),
        ("(a = 'x' OR a = 'y') IS NULL", {}, True),
    ],
)
def test_merged_equalities_mean_the_same(text, properties, wanted):
    assert compile_sql(text)(properties) is wanted


def test_a_long_text_is_read_as_a_number_once():
    text = "0" * 3_000 + "7"
    assert java_long(text) == java_double(text) == 7
    before = numbers._long_of_long_text.cache_info().misses
    assert not compile_sql(" OR ".join(f"a > {number}" for number in range(7, 4_000)))({"a": text})
    assert numbers._long_of_long_text.cache_info().misses == before


def test_terms_count_what_they_compare():
    assert compile_condition("a > 1 AND (b = 'x' OR c < 2) AND NOT (d IS NULL)").cost == 4
    assert compile_condition("a BETWEEN 1 AND 5").cost == 2
    assert evaluate.literal(evaluate.ValueKind.STRING, "x", 0).cost == 1


# Conditions that are tried at each put


def test_costly_conditions_are_not_tried_at_each_put():
    async def story(whole):
        whole.make_topic("T")
        tried = whole.filters._conditions
        cheap, costly = ("T", "a = 'x'", "SQL92"), ("T", COSTLY, "SQL92")
        await whole.consume("cheap", cheap, port=2)
        await whole.consume("costly", costly, client_id="c2", port=3)
        assert (await whole.send(properties={"a": "x", "p3999": "x"})).code == 0
        for group in ("cheap", "costly"):
            reply = await whole.pull(consumer_group=group, sys_flag=0, subscription=None)
            assert len(bodies(reply)) == 1
        assert tried.entry("T", "cheap") is not None
        assert tried.entry("T", "costly") is None
        assert sum(each.cost for each in tried._topics["T"].values()) <= (
            consumer_filters.COMPARISONS_MAX
        )

    at_broker(
        story, store_settings={"enable_consume_queue_ext": True},
        enable_property_filter=True, enable_calc_filter_bit_map=True,
    )  # fmt: skip
