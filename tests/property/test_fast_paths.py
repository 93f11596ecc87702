"""Fast paths produce the same bytes as the general ones."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.broker.stored_properties import StoredProperties
from cometmq.protocol.headers import namesrv, offset, pull, query, send
from cometmq.protocol.headers.base import Header, number_writer, text_writer, write_header
from cometmq.protocol.records.properties import (
    CLUSTER,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    WAIT,
    decode_properties,
    put_property,
    take_property,
)
from cometmq.protocol.records.property_columns import property_columns
from cometmq.store.index.tag_and_keys import all_marks, tag_code_and_keys

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.text("0123456789ABCDEF,", max_size=70) | st.text(max_size=20)


def all_headers() -> list[type[Header]]:
    rooms = (namesrv, offset, pull, query, send)
    found = [each for room in rooms for each in vars(room).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, Header) and each.__struct_fields__]


def is_of_numbers(shape: type[Header]) -> bool:
    kinds = [field.type for field in msgspec.structs.fields(shape)]
    return all(getattr(kind, "__origin__", kind) is int for kind in kinds)


NUMBERS = [shape for shape in all_headers() if is_of_numbers(shape)]


def test_integer_headers_are_recognized():
    assert pull.PullReplyHeader in NUMBERS
    assert send.TracedReplyHeader not in NUMBERS


@pytest.mark.parametrize("shape", NUMBERS, ids=lambda shape: shape.__name__)
@given(data=st.data())
def test_integer_header_writer(shape, data):
    header = shape(**{name: data.draw(int64) for name in shape.__struct_fields__})
    expected = text_writer(shape)(header)
    assert number_writer(shape)(header) == expected
    assert write_header(header) == expected


@given(
    msg_id=ids,
    queue_id=int32,
    queue_offset=int64,
    transaction_id=st.none() | st.text(max_size=10),
    region_id=st.sampled_from(["DefaultRegion", "", 'a"b', "%d", "é", '"MSG_REGION"']),
    trace_on=st.booleans(),
)
def test_send_reply_writer(**values: Any):
    header = send.TracedReplyHeader(**values)
    assert write_header(header) == text_writer(send.TracedReplyHeader)(header)
    assert msgspec.json.decode(write_header(header))["msgId"] == values["msg_id"]


@given(regions=st.lists(st.text(max_size=4), max_size=60))
def test_send_reply_writer_with_many_regions(regions):
    """The cache of prefixes is bounded, and eviction is harmless."""
    for region in regions:
        header = send.TracedReplyHeader(
            msg_id="7F", queue_id=1, queue_offset=2, region_id=region, trace_on=True
        )
        assert write_header(header) == text_writer(send.TracedReplyHeader)(header)


pieces = st.sampled_from([WAIT, CLUSTER, "KEYS", "true", "false", "", "XWAIT", "WAITX", "c"])
separators = st.sampled_from([NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, ""])
mixed_texts = st.lists(st.tuples(pieces, separators), max_size=12).map(
    lambda parts: "".join(piece + separator for piece, separator in parts)
)
items = st.tuples(
    st.sampled_from([WAIT, CLUSTER, "KEYS", "TAGS", "UNIQ_KEY"]),
    st.sampled_from(["true", "false", "", "x"]),
)
usual_texts = st.lists(items, max_size=6).map(
    lambda found: PROPERTY_SEPARATOR.join(NAME_VALUE_SEPARATOR.join(item) for item in found)
)


@given(texts=st.lists(usual_texts | mixed_texts, min_size=1, max_size=5))
@example(texts=["KEYS\x01a\x02", "KEYS\x01b\x02"])
@example(texts=["KEYS\x01a", "\x02KEYS\x01b"])
@example(texts=["WAIT\x01true", "KEYS\x01b"])
@example(texts=["WAIT\x01true\x02WAIT\x01true", "KEYS\x01b"])
def test_stored_properties_of_sends(texts):
    expected = []
    for text in texts:
        rest, value = take_property(text, WAIT)
        expected.append((put_property(rest, CLUSTER, "DefaultCluster"), value != "false"))
    properties = StoredProperties("DefaultCluster")
    assert [properties.of(text) for text in texts] == expected
    stored, all_wait = properties.of_all(texts)
    assert (stored, all_wait) == ([text for text, _ in expected], all(wait for _, wait in expected))


NAMES = (WAIT, "KEYS", "TAGS", "UNIQ_KEY")
tables = st.tuples(
    st.lists(st.sampled_from([*NAMES, ""]), max_size=4),
    st.lists(st.lists(st.sampled_from(["", "x", "a b", " ", "é"]), min_size=4), min_size=1),
).map(
    lambda table: [
        PROPERTY_SEPARATOR.join(map(NAME_VALUE_SEPARATOR.join, zip(table[0], row, strict=False)))
        for row in table[1]
    ]
)


@given(texts=tables | st.lists(usual_texts | mixed_texts, min_size=1, max_size=5))
@example(texts=["KEYS\x01a\x02KEYS\x01b", "KEYS\x01a"])
@example(texts=["KEYS\x01a\x02TAGS\x01b\x02KEYS\x01c", "TAGS\x01d"])
@example(texts=["KEYS\x01a\x02\x02KEYS\x01b", "KEYS\x01c"])
def test_property_columns_match_single_parses(texts):
    codes, keys = all_marks(texts)
    assert list(zip(codes, map(list, keys), strict=True)) == [*map(tag_code_and_keys, texts)]
    columns = property_columns(texts, NAMES)
    if columns:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        decoded = map(decode_properties, texts)
        assert rows == [{k: v for k, v in each.items() if k in NAMES} for each in decoded]


def test_usual_properties_use_columns():
    """Otherwise the tests above would compare the general path with itself."""
    texts = [f"KEYS\x01k{n}\x02WAIT\x01true\x02TAGS\x01a" for n in range(3)]
    columns = {"KEYS": ["k0", "k1", "k2"], "WAIT": ["true"] * 3, "TAGS": ["a"] * 3}
    assert property_columns(texts, NAMES) == columns
    assert property_columns(texts, ("TAGS", "UNIQ_KEY")) == {"TAGS": ["a"] * 3}
    assert property_columns(texts, ("UNIQ_KEY",)) == {}
