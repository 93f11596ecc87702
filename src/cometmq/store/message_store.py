"""The only door of the layer: open, put, get, query, close.

Everything runs on the loop but for syncs and the making of files: a put appends to the log, adds
the queue's unit and the keys, and tells who waits, in one go and without a lock. A put returns at
once; `durable` is awaited by whoever promised that it is on disk.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import cast

from cometmq.errors import DiskFull, StoreFailed
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.key_hash import key_hashes
from cometmq.protocol.records.message import StoredMessage
from cometmq.seams import Clock, Disk, Lock
from cometmq.store.config import FlushDiskType, StoreConfig
from cometmq.store.contents import FlushState, StoreContents
from cometmq.store.disk_full import is_full
from cometmq.store.files import StoreFiles
from cometmq.store.housekeeping import Housekeeping
from cometmq.store.index.index import Index
from cometmq.store.index.key_search import KeySearch
from cometmq.store.index.tag_and_keys import marks_of
from cometmq.store.log.appender import Announce, Appender
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.flusher import Flusher
from cometmq.store.log.new_message import NewMessage, NewMessages, RecordWriter, by_columns
from cometmq.store.log.vetting import Vetting
from cometmq.store.queue.by_time import earliest_ms, offset_by_time
from cometmq.store.queue.extended_queue import queue_maker
from cometmq.store.queue.queue_table import QueueTable
from cometmq.store.queue.reader import (
    UNITS_SCANNED_MAX,
    Reader,
    RecordFilter,
    TagFilter,
    read_limits,
)
from cometmq.store.queue.results import Found, Stored, StoredMessages, Unit
from cometmq.store.queue.unit_check import judge_unit
from cometmq.store.queue.unit_rebuild import UnitRebuild
from cometmq.store.recovery.opening import Opening
from cometmq.store.recovery.rebuild import Coder
from cometmq.store.recovery.recovery import Recovered, RecoveryParts
from cometmq.store.retention import FULL_RATIO, Retention

log = logging.getLogger(__name__)


def _nobody(topic: str, queue_id: int, end: int, code: int) -> None:
    """For a store that nobody waits at."""


class MessageStore:
    """`async with MessageStore(...) as store:` opens, recovers, and closes cleanly."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        clock: Clock,
        host: Host,
        *,
        announce: Announce = _nobody,
        coder: Coder | None = None,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._files = StoreFiles.of(config)
        self._announce = announce
        self._coder = coder
        warm_pages = config.warm_maped_file_enable * config.flush_least_pages_when_warm_maped_file
        self._log = CommitLog(
            self._files.commit_log, config.mapped_file_size_commit_log, disk, warm_pages
        )
        self._writer = RecordWriter(host, config.max_message_size)
        self._queues = QueueTable(
            self._files.queues,
            config.mapped_file_size_consume_queue,
            disk,
            partial(judge_unit, self._log),
            self._log,
            queue_maker(config, self._files, disk),
        )
        self._index: Index | None = None
        if config.message_index_enable:
            slots, entries = config.max_hash_slot_num, config.max_index_num
            self._index = Index(self._files.index, slots, entries, disk, clock, self._has_key)
        self._appender = Appender(
            self._log, self._writer, self._queues, self._index, announce, coder
        )
        self._vetting = Vetting(self._log)
        self._rebuild = UnitRebuild(self._log, self._queues, self._vetting, coder, announce)
        limits = read_limits(config)
        self._reader = Reader(self._log, limits, self._vetting, self._rebuild.request)
        self._search = KeySearch(self._index, self.record, config.max_msgs_num_batch)
        self._flusher: Flusher
        self._flushed: FlushState
        self._retention: Retention
        self._housekeeping: Housekeeping
        self._lock: Lock | None = None
        self.recovered: Recovered

    # Opening and closing

    async def __aenter__(self) -> "MessageStore":
        self._lock = self._disk.lock(self._files.lock)
        try:
            parts = RecoveryParts(self._log, self._queues, self._index, self._coder)
            self.recovered = Opening(self._files, self._disk, parts).run()
            self._flusher = Flusher(self._log, self._disk, self.recovered.durable)
            contents = StoreContents(self._log, self._queues, self._index)
            self._flushed = FlushState(self.recovered.vouched)
            self._retention = Retention(
                self._config, self._files, self._disk, self._clock, contents, self._flushed
            )
            self._retention.doom(self.recovered.stale)
            self._housekeeping = Housekeeping(
                self._config,
                self._files,
                self._disk,
                self._clock,
                contents,
                self._flushed,
                self._flusher,
                self._retention,
            )
            self._housekeeping.last_stored_ms = self.recovered.last_stored_ms
            await self._flush_as_room_is()
            self._forget_accepted_loss()
        except BaseException:
            self._lock.release()
            raise
        self._housekeeping.start()
        self._housekeeping.start_rebuild(self._rebuild)
        return self

    async def _flush_as_room_is(self) -> None:
        """Flush everything. On a full disk log the error and go on: later flushes try again."""
        try:
            await self._housekeeping.flush()
        except OSError as error:
            if not is_full(error):
                raise
            log.error("the disk is full; queues and index are written when there is room")

    def _forget_accepted_loss(self) -> None:
        """The acceptance is valid for one start: the next loss needs a new one."""
        path = self._files.accepted_loss
        if self._flushed.failure is None and path.name in self._disk.names(path.parent):
            self._disk.delete(path)

    async def __aexit__(self, *_: object) -> None:
        assert self._lock is not None
        try:
            clean = await self._housekeeping.stop()
            self._log.close()
            if self._index is not None:
                self._index.close()
            if clean:
                self._disk.delete(self._files.abort)
        finally:
            self._lock.release()

    async def abandon(self) -> None:
        """As a crash would: nothing is flushed, and the abort file stays."""
        assert self._lock is not None
        await self._housekeeping.abandon()
        self._lock.release()

    def use(self, config: StoreConfig) -> None:
        """Go on with other settings. What shapes files stays as it was."""
        self._config = config
        self._reader.use(read_limits(config))
        self._writer.limit_bodies(config.max_message_size)
        self._search.answers_max = config.max_msgs_num_batch
        self._retention.use(config)
        self._housekeeping.use(config)

    def _has_key(self, physical_offset: int, key_hash: int) -> bool:
        """Has the record there a key of this hash? One that left the log cannot be asked."""
        if physical_offset < self._log.start:
            return True
        record = self._reader.record_or_none(physical_offset)
        keys = marks_of(record.properties_text).keys if record is not None else ()
        return record is not None and key_hash in key_hashes(record.topic, keys)

    # Writing

    def put(self, message: NewMessage, now_ms: int, *, internal: bool = False) -> Stored:
        """The same as `put_all` of a run of one."""
        if self._flusher.failure is not None or (self._retention.puts_stop and not internal):
            raise self._refusal()
        stored = self._appender.append_one(message, now_ms, internal=internal)
        self._housekeeping.last_stored_ms = now_ms
        return stored

    def put_all(
        self,
        messages: NewMessages | Sequence[NewMessage],
        now_ms: int,
        *,
        internal: bool = False,
        in_this_file: bool = False,
    ) -> StoredMessages:
        """Append to the log, to queues and index, and announce: all messages, or none.

        TooLarge, Malformed, DiskFull, BeingDeleted or StoreFailed, and nothing happened. An
        internal write may use room that is reserved: it completes acknowledged work. With
        `in_this_file`, NeedsNewFile if the log file in use has no room for all of them: messages
        that are put one by one fill it first.
        """
        if self._flusher.failure is not None or (self._retention.puts_stop and not internal):
            raise self._refusal()
        if type(messages) is not NewMessages:
            messages = by_columns(cast(Sequence[NewMessage], messages))
        stored = self._appender.append(
            messages, now_ms, internal=internal, in_this_file=in_this_file
        )
        self._housekeeping.last_stored_ms = now_ms
        return stored

    def _refusal(self) -> StoreFailed | DiskFull:
        if self._flusher.failure is not None:
            return StoreFailed("the disk failed this store; it takes no messages until restarted")
        full = f"the disk is more than {FULL_RATIO * 100:.0f} % full"
        if self._retention.blocked_by is not None:
            why = self._retention.blocked_by.strerror
            return DiskFull(f"{full}, and old files stay as queues cannot be written: {why}")
        return DiskFull(f"{full}; old files go, or make room")

    def durable(self, stored: Stored) -> "asyncio.Future[None]":
        """Done when a put message survives a power cut."""
        return self._flusher.durable(stored.end)

    @property
    def promises_disk(self) -> bool:
        """A send is acknowledged only once it is on disk."""
        return self._config.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def flushed_end(self) -> int:
        """Up to which offset the log survives a power cut."""
        return self._flusher.flushed

    @property
    def flush_patience_ms(self) -> int:
        """How long a send waits for the disk."""
        return self._config.sync_flush_timeout

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        count_max: int,
        wants_tag: TagFilter | None = None,
        wants_record: RecordFilter | None = None,
        units_max: int = UNITS_SCANNED_MAX,
    ) -> Found:
        """Messages of a queue from an offset on, as views of the log."""
        queue = self._queues.get(topic, queue_id)
        return self._reader.get(queue, queue_offset, count_max, wants_tag, wants_record, units_max)

    @property
    def damaged(self) -> int:
        """Records, or stretches of the log, that were found bad since it was opened."""
        return len(self.recovered.bad) + self._vetting.damaged

    @property
    def rebuilds(self) -> int:
        """Damaged queues, or stretches of one, that were rebuilt from the log since it opened."""
        return self.recovered.rebuilt_queues + self._rebuild.count

    def check_units(self, topic: str, queue_id: int, start: int) -> None:
        """Before anybody is served: check the units from an offset on, and rebuild wrong ones."""
        self._rebuild.check_now(self._queues.get(topic, queue_id), start, self._disk)

    async def rebuilt(self) -> None:
        """Return when no damaged unit that was read is still to be rebuilt."""
        await self._rebuild.idle.wait()

    @property
    def queue_files_set_aside(self) -> int:
        """Consume queue files that did not fit the others since the store was opened."""
        return self._queues.set_aside

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First offset and end of a queue."""
        queue = self._queues.trimmed(topic, queue_id)
        return queue.first, queue.end

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[Unit]:
        """What the queue itself holds from an offset on: place, size and code of each message."""
        queue = self._queues.get(topic, queue_id)
        found = self._reader.units(queue, queue_offset, count)
        return [Unit._make(unit) for unit in queue.coded(found)]

    def message(self, topic: str, queue_id: int, queue_offset: int) -> StoredMessage | None:
        """The message at an offset of a queue; None if it is gone, or damaged."""
        units = self.units(topic, queue_id, queue_offset, 1)
        found = self.record(units[0].physical_offset) if units else None
        place = topic, queue_id, queue_offset
        if found is None or (found.topic, found.queue_id, found.queue_offset) != place:
            return None
        return found

    def is_hot(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Read from memory: near the end of the log, or not there at all."""
        units = self.units(topic, queue_id, queue_offset, 1)
        return not units or self._reader.is_hot(units[0].physical_offset)

    def record(self, physical_offset: int) -> StoredMessage | None:
        """The message that stands there; None if none does, or it is damaged."""
        return self._reader.record_or_none(physical_offset)

    def offset_by_time(self, topic: str, queue_id: int, wanted_ms: int) -> int:
        """The queue offset of the message that was stored nearest to a time."""
        return offset_by_time(self._reader, self._queues.trimmed(topic, queue_id), wanted_ms)

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """When the oldest message of a queue was stored; -1 if there is none."""
        return earliest_ms(self._reader, self._queues.trimmed(topic, queue_id))

    @property
    def has_index(self) -> bool:
        """Messages can be found by their keys."""
        return self._index is not None

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int | None = None
    ) -> list[StoredMessage]:
        """Messages with a key, newest first."""
        return self._search.query(topic, key, begin_ms, end_ms, count_max)

    async def search(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int | None = None
    ) -> list[StoredMessage]:
        """The same as `query`; other tasks run while it walks a long chain of the index."""
        return await self._search.search(topic, key, begin_ms, end_ms, count_max)

    @property
    def log_bounds(self) -> tuple[int, int]:
        """First and last offset of the log."""
        return self._log.start, self._log.end

    def clean(self) -> int:
        """Forget what is past its time now, at whatever hour; the number of log files that went.

        The next flush deletes them.
        """
        return self._retention.clean(by_hand=True)

    async def delete_topic(self, topic: str) -> None:
        """Forget the queues of a topic; its records leave with their files of the log."""
        await self._housekeeping.delete_topic(topic)

    async def flush(self) -> None:
        """Everything: log, queues, index, checkpoint."""
        await self._housekeeping.flush()
