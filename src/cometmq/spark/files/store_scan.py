"""`format("rocketmq-store")`: reads the files of a store without a broker.

Reads by queue, like a read over the network, or by log, in the order in which messages were stored.
Reading by log also works without queue files and finds records that no queue points to.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cometmq.errors import BadSetting
from cometmq.protocol.names import is_system_topic
from cometmq.spark.files.frames import Damage, LogFrames
from cometmq.spark.files.store_files import Missing, StoreSnapshot, mapped
from cometmq.spark.options import (
    Parse,
    boolean,
    moment,
    only_one,
    parsed,
    pattern,
    text,
    topics,
    whole,
)
from cometmq.spark.read.batches import batches
from cometmq.spark.read.decode import Records
from cometmq.spark.read.pull import DataLost
from cometmq.spark.schema import COLUMNS, chosen_columns, ddl

log = logging.getLogger(__name__)

_PARTITION_MAX = 2_000_000


def _order(name: str, value: str) -> str:
    if value not in ("queues", "log"):
        raise BadSetting(f"option {name} is {value!r}: expected queues or log")
    return value


_OPTIONS: dict[str, Parse] = {
    "path": text,
    "commitLogPath": text,
    "brokerName": text,
    "subscribe": topics,
    "subscribePattern": pattern,
    "by": _order,
    "startingTimestamp": moment,
    "endingTimestamp": moment,
    "failOnDataLoss": boolean,
    "verifyCrc": boolean,
    "maxRecordsPerPartition": whole,
    "columns": lambda name, value: chosen_columns(value),
}


@dataclass(frozen=True)
class ScanOptions:
    """The parsed options of a scan."""

    files: StoreSnapshot
    by_log: bool
    broker_name: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    fail_on_data_loss: bool = True
    verify_crc: bool = False
    partition_max: int = _PARTITION_MAX
    columns: tuple[str, ...] = COLUMNS

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ScanOptions":
        """Parse the options that Spark passes; BadSetting names the wrong option."""
        found = parsed(given, _OPTIONS, {})
        only_one(found, ("subscribe", "subscribePattern"))
        if "path" not in found:
            raise BadSetting(
                "option path is missing: expected the storePathRootDir of a broker or a copy of it"
            )
        files = StoreSnapshot.of(found["path"], found.get("commitLogPath"))
        by = found.get("by", "queues" if files.has_queues else "log")
        if by == "queues" and not files.has_queues:
            raise BadSetting(f"option by is queues: {files.root} has no folder consumequeue")
        return cls(
            files=files,
            by_log=by == "log",
            broker_name=found.get("brokerName", ""),
            topics=found.get("subscribe", ()),
            pattern=found.get("subscribePattern"),
            start_ms=found.get("startingTimestamp"),
            end_ms=found.get("endingTimestamp"),
            fail_on_data_loss=found.get("failOnDataLoss", True),
            verify_crc=found.get("verifyCrc", False),
            partition_max=found.get("maxRecordsPerPartition", _PARTITION_MAX),
            columns=found.get("columns", COLUMNS),
        )

    def wants(self, topic: str) -> bool:
        """Return whether the topic is selected. Without a selection, all are."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None and not is_system_topic(topic)
        return not self.topics or topic in self.topics


@dataclass(frozen=True)
class QueuePart(InputPartition):
    """A partition that reads a range of a queue."""

    topic: str
    queue_id: int
    start: int
    end: int


@dataclass(frozen=True)
class LogPart(InputPartition):
    """A partition that reads a file of the log."""

    base: int
    path: str


class StoreSource(DataSource):
    """The data source that Spark finds as `rocketmq-store`. Options: docs/pipeline.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq-store"

    def schema(self) -> str:
        """Return all columns, or those of the option `columns`."""
        return ddl(ScanOptions.of(self.options).columns)

    def reader(self, schema: object) -> "StoreReader":
        """Return a reader of the files that exist when the read is planned."""
        return StoreReader(ScanOptions.of(self.options))


class StoreReader(DataSourceReader):
    """Plans and reads partitions. All workers must see the files under the same path."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges of queues or files of the log."""
        options = self._options
        if options.by_log:
            return [LogPart(base, str(path)) for base, path in options.files.log_files]
        known = options.files.queues()
        unknown = set(options.topics) - {topic for topic, _ in known}
        if unknown:
            raise BadSetting(f"option subscribe: the store has no topic {sorted(unknown)[0]}")
        found: list[InputPartition] = []
        for topic, queue_id in known:
            if options.wants(topic):
                first, end = options.files.bounds(topic, queue_id)
                for start in range(first, end, options.partition_max):
                    stop = min(start + options.partition_max, end)
                    found.append(QueuePart(topic, queue_id, start, stop))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of a partition; runs in a worker."""
        if isinstance(partition, QueuePart):
            yield from self._read_queue(partition)
        elif isinstance(partition, LogPart):
            yield from self._read_log(partition)

    def _read_queue(self, part: QueuePart) -> Iterator[pa.RecordBatch]:
        options = self._options
        found = options.files.read(part.topic, part.queue_id, part.start, part.end)
        for each in found:
            if isinstance(each, Missing):
                self._report_loss(
                    f"the record of {part.topic}, queue {part.queue_id}, offset"
                    f" {each.queue_offset}, at {each.physical_offset} of the log"
                )
            else:
                yield from self._batches(each)

    def _read_log(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        for each in LogFrames(mapped(Path(part.path)), part.base).walk():
            if isinstance(each, Damage):
                self._report_loss(f"a region of {each.size} bytes at {each.offset} of the log")
                continue
            chosen = bool(self._options.topics) or self._options.pattern is not None
            for batch in self._batches(each.where(each.is_delivered), with_topic=chosen):
                yield self._of_topics(batch) if chosen else batch

    def _batches(self, records: Records, *, with_topic: bool = False) -> Iterator[pa.RecordBatch]:
        options = self._options
        if options.start_ms is not None:
            records = records.where(records.stored_ms >= options.start_ms)
        if options.end_ms is not None:
            records = records.where(records.stored_ms < options.end_ms)
        if options.verify_crc and not records.has_right_crc.all():
            bad = records.where(~records.has_right_crc)
            self._report_loss(f"the body of the record at {bad.physical_offsets[0]} of the log")
            records = records.where(records.has_right_crc)
        columns = options.columns
        if with_topic and "topic" not in columns:
            columns = (*columns, "topic")
        yield from batches(records, options.broker_name, columns)

    def _of_topics(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of selected topics."""
        names = [name for name in batch["topic"].unique().to_pylist() if self._options.wants(name)]
        chosen = batch.filter(pc.is_in(batch["topic"], pa.array(names, pa.string())))
        return chosen.select(self._options.columns)

    def _report_loss(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{what} is damaged or missing."
                " Set the option failOnDataLoss=false to skip damaged records"
            )
        log.warning("skipped, because it is damaged or missing: %s", what)
