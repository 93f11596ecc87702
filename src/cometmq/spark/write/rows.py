"""Encodes rows of a table as batch entries, column by column.

protocol/records/batch.py defines an entry. The entries are adjacent in the buffer of the resulting
array: any slice of it is the body of a batch.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from secrets import token_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.errors import BadMessage, BadSetting
from cometmq.protocol.limits import PROPERTIES_SIZE_MAX
from cometmq.protocol.records.batch import ENTRY_SIZE_MIN
from cometmq.protocol.records.properties import (
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    RESERVED,
    TAGS,
    UNIQ_KEY,
)
from cometmq.spark.read.property_table import Ints

STAMP = "SPARK_ROW"  # property that identifies query, batch, partition and row of a message
_SHARDING_KEY = "SHARDING_KEY"
_SEPARATORS = "[\x01\x02]"
_HEX = np.array([f"{byte:02X}".encode() for byte in range(256)])
_NOT_COPIED = sorted(RESERVED | {STAMP, _SHARDING_KEY})

# Columns that can be written, with their allowed types.
KINDS: Mapping[str, tuple[str, ...]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("array<string>", "string"),
    "properties": ("map<string,string>",),
    "delayLevel": ("int", "bigint", "smallint", "tinyint"),
    "deliverAt": ("timestamp",),
    "shardingKey": ("string",),
    "queueId": ("int", "bigint", "smallint", "tinyint"),
}
_EITHER = (("shardingKey", "queueId"), ("delayLevel", "deliverAt"))


def check_columns(types: Mapping[str, str], topic: str | None) -> None:
    """Raise BadSetting, which names the column, unless a table of these types can be written."""
    for name, kind in types.items():
        if name not in KINDS:
            raise BadSetting(
                f"column {name} cannot be written; allowed columns: {', '.join(KINDS)}"
            )
        if kind not in KINDS[name]:
            raise BadSetting(f"column {name} is {kind}: it must be {' or '.join(KINDS[name])}")
    if "body" not in types:
        raise BadSetting("column body is missing")
    if (topic is None) == ("topic" not in types):
        raise BadSetting("give either the option topic or a column topic")
    for one, other in _EITHER:
        if one in types and other in types:
            raise BadSetting(f"columns {one} and {other} are mutually exclusive")


@dataclass(frozen=True)
class Rows:
    """A batch of a table whose columns passed `check_columns`."""

    batch: pa.RecordBatch
    topic: str | None  # the topic of all rows, if there is no column topic

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def column(self, name: str) -> pa.Array | None:
        """Return a column; None if it is missing."""
        at = self.batch.schema.get_field_index(name)
        return None if at < 0 else self.batch.column(at)

    @cached_property
    def topics(self) -> pa.Array:
        """The topic of each row."""
        found = self.column("topic")
        if found is None:
            return pa.repeat(pa.scalar(self.topic, pa.string()), len(self))
        if found.null_count:
            raise BadMessage("column topic is null in a row")
        return found.cast(pa.string())

    @cached_property
    def bodies(self) -> pa.Array:
        """The body of each row."""
        found = self.column("body")
        assert found is not None, "checked by check_columns"
        if found.null_count or pc.any(pc.equal(pc.binary_length(found), 0)).as_py():
            raise BadMessage("column body is null or empty in a row")
        return found.cast(pa.binary())

    @cached_property
    def delay_levels(self) -> Ints:
        """The delay level of each row; 0 for no delay."""
        found = self.column("delayLevel")
        if found is None:
            return np.zeros(len(self), np.int64)
        levels = np.asarray(found.cast(pa.int64()).fill_null(0))
        if (levels < 0).any():
            raise BadMessage(
                f"column delayLevel is {levels.min()} in a row: it must not be negative"
            )
        return levels

    @cached_property
    def own_properties(self) -> pa.Array:
        """The properties of each row as text, each with a leading separator."""
        parts = [
            _named(TAGS, self._text("tags")),
            _named(KEYS, self._keys()),
            _named(_SHARDING_KEY, self._text("shardingKey")),
            self._map(),
        ]
        levels = self.delay_levels
        if levels.any():
            texts = pa.array(levels).cast(pa.string())
            parts.append(_named(DELAY, pc.if_else(pa.array(levels > 0), texts, None)))
        there = [part for part in parts if part is not None]
        if not there:
            return pa.repeat(pa.scalar("", pa.string()), len(self))
        return pc.binary_join_element_wise(*there, "")

    @cached_property
    def digests(self) -> list[str]:
        """A digest of topic, properties and body of each row. Equal rows have equal digests."""
        whole = pc.binary_join_element_wise(
            self.topics.cast(pa.binary()), self.own_properties.cast(pa.binary()), self.bodies, b"\0"
        )
        return [blake2b(each, digest_size=12).hexdigest() for each in whole.to_pylist()]

    def entries(self, keys: pa.Array, stamps: pa.Array | None) -> pa.Array:
        """Return the batch entries of all rows, with unique keys and optional stamps."""
        properties = self.properties_texts(keys, stamps)
        sizes = np.asarray(pc.binary_length(properties)).astype(np.int64)
        if len(sizes) and sizes.max() > PROPERTIES_SIZE_MAX:
            raise BadMessage(
                f"properties of {sizes.max()} bytes in a row; the limit is {PROPERTIES_SIZE_MAX}"
            )
        body_sizes = np.asarray(pc.binary_length(self.bodies)).astype(np.int64)
        heads = np.zeros((len(self), 5), ">i4")
        heads[:, 0] = ENTRY_SIZE_MIN + body_sizes + sizes
        heads[:, 4] = body_sizes
        return pc.binary_join_element_wise(
            _fixed(heads.view(np.uint8)),
            self.bodies,
            _fixed(sizes.astype(">u2")[:, None].view(np.uint8)),
            properties.cast(pa.binary()),
            b"",
        )

    def properties_texts(self, keys: pa.Array, stamps: pa.Array | None) -> pa.Array:
        """Return all properties as text: unique key, stamp, and those of the row."""
        parts = [self.own_properties]
        if stamps is not None:
            parts.insert(0, _named(STAMP, stamps))
        first = pa.scalar(UNIQ_KEY + NAME_VALUE_SEPARATOR)
        return pc.binary_join_element_wise(first, keys, *parts, "")

    def _text(self, name: str) -> pa.Array | None:
        found = self.column(name)
        return None if found is None else _checked(name, found.cast(pa.string()))

    def _keys(self) -> pa.Array | None:
        found = self.column("keys")
        if found is None:
            return None
        if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
            return _checked("keys", found.cast(pa.string()))
        words = found.flatten().cast(pa.string())
        if words.null_count or pc.any(pc.match_substring_regex(words, r"\s|^$")).as_py():
            raise BadMessage("column keys has an empty key or a key with white space in a row")
        return _checked("keys", pc.binary_join(found.cast(pa.list_(pa.string())), KEY_SEPARATOR))

    def _map(self) -> pa.Array | None:
        """Return the user properties as text. System properties of the row are not copied."""
        found = self.column("properties")
        if found is None:
            return None
        names, values = found.keys.cast(pa.string()), found.items.cast(pa.string())
        begin, stop = found.offsets[0].as_py(), found.offsets[-1].as_py()
        names, values = names.slice(begin, stop - begin), values.slice(begin, stop - begin)
        offsets = np.asarray(found.offsets).astype(np.int64) - begin
        own = np.asarray(pc.invert(pc.is_in(names, pa.array(_NOT_COPIED))))
        ranks = np.concatenate(([0], np.cumsum(own)))
        names, values = names.filter(pa.array(own)), values.filter(pa.array(own))
        for part in (names, values):
            if part.null_count or pc.any(pc.match_substring_regex(part, r"^\s*$")).as_py():
                raise BadMessage("column properties has a blank name or value in a row")
            _checked("properties", part)
        items = pc.binary_join_element_wise(names, values, NAME_VALUE_SEPARATOR)
        lists = pa.ListArray.from_arrays(pa.array(ranks[offsets], pa.int32()), items)
        texts = pc.binary_join(lists, PROPERTY_SEPARATOR)
        return pc.if_else(pc.equal(texts, ""), "", _joined(PROPERTY_SEPARATOR, texts))


def _checked(name: str, texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _SEPARATORS)).as_py():
        raise BadMessage(f"column {name} contains U+0001 or U+0002 in a row: remove it")
    return texts


def _named(name: str, values: pa.Array | None) -> pa.Array | None:
    """Return `separator name value` for each value; an empty text where the value is missing."""
    if values is None:
        return None
    texts = _joined(PROPERTY_SEPARATOR + name + NAME_VALUE_SEPARATOR, values)
    return pc.if_else(pc.fill_null(pc.equal(values, ""), True), "", texts)


def _joined(before: str, texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(before), texts, "")


def _fixed(packed: Ints) -> pa.Array:
    """Return a matrix of bytes as a binary array, one element per row."""
    count, size = packed.shape
    bounds = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(packed.tobytes())]
    )


class _Numbers:
    """Generates numbers that are unique in this process. They contain the time."""

    def __init__(self) -> None:
        self._pid = 0
        self._next = 0
        self._stem = ""

    def keys(self, count: int) -> pa.Array:
        """Return unique keys in the form of Java's client; see client/unique_id.py."""
        if self._pid != os.getpid():
            self._pid, self._next = os.getpid(), 0
            packed = token_bytes(4) + (self._pid & 0xFFFF).to_bytes(2) + token_bytes(4)
            self._stem = packed.hex().upper()
        # Milliseconds and a 16-bit counter form one number that never decreases.
        now = int(time.time() * 1000) % (1 << 32) << 16
        start = max(now, self._next)
        self._next = start + count
        numbers = (start + np.arange(count, dtype=np.int64)).astype(">i8")
        digits = _HEX[numbers[:, None].view(np.uint8)[:, 2:]].view("S12").ravel()
        tails = _fixed(digits[:, None].view(np.uint8)).cast(pa.string())
        return _joined(self._stem, tails)


_numbers = _Numbers()


def unique_keys(count: int) -> pa.Array:
    """Return new unique keys."""
    return _numbers.keys(count)


def stamps_of(prefix: str, rows: Rows, seen: dict[str, int]) -> list[str]:
    """Return a stamp for each row: its digest and its rank among equal rows.

    The position of the row is not part of it: after a shuffle, a batch that runs again has its rows
    in another order. `seen` counts the digests of earlier calls for the same partition.
    """
    stamps = []
    for digest in rows.digests:
        rank = seen.get(digest, 0)
        seen[digest] = rank + 1
        stamps.append(f"{prefix}{digest}.{rank}")
    return stamps


def select_rows(rows: Rows, indexes: Sequence[int] | Ints) -> Rows:
    """Return the rows with these indexes."""
    return Rows(rows.batch.take(pa.array(indexes, pa.int64())), rows.topic)
