"""Rows encoded as batch entries, decoded one by one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from batch_entries import unpack_batch
from cometmq.errors import BadMessage, BadSetting
from cometmq.protocol.records.message_id import UniqueKey
from cometmq.protocol.records.properties import RESERVED, decode_properties
from spark.rows import NEEDS

pa = pytest.importorskip("pyarrow", reason=NEEDS)
from cometmq.spark.write.rows import Rows, check_columns, stamps_of, unique_keys  # noqa: E402
from cometmq.spark.write.send_batches import SendBatch, entry_slices  # noqa: E402

_letters = some.characters(codec="utf-8", exclude_characters="\x01\x02")
_texts = some.text(_letters, max_size=9)
_solid = _texts.filter(lambda text: text.strip())
_words = some.text("abcdé-_1", min_size=1, max_size=9)
_names = _solid.filter(lambda text: text not in RESERVED) | some.sampled_from(["UNIQ_KEY", "TAGS"])
rows = some.lists(
    some.fixed_dictionaries(
        {
            "body": some.binary(min_size=1, max_size=60),
            "topic": some.sampled_from(["a", "b"]),
            "tags": some.none() | _texts,
            "keys": some.none() | some.lists(_words, max_size=3),
            "properties": some.none() | some.dictionaries(_names, _solid, max_size=3),
            "shardingKey": some.none() | _texts,
        }
    ),
    min_size=1,
    max_size=20,
)
SCHEMA = pa.schema(
    [
        ("body", pa.binary()),
        ("topic", pa.string()),
        ("tags", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("shardingKey", pa.string()),
    ]
)


def batch_of(found):
    plain = [
        row | {"properties": row["properties"] and list(row["properties"].items())} for row in found
    ]
    return pa.RecordBatch.from_pylist(plain, SCHEMA)


def wanted(row, key):
    text = {"UNIQ_KEY": key}
    if row["tags"]:
        text["TAGS"] = row["tags"]
    if row["keys"]:
        text["KEYS"] = " ".join(row["keys"])
    if row["shardingKey"]:
        text["SHARDING_KEY"] = row["shardingKey"]
    own = {k: v for k, v in (row["properties"] or {}).items() if k not in RESERVED}
    return text | {name: value for name, value in own.items() if name != "SHARDING_KEY"}


def body_of(entries):
    return SendBatch("t", None, entries, None).body()


@settings(max_examples=60, deadline=None)
@given(rows, some.integers(0, 5))
def test_entries_contain_the_rows(found, start):
    table = batch_of(found).slice(min(start, len(found) - 1))  # a slice has a nonzero offset
    expected = found[min(start, len(found) - 1) :]
    keys = unique_keys(len(expected))
    entries = Rows(table, None).entries(keys, None)
    cut = [
        entry
        for begin, end in entry_slices(entries)
        for entry in unpack_batch(body_of(entries.slice(begin, end - begin)))
    ]
    assert [entry.body for entry in cut] == [row["body"] for row in expected]
    for entry, row, key in zip(cut, expected, keys.to_pylist(), strict=True):
        assert decode_properties(entry.properties_text) == wanted(row, key)


@settings(max_examples=50, deadline=None)
@given(rows, some.randoms())
def test_stamps_do_not_depend_on_row_order(found, chance):
    shuffled = chance.sample(found, len(found))

    def stamps(order):
        return sorted(stamps_of("q/1/0/", Rows(batch_of(order), None), {}))

    assert stamps(found) == stamps(shuffled)
    assert len(set(stamps(found))) == len(found)


def test_unique_keys_are_unique_and_contain_the_process_id():
    keys = [*unique_keys(70_000).to_pylist(), *unique_keys(5).to_pylist()]
    assert len(set(keys)) == 70_005
    assert UniqueKey.parse(keys[0]).pid == UniqueKey.parse(keys[-1]).pid


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"body": b""}, "column body"),
        ({"body": None}, "column body"),
        ({"body": b"x", "topic": None}, "column topic"),
        ({"body": b"x", "tags": "a\x01b"}, "column tags"),
        ({"body": b"x", "keys": ["a b"]}, "column keys"),
        ({"body": b"x", "properties": {"a": " "}}, "column properties"),
        ({"body": b"x", "properties": {"a": "\x02"}}, "column properties"),
        ({"body": b"x", "properties": {"a": "b" * 40_000}}, "properties of 400"),
    ],
)
def test_bad_rows_are_rejected_with_column_name(row, words):
    base = {"topic": "t", "tags": None, "keys": None, "properties": None, "shardingKey": None}
    found = Rows(batch_of([base | row]), None)
    with pytest.raises(BadMessage, match=words):
        found.entries(unique_keys(1), None)
        list(found.topics)


@pytest.mark.parametrize(
    ("types", "topic", "words"),
    [
        ({}, "t", "column body is missing"),
        ({"body": "int"}, "t", "column body is int"),
        ({"body": "binary", "color": "string"}, "t", "column color cannot be written"),
        ({"body": "binary"}, None, "option topic or a column topic"),
        ({"body": "binary", "topic": "string"}, "t", "option topic or a column topic"),
        (
            {"body": "binary", "queueId": "int", "shardingKey": "string"},
            "t",
            "are mutually exclusive",
        ),
    ],
)
def test_bad_columns_are_rejected(types, topic, words):
    with pytest.raises(BadSetting, match=words):
        check_columns(types, topic)
