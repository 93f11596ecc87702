"""`format("rocketmq")`: reads topics as a batch or as a stream."""

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
from cometmq.spark.read.arrow_arrays import compute
from cometmq.spark.read.batches import batches
from cometmq.spark.read.offset_bounds import OffsetBounds
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
from cometmq.spark.read.probes import check_filter, mean_record_size
from cometmq.spark.read.pull import DataLost, RangePull
from cometmq.spark.read.retry import retry_unreachable
from cometmq.spark.schema import ddl

if TYPE_CHECKING:
    from cometmq.spark.write.sink import RocketMQStreamWriter, RocketMQWriter

_GATHERED_MAX = (
    4096  # messages of several queues in one task; reading them takes as long as a start
)
_TAGS = "tags"


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The ranges that one task reads, in this order."""

    ranges: tuple[Range, ...]


class RocketMQSource(DataSource):
    """The data source that Spark finds under the name `rocketmq`. Options: docs/pipeline.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    def schema(self) -> str:
        """Return all columns, or those of the option `columns`."""
        return ddl(ReadOptions.of(self.options).columns)

    def reader(self, schema: object) -> "RocketMQReader":
        """Return a reader for `spark.read`."""
        return RocketMQReader(ReadOptions.of(self.options))

    def streamReader(self, schema: object) -> "RocketMQStreamReader":  # noqa: N802 - Spark's name
        """Return a reader for `spark.readStream`."""
        return RocketMQStreamReader(ReadOptions.of(self.options))

    # The writing modules are imported on demand: readers save 40 ms.

    def writer(self, schema: StructType, overwrite: bool) -> "RocketMQWriter":
        """Return a writer for `df.write`."""
        from cometmq.spark.write.sink import RocketMQWriter, WriteOptions

        if overwrite:
            raise BadSetting("mode overwrite: topics are append-only; use mode append")
        return RocketMQWriter(WriteOptions.of(self.options, _types(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "RocketMQStreamWriter":  # noqa: N802
        """Return a writer for `df.writeStream`."""
        from cometmq.spark.write.sink import RocketMQStreamWriter, WriteOptions

        return RocketMQStreamWriter(WriteOptions.of(self.options, _types(schema)))


def _types(schema: StructType) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in schema.fields}


@dataclass(frozen=True)
class _RangeReader:
    """Plans and reads partitions, for batches and streams alike."""

    options: ReadOptions

    def read(self, partition: RangePartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of a partition."""
        if partition is None or not isinstance(partition, RangePartition):
            return  # this is how Spark passes an empty plan
        options = self.options
        columns = options.columns
        if options.tags and _TAGS not in columns:
            columns = (*columns, _TAGS)
        for wanted in partition.ranges:
            for records in RangePull(options.reading, wanted).records():
                for batch in batches(records, wanted.queue.broker_name, columns):
                    yield self._with_wanted_tags(batch)

    def _with_wanted_tags(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Filter again by tag: brokers filter by the hash of a tag, and hashes may collide."""
        if not self.options.tags:
            return batch
        chosen = batch.filter(compute().is_in(batch[_TAGS], pa.array(sorted(self.options.tags))))
        return chosen.select(self.options.columns)

    def partitions(self, found: list[Range]) -> list[InputPartition]:
        """Split and group ranges into partitions; the same ranges give the same partitions."""
        options = self.options
        cut = partitioned(found, options.partitions_min, options.partition_max)
        if options.partitions_min:
            return [RangePartition((each,)) for each in cut]
        records_max = min(_GATHERED_MAX, options.partition_max or _GATHERED_MAX)
        return [RangePartition(each) for each in gathered(cut, records_max)]


class RocketMQReader(DataSourceReader):
    """Reads each queue between two offsets that are fixed when the read is planned."""

    def __init__(self, options: ReadOptions) -> None:
        unfit = {
            "maxOffsetsPerTrigger": options.offsets_max,
            "minOffsetsPerTrigger": options.offsets_min,
            "maxBytesPerTrigger": options.bytes_max,
            "commitOffsets": options.commits or None,
        }
        _reject(unfit, "applies to streams only, not to a batch read")
        if options.start == "latest":
            raise BadSetting("option startingOffsets is latest: a batch read would be empty")
        if options.end == "earliest":
            raise BadSetting("option endingOffsets is earliest: a batch read would be empty")
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions of the read."""
        bounds = OffsetBounds(self._options)
        start, end = bounds.start("earliest"), bounds.end()
        if end:
            check_filter(self._options.reading, next(iter(end)))
        wanted = [
            Range(queue, start.get(queue, 0), end[queue])
            for queue in sorted(end)
            if end[queue] > start.get(queue, 0)
        ]
        return _RangeReader(self._options).partitions(wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of a partition; runs in a worker."""
        return _RangeReader(self._options).read(partition)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream. Lives in one process while its query runs."""

    def __init__(self, options: ReadOptions) -> None:
        unfit = {"endingOffsets": options.end, "endingTimestamp": options.end_ms}
        _reject(unfit, "applies to batch reads only; a stream has no end")
        self._options = options
        self._bounds = OffsetBounds(options)
        self._target: Offsets | None = None  # fixed end of a query with trigger availableNow
        self._seen: Offsets | None = None  # maximum offsets at the last request
        self._last_given = time.monotonic()
        self._is_running = False

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name, as those below
        """Return where a new query begins."""
        start = self._bounds.start("latest")
        if start:
            check_filter(self._options.reading, next(iter(start)))
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one limit of the options; `latestOffset` applies all of them."""
        options = self._options
        if options.offsets_max is not None:
            return ReadMaxRows(options.offsets_max)
        if options.bytes_max is not None:
            return ReadMaxBytes(options.bytes_max)
        if options.offsets_min is not None:
            return ReadMinRows(options.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: newer messages are not read."""
        self._target = self._latest()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Return where the next micro-batch ends; `start` if there is nothing to read yet."""
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
            size = mean_record_size(self._options.reading, ranges(begin, end))
            end = limited(begin, end, max(1, int(self._options.bytes_max / size)))
        return to_json(end)

    def _known_end(self, begin: Offsets) -> Offsets:
        """Return the ends of all queues; a queue that is not visible now stays where it was."""
        found = dict(self._target) if self._target is not None else self._latest()
        for queue, offset in begin.items():
            if found.setdefault(queue, offset) >= offset:
                continue
            if self._options.reading.fail_on_data_loss:
                raise DataLost(
                    f"{queue} ends at {found[queue]} but was read up to {offset}: the topic was"
                    " deleted and created again. Set the option failOnDataLoss=false to read it"
                    " from its beginning"
                )
        return found

    def _latest(self) -> Offsets:
        """Return all maximum offsets. Waits for unreachable brokers, except at the first call."""
        timeout_ms = self._options.reading.broker_timeout_ms if self._is_running else 0
        found = self._seen = retry_unreachable(self._bounds.latest, timeout_ms)
        self._is_running = True
        return found

    def _is_too_few(self, waiting: int) -> bool:
        options = self._options
        if options.offsets_min is None or self._target is not None:
            return False
        is_late = time.monotonic() - self._last_given >= options.delay_max_ms / 1000
        return waiting < options.offsets_min and not is_late

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        """Return the end of the source for the query's progress. Called after `latestOffset`."""
        return to_json(self._latest() if self._seen is None else self._seen)

    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> Sequence[InputPartition]:
        """Return the partitions of a micro-batch. Deterministic, because batches may run again."""
        return _RangeReader(self._options).partitions(ranges(of_json(start), of_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of a partition; runs in a worker."""
        return _RangeReader(self._options).read(partition)

    def commit(self, end: dict[str, object]) -> None:
        """Commit offsets for monitoring, if asked to. The query resumes from its checkpoint."""
        if self._options.commits and self._options.group is not None:
            self._options.reading.cluster.try_commit(self._options.group, of_json(end))

    def __reduce__(self) -> tuple[type, tuple[ReadOptions]]:
        """Pickle the options only: a worker does not need the state of the driver."""
        return RocketMQStreamReader, (replace(self._options),)


def _reject(given: Mapping[str, object], reason: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise BadSetting(f"option {name} {reason}")
