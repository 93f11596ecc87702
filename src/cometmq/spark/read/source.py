"""`format("rocketmq")`: topics as a table, once or as a stream."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from cometmq.errors import BadSetting
from cometmq.spark.options import ReadOptions
from cometmq.spark.read.batches import batches
from cometmq.spark.read.decode import compute
from cometmq.spark.read.offset_bounds import Places
from cometmq.spark.read.offsets import (
    Offsets,
    Range,
    gathered,
    limited,
    of_json,
    partitioned,
    ranges,
    to_json,
)
from cometmq.spark.read.pull import DataLost, RangePull, check_filter, mean_size
from cometmq.spark.read.retry import patiently
from cometmq.spark.schema import ddl

if TYPE_CHECKING:
    from cometmq.spark.write.sink import RocketMQStreamWriter, RocketMQWriter

_GATHERED_MAX = 4096  # messages of several queues in one task, which takes as long as to start it
_TAGS = "tags"


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """What one task reads, one after the other."""

    ranges: tuple[Range, ...]


class RocketMQSource(DataSource):
    """See docs/pipeline.md for its options."""

    @classmethod
    def name(cls) -> str:
        """As users write it."""
        return "rocketmq"

    def schema(self) -> str:
        """All columns, or those of the option."""
        return ddl(ReadOptions.of(self.options).columns)

    def reader(self, schema: object) -> "RocketMQReader":
        """Of a batch."""
        return RocketMQReader(ReadOptions.of(self.options))

    def streamReader(self, schema: object) -> "RocketMQStreamReader":  # noqa: N802 - Spark's name
        """Of a stream."""
        return RocketMQStreamReader(ReadOptions.of(self.options))

    # What writes is loaded by those who write: 40 ms of a process that reads.

    def writer(self, schema: StructType, overwrite: bool) -> "RocketMQWriter":
        """Of a batch."""
        from cometmq.spark.write.sink import RocketMQWriter, WriteOptions

        if overwrite:
            raise BadSetting("mode overwrite: a topic can only be added to; use mode append")
        return RocketMQWriter(WriteOptions.of(self.options, _types(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "RocketMQStreamWriter":  # noqa: N802
        """Of a stream."""
        from cometmq.spark.write.sink import RocketMQStreamWriter, WriteOptions

        return RocketMQStreamWriter(WriteOptions.of(self.options, _types(schema)))


def _types(schema: StructType) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in schema.fields}


@dataclass(frozen=True)
class _RangeReader:
    """What a worker does, for a batch or a stream."""

    options: ReadOptions

    def read(self, partition: RangePartition | None) -> Iterator[pa.RecordBatch]:
        """Arrow batches of its ranges."""
        if partition is None or not isinstance(partition, RangePartition):
            return  # Spark's own way to say that there is nothing to read
        options = self.options
        columns = options.columns
        if options.tags and _TAGS not in columns:
            columns = (*columns, _TAGS)
        for wanted in partition.ranges:
            for records in RangePull(options.reading, wanted).records():
                for batch in batches(records, wanted.queue.broker_name, columns):
                    yield self._wanted(batch)

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Brokers choose by the hash of a tag, which another may have too."""
        if not self.options.tags:
            return batch
        chosen = batch.filter(compute().is_in(batch[_TAGS], pa.array(sorted(self.options.tags))))
        return chosen.select(self.options.columns)

    def _parts(self, found: list[Range]) -> list[InputPartition]:
        options = self.options
        cut = partitioned(found, options.partitions_min, options.partition_max)
        if options.partitions_min:
            return [RangePartition((each,)) for each in cut]
        records_max = min(_GATHERED_MAX, options.partition_max or _GATHERED_MAX)
        return [RangePartition(each) for each in gathered(cut, records_max)]


class RocketMQReader(DataSourceReader):
    """Reads from one offset of each queue to another, both fixed when it is planned."""

    def __init__(self, options: ReadOptions) -> None:
        unfit = {
            "maxOffsetsPerTrigger": options.offsets_max,
            "minOffsetsPerTrigger": options.offsets_min,
            "maxBytesPerTrigger": options.bytes_max,
            "commitOffsets": options.commits or None,
        }
        _refuse(unfit, "is of a stream, and this is a batch read")
        if options.start == "latest":
            raise BadSetting("option startingOffsets is latest: a batch read would find nothing")
        if options.end == "earliest":
            raise BadSetting("option endingOffsets is earliest: a batch read would find nothing")
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A part of a queue each."""
        places = Places(self._options)
        start, end = places.start("earliest"), places.end()
        if end:
            check_filter(self._options.reading, next(iter(end)))
        wanted = [
            Range(queue, start.get(queue, 0), end[queue])
            for queue in sorted(end)
            if end[queue] > start.get(queue, 0)
        ]
        return _RangeReader(self._options)._parts(wanted)  # noqa: SLF001 - of this file

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker."""
        return _RangeReader(self._options).read(partition)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on, a micro-batch at a time. Lives in one process while its query runs."""

    def __init__(self, options: ReadOptions) -> None:
        unfit = {"endingOffsets": options.end, "endingTimestamp": options.end_ms}
        _refuse(unfit, "is of a batch read, and a stream has no end")
        self._options = options
        self._places = Places(options)
        self._target: Offsets | None = None  # of a run that reads what is there now
        self._seen: Offsets | None = None  # by the last look at all queues
        self._last_given = time.monotonic()
        self._is_under_way = False

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name, as those below
        """Where a new query begins."""
        start = self._places.start("latest")
        if start:
            check_filter(self._options.reading, next(iter(start)))
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options allow; `latestOffset` holds to all of them."""
        options = self._options
        if options.offsets_max is not None:
            return ReadMaxRows(options.offsets_max)
        if options.bytes_max is not None:
            return ReadMaxBytes(options.bytes_max)
        if options.offsets_min is not None:
            return ReadMinRows(options.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing newer is read."""
        self._target = self._latest()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Where the next micro-batch ends; `start`, if there is none yet."""
        begin = of_json(start)
        end = self._known_end(begin)
        if isinstance(limit, ReadAllAvailable):
            return to_json(end)
        waiting = sum(each.count for each in ranges(begin, end))
        if self._is_too_few(waiting):
            return start
        self._last_given = time.monotonic()
        if self._options.offsets_max is not None:
            end = limited(begin, end, self._options.offsets_max)
        if self._options.bytes_max is not None and waiting:
            size = mean_size(self._options.reading, ranges(begin, end))
            end = limited(begin, end, max(1, int(self._options.bytes_max / size)))
        return to_json(end)

    def _known_end(self, begin: Offsets) -> Offsets:
        """The ends of all queues; of one that is not to be seen now, where it was."""
        found = dict(self._target) if self._target is not None else self._latest()
        for queue, offset in begin.items():
            if found.setdefault(queue, offset) >= offset:
                continue
            if self._options.reading.fail_on_data_loss:
                raise DataLost(
                    f"{queue} ends at {found[queue]}, and {offset} of it were read: it was made"
                    " again. With the option failOnDataLoss=false it is read from its beginning"
                )
        return found

    def _latest(self) -> Offsets:
        """A broker that is away is waited for once a query runs: at its start it is an error."""
        patience_ms = self._options.reading.patience_ms if self._is_under_way else 0
        found = self._seen = patiently(self._places.latest, patience_ms)
        self._is_under_way = True
        return found

    def _is_too_few(self, waiting: int) -> bool:
        options = self._options
        if options.offsets_min is None or self._target is not None:
            return False
        is_late = time.monotonic() - self._last_given >= options.delay_max_s
        return waiting < options.offsets_min and not is_late

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        """For the progress of the query: how far behind it is. Asked right after `latestOffset`."""
        return to_json(self._latest() if self._seen is None else self._seen)

    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> Sequence[InputPartition]:
        """The same for the same offsets, so that a batch that is run again is the same."""
        return _RangeReader(self._options)._parts(ranges(of_json(start), of_json(end)))  # noqa: SLF001

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker."""
        return _RangeReader(self._options).read(partition)

    def commit(self, end: dict[str, object]) -> None:
        """For people to see how far a query is; the checkpoint is what counts."""
        if self._options.commits and self._options.group is not None:
            self._options.reading.cluster.tell(self._options.group, of_json(end))

    def __reduce__(self) -> tuple[type, tuple[ReadOptions]]:
        """To a worker goes what it needs."""
        return RocketMQStreamReader, (replace(self._options),)


def _refuse(given: Mapping[str, object], reason: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise BadSetting(f"option {name} {reason}: leave it out")
