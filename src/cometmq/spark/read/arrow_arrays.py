"""Arrow arrays of texts, lists, hosts and timestamps, built without Python per row."""

from typing import Any

import numpy as np
import pyarrow as pa

from cometmq.protocol.records.hosts import unpack_host
from cometmq.spark.read.property_table import Bytes, Ints

_MS_MAX = (2**63 - 1) // 1000  # larger times overflow as microseconds


def compute() -> Any:
    """Return pyarrow.compute. It takes 50 ms to import, which planning processes avoid."""
    import pyarrow.compute

    return pyarrow.compute


def constant(text: str, count: int) -> pa.Array:
    """Return an array with the same text in every row."""
    return pa.repeat(pa.scalar(text, pa.string()), count)


def string_lists(counts: Ints, words: pa.Array) -> pa.Array:
    """Return lists of strings: `counts` says how many words belong to each row."""
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    kind = pa.list_(pa.field("element", pa.string()))
    return pa.ListArray.from_arrays(pa.array(bounds), words, type=kind)


def host_texts(data: Bytes, at: Ints, size: int) -> pa.Array:
    """Return `ip:port` of packed hosts of one size. Each distinct host is formatted once."""
    every = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    packed = pa.py_buffer(np.ascontiguousarray(every[at]))
    hosts = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(at), [None, packed])
    encoded = hosts.dictionary_encode()
    texts = [str(unpack_host(host)) for host in encoded.dictionary.to_pylist()]
    if len(texts) == 1:
        return constant(texts[0], len(at))
    return pa.array(texts, pa.string()).take(encoded.indices)


def timestamps(milliseconds: Ints) -> pa.Array:
    """Return timestamps; those outside the microsecond range are null."""
    far = np.abs(milliseconds) > _MS_MAX
    far |= milliseconds == -(2**63)
    micros = np.where(far, 0, milliseconds) * 1000
    return pa.array(micros, mask=far if far.any() else None).cast(pa.timestamp("us", tz="UTC"))
