"""`format("bare")`: constant rows of 128 bytes, as a batch or a stream.

Measures Spark's own cost of a data source in Python, the lower bound for any such source.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from cometmq.spark.schema import arrow_schema, ddl

COLUMNS = ("topic", "queueId", "queueOffset", "body", "storeTimestamp")
QUEUES = 4
_BATCH = 11_000  # rows of an Arrow batch, about as many as in 3 MiB of messages


@dataclass(frozen=True)
class Part(InputPartition):
    count: int


def batches(part: Part) -> Iterator[pa.RecordBatch]:
    for start in range(0, part.count, _BATCH):
        count = min(_BATCH, part.count - start)
        numbers = np.arange(start, start + count)
        columns = [
            pa.repeat("read", count),
            pa.array(np.zeros(count, np.int32)),
            pa.array(numbers),
            pa.repeat(pa.scalar(bytes(128), pa.binary()), count),
            pa.array(numbers).cast(pa.timestamp("us", tz="UTC")),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema(COLUMNS))


class BareSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return ddl(COLUMNS)

    def reader(self, schema: object) -> "Reader":
        return Reader(int(self.options["rows"]))

    def streamReader(self, schema: object) -> "StreamReader":  # noqa: N802 - Spark's name
        rows = int(self.options["rows"])
        return StreamReader(rows, int(self.options.get("maxOffsetsPerTrigger", rows)))


class Reader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [Part(self._rows // QUEUES)] * QUEUES

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, rows: int, rows_max: int) -> None:
        self._rows, self._rows_max = rows, rows_max

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"row": min(self._rows, start["row"] + self._rows_max)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Use one task for few rows, like the source of cometmq."""
        count = end["row"] - start["row"]
        return [Part(count)] if count <= QUEUES else [Part(count // QUEUES)] * QUEUES

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(partition)

    def commit(self, end: dict[str, int]) -> None:
        pass
