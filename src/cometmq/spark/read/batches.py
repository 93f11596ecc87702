"""Records as Arrow batches of bounded size.

Records arrive a few megabytes at a time, which bounds a batch unless bodies are compressed: a few
megabytes may inflate to gigabytes. Compressed bodies are inflated one by one, and a batch ends when
it reaches its size.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from cometmq.spark.read.decode import Records

_ROWS_MAX = 16_384
_INFLATED_SIZE = 32 << 20  # limit for one batch; a single body may be larger


def batches(records: Records, broker_name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order. All records must be whole (`Records.is_whole`)."""
    for start in range(0, len(records), _ROWS_MAX):
        part = records.part(start, start + _ROWS_MAX)
        bounded = "body" in columns and part.is_compressed.any()
        for each in _inflated(part) if bounded else (part,):
            yield each.batch(broker_name, columns)


def _inflated(records: Records) -> Iterator[Records]:
    begin = size = 0
    bodies: list[bytes] = []
    for row, body in records.inflated():
        if bodies and size + len(body) > _INFLATED_SIZE:
            yield records.with_bodies(begin, row, bodies)
            begin, size, bodies = row, 0, []
        bodies.append(body)
        size += len(body)
    yield records.with_bodies(begin, len(records), bodies)
