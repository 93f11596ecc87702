"""Tag expressions."""

import pytest

from cometmq.errors import BadExpression
from cometmq.protocol.filter.tags import SQL92, subscription_of, tag_codes
from cometmq.protocol.java.values import hash_code
from protocol.golden import each


@each("filters", "tags/")
def test_as_apache_makes_them(entry):
    expression, answer = entry["value"]["tags"], entry["value"]["answer"]
    if not answer["accepted"]:
        with pytest.raises(BadExpression):
            subscription_of("t", expression)
        with pytest.raises(BadExpression):
            tag_codes(expression)
        return
    made = subscription_of("t", expression)
    assert (made.topic, made.sub_string, made.expression_type) == ("t", answer["text"], "TAG")
    assert sorted(made.tags_set) == answer["tags"]
    assert sorted(made.code_set) == answer["codes"]
    all_wanted = answer["text"] == "*"
    assert tag_codes(expression) == (None if all_wanted else frozenset(answer["codes"]))


def test_blank_parts_alone_want_nothing():
    assert tag_codes(" || ") == frozenset()


def test_two_tags_of_one_hash():
    made = subscription_of("t", "Aa || BB")
    assert made.tags_set == ["Aa", "BB"]
    assert made.code_set == [hash_code("Aa")]


def test_an_sql_subscription_keeps_its_text():
    made = subscription_of("t", "a > 1 || b", SQL92, version=7)
    assert (made.sub_string, made.expression_type, made.sub_version) == ("a > 1 || b", "SQL92", 7)
    assert made.tags_set == made.code_set == []
    with pytest.raises(BadExpression, match="SQL92"):
        subscription_of("t", "", SQL92)
