"""The properties of many records, split by vectorized search for separators.

    | sep | name 0x01 value | 0x02 | name 0x01 value | ... | sep | name 0x01 value | ...
      row 0                                               row 1

One buffer holds the texts of all records. The byte before each text is overwritten with a
separator, so that every item begins after a separator and ends before the next one.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from cometmq.protocol.records.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    decode_properties,
)

Ints = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, Any]

_ITEM = ord(PROPERTY_SEPARATOR)
_VALUE = ord(NAME_VALUE_SEPARATOR)
_WORD = 4
_DISTINCT_MAX = 62  # distinct names that fit into the bits of a signed 64-bit integer
_TEXTS = pa.map_(pa.string(), pa.string())
# Freeing a large block raises malloc's mmap threshold, so that later arrays of a batch reuse memory
# instead of getting fresh pages from the kernel. Halves the time of a table (bench/pipeline.py).
np.empty(30 << 20, np.uint8)


def slices(data: pa.Buffer, starts: Ints, ends: Ints, kind: pa.DataType) -> pa.Array:
    """Return the bytes from each start to its end as one binary or string array.

    Builds an array over the whole buffer in which every other element is a slice, then selects
    these elements. No Python code runs per row.
    """
    count = len(starts)
    if count == 0:
        return pa.array([], kind)
    assert data.size < 2**31, "Arrow offsets have 32 bits"
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = ends
    bounds[-1] = data.size  # the maximum, because starts may be in any order
    over = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds), data], null_count=0
    )
    selected = over.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    return pa.Array.from_buffers(kind, count, selected.buffers(), null_count=0)


class PropertyTable:
    """The properties of many rows. The text of a row reaches from its start to its end."""

    def __init__(self, data: pa.Buffer, starts: Ints, ends: Ints) -> None:
        self._count = len(starts)
        texts = slices(data, starts - 1, ends, pa.binary())
        _, bounds, flat = texts.buffers()
        self._rows_at = np.frombuffer(bounds, np.int32, self._count + 1)
        self._flat = np.array(np.frombuffer(flat, np.uint8, self._rows_at[-1]))
        self._flat[self._rows_at[:-1]] = _ITEM
        self._buffer = pa.py_buffer(self._flat)
        separators = np.flatnonzero(self._flat == _ITEM)
        self._starts = separators + 1
        self._ends = np.append(separators[1:], len(self._flat))
        self._first_items = np.searchsorted(separators, self._rows_at[:-1])
        self._splits = self._split(np.flatnonzero(self._flat == _VALUE))
        # An item without a name or a value is ignored.
        whole = (self._splits > self._starts) & (self._splits < self._ends - 1)
        if not whole.all():
            ranks = np.concatenate(([0], np.cumsum(whole)))
            self._first_items = ranks[self._first_items]
            self._starts, self._ends = self._starts[whole], self._ends[whole]
            self._splits = self._splits[whole]

    def _split(self, marks: Ints) -> Ints:
        """Return where the name of each item ends; the end of the item if it has no value."""
        if len(marks) == len(self._starts) and bool(
            ((marks >= self._starts) & (marks < self._ends)).all()
        ):
            return marks
        found = np.searchsorted(marks, self._starts)
        marks = np.append(marks, len(self._flat))
        splits: Ints = np.minimum(marks[found], self._ends)
        return splits

    def column(self, name: str) -> pa.Array:
        """Return the values of one property, null where it is missing.

        The name must have at least four letters.
        """
        assert len(name) >= _WORD
        if self._slow_rows is not None:
            return pa.array([row.get(name) for row in self._slow_rows], pa.string())
        items = self._items_of(name.encode())
        if not len(items):
            return pa.nulls(self._count, pa.string())
        firsts = self._first_items
        has_one = len(items) == self._count and (items >= firsts).all()
        if has_one and (items[:-1] < firsts[1:]).all():
            return self._values_of(items)
        places = np.full(self._count, -1, np.int64)
        # If a row repeats the property, the last one counts.
        places[np.searchsorted(firsts, items, "right") - 1] = items
        values = self._values_of(np.where(places < 0, 0, places))
        return values.take(pa.array(np.arange(self._count), mask=places < 0))

    def maps(self) -> pa.Array:
        """Return all properties, one map per row."""
        if self._slow_rows is not None:
            return self._slow_maps(self._slow_rows)
        names = slices(self._buffer, self._starts, self._splits, pa.string())
        if self._repeats(names):
            return self._slow_maps(self._read_slowly())
        values = slices(self._buffer, self._splits + 1, self._ends, pa.string())
        bounds = np.append(self._first_items, len(self._starts)).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(bounds), names, values)

    @cached_property
    def _slow_rows(self) -> list[dict[str, str]] | None:
        """The rows, parsed one by one, if a text is not valid UTF-8; else None."""
        try:
            whole = np.array([0]), np.array([len(self._flat)])
            slices(self._buffer, *whole, pa.string()).validate(full=True)
        except pa.ArrowInvalid:
            return self._read_slowly()
        return None

    def _read_slowly(self) -> list[dict[str, str]]:
        flat, rows_at = self._flat.tobytes(), self._rows_at.tolist()
        return [
            decode_properties(flat[start + 1 : end].decode(errors="replace"))  # like Java
            for start, end in pairwise(rows_at)
        ]

    def _slow_maps(self, rows: list[dict[str, str]]) -> pa.Array:
        return pa.array([list(row.items()) for row in rows], _TEXTS)

    def _items_of(self, name: bytes) -> Ints:
        """Find the items with this name by its length, then by four bytes at a time."""
        found = np.flatnonzero(self._splits - self._starts == len(name))
        last = len(name) - _WORD
        for at in (*range(0, last, _WORD), last):
            word = int.from_bytes(name[at : at + _WORD], "little")
            found = found[self._words[self._starts[found] + at] == word]
        return found

    @cached_property
    def _words(self) -> Ints:
        """The four bytes at every position, as an integer."""
        count = max(len(self._flat) - _WORD + 1, 0)
        return np.ndarray((count,), "<u4", self._flat, strides=(1,))

    def _values_of(self, items: Ints) -> pa.Array:
        return slices(self._buffer, self._splits[items] + 1, self._ends[items], pa.string())

    def _repeats(self, names: pa.Array) -> bool:
        """Return whether a row contains a name twice, which a map does not allow."""
        if not len(names):
            return False
        encoded = names.dictionary_encode()
        kinds = len(encoded.dictionary)
        codes = np.asarray(encoded.indices).astype(np.int64)
        counts = np.diff(self._first_items, append=len(names))
        if (counts == kinds).all() and (codes.reshape(-1, kinds) == np.arange(kinds)).all():
            return False  # all rows have the same names in the same order
        begins = self._first_items[counts > 0]
        if kinds <= _DISTINCT_MAX:
            bits = np.int64(1) << codes
            sums, either = np.add.reduceat(bits, begins), np.bitwise_or.reduceat(bits, begins)
            return bool((sums != either).any())
        rows = np.searchsorted(begins, np.arange(len(names)), "right")
        return len(np.unique(rows * kinds + codes)) < len(names)
