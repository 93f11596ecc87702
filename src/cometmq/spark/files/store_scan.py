"""`format("rocketmq-store")`: the files of a store as a table, with no broker asked.

By queues, which is what a read over the network gives; or by the log, where there are no queues or
everything is wanted, in the order in which it was stored.
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
from cometmq.spark.options import Parse, moment, only_one, parsed, pattern, text, topics, whole
from cometmq.spark.options import yes_or_no as flag
from cometmq.spark.read.batches import batches
from cometmq.spark.read.decode import Records
from cometmq.spark.read.pull import DataLost
from cometmq.spark.schema import COLUMNS, chosen_columns, ddl

log = logging.getLogger(__name__)

_PARTITION_MAX = 2_000_000


def _way(name: str, value: str) -> str:
    if value not in ("queues", "log"):
        raise BadSetting(f"option {name} is {value!r}: queues, or log")
    return value


_OPTIONS: dict[str, Parse] = {
    "path": text,
    "commitLogPath": text,
    "brokerName": text,
    "subscribe": topics,
    "subscribePattern": pattern,
    "by": _way,
    "startingTimestamp": moment,
    "endingTimestamp": moment,
    "failOnDataLoss": flag,
    "verifyCrc": flag,
    "maxRecordsPerPartition": whole,
    "columns": lambda name, value: chosen_columns(value),
}


@dataclass(frozen=True)
class ScanOptions:
    """What a scan is asked for."""

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
        """BadSetting, which names the option, if it cannot be."""
        found = parsed(given, _OPTIONS, {})
        only_one(found, ("subscribe", "subscribePattern"))
        if "path" not in found:
            raise BadSetting("option path is missing: the storePathRootDir of a broker, or a copy")
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
        """If its rows are asked for: all are, if none are named."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None and not is_system_topic(topic)
        return not self.topics or topic in self.topics


@dataclass(frozen=True)
class QueuePart(InputPartition):
    """A range of a queue."""

    topic: str
    queue_id: int
    start: int
    end: int


@dataclass(frozen=True)
class LogPart(InputPartition):
    """A file of the log."""

    base: int
    path: str


class StoreSource(DataSource):
    """See docs/pipeline.md for its options."""

    @classmethod
    def name(cls) -> str:
        """As users write it."""
        return "rocketmq-store"

    def schema(self) -> str:
        """All columns, or those of the option."""
        return ddl(ScanOptions.of(self.options).columns)

    def reader(self, schema: object) -> "StoreReader":
        """Of what is there when it is planned."""
        return StoreReader(ScanOptions.of(self.options))


class StoreReader(DataSourceReader):
    """Reads files that every worker must see under the same path."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of queues, or files of the log."""
        options = self._options
        if options.by_log:
            return [LogPart(base, str(path)) for base, path in options.files.log_files]
        known = options.files.queues()
        strange = set(options.topics) - {topic for topic, _ in known}
        if strange:
            raise BadSetting(f"option subscribe: the store has no topic {sorted(strange)[0]}")
        found: list[InputPartition] = []
        for topic, queue_id in known:
            if options.wants(topic):
                first, end = options.files.bounds(topic, queue_id)
                for start in range(first, end, options.partition_max):
                    stop = min(start + options.partition_max, end)
                    found.append(QueuePart(topic, queue_id, start, stop))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker."""
        if isinstance(partition, QueuePart):
            yield from self._read_queue(partition)
        elif isinstance(partition, LogPart):
            yield from self._read_log(partition)

    def _read_queue(self, part: QueuePart) -> Iterator[pa.RecordBatch]:
        options = self._options
        found = options.files.read(part.topic, part.queue_id, part.start, part.end)
        for each in found:
            if isinstance(each, Missing):
                self._lose(
                    f"the record of {part.topic}, queue {part.queue_id}, offset"
                    f" {each.queue_offset}, at {each.physical_offset} of the log"
                )
            else:
                yield from self._batches(each)

    def _read_log(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        for each in LogFrames(mapped(Path(part.path)), part.base).walk():
            if isinstance(each, Damage):
                self._lose(f"{each.size} bytes at {each.offset} of the log")
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
            self._lose(f"the body of the record at {bad.physical_offsets[0]} of the log")
            records = records.where(records.has_right_crc)
        columns = options.columns
        if with_topic and "topic" not in columns:
            columns = (*columns, "topic")
        yield from batches(records, options.broker_name, columns)

    def _of_topics(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Only rows of topics that are asked for; a batch has few."""
        names = [name for name in batch["topic"].unique().to_pylist() if self._options.wants(name)]
        chosen = batch.filter(pc.is_in(batch["topic"], pa.array(names, pa.string())))
        return chosen.select(self._options.columns)

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{what} is damaged or gone."
                " With the option failOnDataLoss=false such are passed over"
            )
        log.warning("passed over, as it is damaged or gone: %s", what)
