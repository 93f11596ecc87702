"""Trace records of producers and consumers as rows of a table."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.errors import Malformed
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import (
    ConsumedTrace,
    EndedTrace,
    SentTrace,
    TakenTrace,
    Trace,
    decode_traces,
)
from cometmq.spark.jobs.sources import Options, read

SENT, TAKEN, CONSUMED, ENDED, UNREADABLE = "send", "take", "consume", "end", "unreadable"
_RECORD_END = "\x02"
_COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "kind": ("string", pa.string()),
    "timeMs": ("bigint", pa.int64()),
    "group": ("string", pa.string()),
    "id": ("string", pa.string()),
    "request": ("string", pa.string()),
    "costMs": ("bigint", pa.int64()),
    "success": ("boolean", pa.bool_()),
}
_SCHEMA = pa.schema([(name, kind) for name, (_, kind) in _COLUMNS.items()])

# The row of each kind of record, in the order of the columns.
_ROWS: dict[type[Trace], Callable[[Any], tuple[Any, ...]]] = {
    SentTrace: lambda t: (SENT, t.time_ms, t.group, t.message_id, "", t.cost_ms, t.success),
    TakenTrace: lambda t: (TAKEN, t.time_ms, t.group, t.message_id, t.request_id, None, None),
    ConsumedTrace: lambda t: (
        CONSUMED,
        t.time_ms or None,
        t.group or None,
        t.message_id,
        t.request_id,
        t.cost_ms,
        t.success,
    ),
    EndedTrace: lambda t: (ENDED, t.time_ms, t.group, t.message_id, "", None, None),
}


def calls(spark: SparkSession, source: Options) -> DataFrame:
    """Return sends, consumptions and unreadable records: kind, timeMs, group, id, costMs, success.

    Some clients record group and time at the end of a consumption, others only at its start.
    """
    options = {"subscribe": TRACE_TOPIC, **source, "columns": "body"}
    kinds = ", ".join(f"`{name}` {kind}" for name, (kind, _) in _COLUMNS.items())
    records = read(spark, options).mapInArrow(_parsed, kinds)
    taken = (
        records.where(f.col("kind") == TAKEN)
        .groupBy("request", "id")
        .agg(f.first("group").alias("taker"), f.min("timeMs").alias("takenMs"))
    )
    ends = records.where(~f.col("kind").isin(TAKEN, ENDED))
    return ends.join(taken, ["request", "id"], "left").select(
        "kind",
        f.coalesce("timeMs", f.col("takenMs") + f.col("costMs"), "takenMs").alias("timeMs"),
        f.coalesce("group", "taker", f.lit("?")).alias("group"),
        "id",
        "costMs",
        "success",
    )


def _parsed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse the bodies of trace messages; runs in a worker."""
    for batch in batches:
        rows = [row for body in batch["body"].to_pylist() for row in _rows_of(body)]
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _rows_of(body: bytes) -> Iterator[tuple[Any, ...]]:
    for text in body.decode("utf-8", "replace").split(_RECORD_END):
        try:
            for trace in decode_traces(text):
                yield _ROWS[type(trace)](trace)
        except Malformed:  # count the record and go on with the next one
            yield UNREADABLE, None, None, "", "", None, None
