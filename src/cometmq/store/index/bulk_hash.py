"""Key hashes of many messages at once: see protocol/records/key_hash.py for what they are.

With numpy, keys of one length are the rows of a table, and their hashes its product with the powers
of 31, modulo 2^32, as numbers of 32 bits wrap: 0.2 us a key, where one by one they take 0.6.
"""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from itertools import chain, repeat
from typing import Any

from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.key_hash import key_hashes

_MASK = 0xFFFFFFFF
_CELLS_MAX = 4_000_000  # of a table


def prepare() -> None:
    """Import numpy, if there is any: that takes 0.1 s, and the first messages need not wait."""
    with suppress(ImportError):
        import_module("numpy")


def bulk_hashes(topics: Sequence[str], keys: Sequence[Sequence[str]]) -> "array[int]":
    """The hash of every key of every message, one after the other."""
    flat = [key for of_message in keys for key in of_message]
    if not flat:  # as of an empty store, which is open without numpy
        return array("I")
    text = "".join(flat)
    try:
        import numpy
    except ImportError:
        numpy = None  # type: ignore[assignment]
    if numpy is None or not text.isascii():
        hashes = array("I")
        for topic, of_message in zip(topics, keys, strict=True):
            hashes.extend(key_hashes(topic, of_message))
        return hashes
    known = {topic: hash_code(topic + "#") & _MASK for topic in set(topics)}
    fronts = numpy.array([known[topic] for topic in topics], numpy.uint32)
    codes = numpy.frombuffer(text.encode(), numpy.uint8)
    counts, lengths = list(map(len, keys)), list(map(len, flat))
    widths = lengths[: counts[0]] if counts else []
    alike = counts == counts[:1] * len(counts) and lengths == widths * len(counts)
    if flat and alike and len(text) < _CELLS_MAX:
        values = _of_rows(numpy, fronts, codes.reshape(len(keys), -1), widths)
    else:
        values = numpy.repeat(fronts, counts)
        _add_by_length(numpy, values, codes, numpy.array(lengths, numpy.int64))
    return array("I", _absolute(numpy, values).tobytes())


def repeated(values: Sequence[int], counts: Sequence[int]) -> "array[int]":
    """Each value as often as its count says."""
    try:
        import numpy
    except ImportError:
        return array("q", chain.from_iterable(map(repeat, values, counts)))
    return array("q", numpy.repeat(numpy.array(values, numpy.int64), counts).tobytes())


def _of_rows(numpy: Any, fronts: Any, table: Any, widths: Sequence[int]) -> Any:
    """A row for each message: as many keys as others have, of the same lengths.

    So it is for most neighbours, and takes a quarter of what other keys take.
    """
    values = numpy.empty((len(table), len(widths)), numpy.uint32)
    at = 0
    for column, width in enumerate(widths):
        powers = _powers(width)
        values[:, column] = (
            fronts * powers[0] + table[:, at : at + width].astype(numpy.uint32) @ powers[1:]
        )
        at += width
    return values


def _add_by_length(numpy: Any, values: Any, codes: Any, lengths: Any) -> None:
    """Make of fronts hashes: of all keys of one length, then of the next."""
    starts = numpy.cumsum(lengths) - lengths
    for length in numpy.unique(lengths).tolist():
        powers = _powers(length)
        same = numpy.flatnonzero(lengths == length)
        step = max(1, _CELLS_MAX // (length + 1))
        for at in range(0, len(same), step):
            some = same[at : at + step]
            table = codes[starts[some, None] + numpy.arange(length)].astype(numpy.uint32)
            values[some] = values[some] * powers[0] + table @ powers[1:]


@lru_cache(1024)
def _powers(length: int) -> Any:
    """Of 31, from that of a front before so many characters down to 1."""
    import numpy

    return numpy.array([pow(31, n, _MASK + 1) for n in range(length, -1, -1)], numpy.uint32)


def _absolute(numpy: Any, values: Any) -> Any:
    """Of signed numbers, given their bits; 0 for -2^31, which has none in Java."""
    return numpy.abs(values.view(numpy.int32)).view(numpy.uint32) & numpy.uint32(0x7FFFFFFF)
