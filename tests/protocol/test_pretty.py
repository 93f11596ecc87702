"""The files of a broker's config folder, byte for byte as Apache's broker wrote them."""

import pytest

from cometmq.protocol.bodies.filters import FilterTable
from cometmq.protocol.bodies.tables import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    GroupConfigTable,
    KeyValues,
    TopicConfigTable,
)
from cometmq.protocol.java.fastjson import Body, dumps, loads
from cometmq.protocol.java.pretty import pretty
from protocol.golden import bytes_of, each

SHAPES = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": GroupConfigTable,
    "consumerOffset.json": ConsumerOffsetTable,
    "delayOffset.json": DelayOffsetTable,
    "consumerFilter.json": FilterTable,
}


@each("tables")
def test_what_apache_s_broker_wrote_is_read_and_written_as_it_was(entry):
    content, shape = bytes_of(entry), SHAPES[entry["name"]]
    table = loads(content, shape)
    assert table != shape()
    assert pretty(table) == content
    assert loads(dumps(table), shape) == table, "in one line it is read as well"


class Nothing(Body):
    """Without a value."""

    left_out: int | None = None


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (KeyValues(), '{\n\t"table":{}\n}'),
        (Nothing(), "{\n\t\n}"),
        (KeyValues(table={'a"b': "c\n"}), '{\n\t"table":{\n\t\t"a\\"b":"c\\n"\n\t}\n}'),
        (DelayOffsetTable(offset_table={2: 1, 1: 5}), '{\n\t"offsetTable":{1:5,2:1\n\t}\n}'),
    ],
)
def test_empty_and_escaped_values(body, text):
    """As the original's library writes it."""
    assert pretty(body).decode() == text
