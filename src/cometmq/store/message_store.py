"""The only door of the layer: open, put, get, query, close.

Everything runs on the loop but for syncs and the making of files: a put appends to the log, writes
the queue's unit and the keys, and tells who waits, in one go and without a lock. A put returns at
once; `durable` is awaited by whoever promised that it is on disk.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

from cometmq.errors import BadState, DiskFull, StoreFailed
from cometmq.protocol.hosts import Host
from cometmq.protocol.message import StoredMessage
from cometmq.seams import Clock, Disk, Lock
from cometmq.store.by_time import earliest_ms, offset_by_time
from cometmq.store.checkpoint import read_checkpoint, write_checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import FlushDiskType, StoreConfig
from cometmq.store.dispatcher import TRANSACTION, UNQUEUED, Coder, Dispatcher
from cometmq.store.files import StoreFiles
from cometmq.store.flusher import Flusher
from cometmq.store.found import Found, Stored
from cometmq.store.housekeeping import Housekeeping
from cometmq.store.index import Index
from cometmq.store.marks import marks_of
from cometmq.store.new_message import NewMessage, RecordWriter
from cometmq.store.queue_table import QueueTable
from cometmq.store.reader import Reader, ReadLimits, RecordFilter, TagFilter
from cometmq.store.recovery import (
    NEVER_MS,
    Recovered,
    Starts,
    recover,
    safe_start,
    starts_after_crash,
)
from cometmq.store.retention import Retention

log = logging.getLogger(__name__)

# Told of each message: topic, queue id, the queue's new end, tag code.
Announce = Callable[[str, int, int, int], None]


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
        self._log = CommitLog(self._files.commit_log, config.mapped_file_size_commit_log, disk)
        self._writer = RecordWriter(host, config.max_message_size)
        self._queues = QueueTable(
            self._files.queues, config.mapped_file_size_consume_queue, disk, self._is_unit_of,
            lambda: self._log.start,
        )  # fmt: skip
        self._index: Index | None = None
        if config.message_index_enable:
            slots, entries = config.max_hash_slot_num, config.max_index_num
            self._index = Index(self._files.index, slots, entries, disk, clock)
        self._reader = Reader(self._log, _read_limits(config))
        self._flusher: Flusher
        self._retention: Retention
        self._housekeeping: Housekeeping
        self._lock: Lock | None = None
        self.recovered: Recovered

    # Opening and closing

    async def __aenter__(self) -> "MessageStore":
        self._lock = self._disk.lock(self._files.lock)
        try:
            self._recover()
            self._flusher = Flusher(self._log, self._disk, self.recovered.durable)
            self._retention = Retention(
                self._config, self._files, self._disk, self._clock,
                self._log, self._queues, self._index,
            )  # fmt: skip
            self._housekeeping = Housekeeping(
                self._config, self._files, self._disk, self._clock,
                self._log, self._queues, self._index, self._flusher, self._retention,
            )  # fmt: skip
            self._housekeeping.last_stored_ms = self.recovered.last_stored_ms
            await self._housekeeping.flush()
        except BaseException:
            self._lock.release()
            raise
        self._housekeeping.start()
        return self

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

    def _recover(self) -> None:
        unclean = self._files.abort.name in self._disk.names(self._files.root)
        checkpoint = read_checkpoint(self._disk, self._files.checkpoint)
        self._log.load(log.warning)
        if self._lost_a_folder():
            log.warning("queues or index are gone: they are made again from the log")
            unclean, checkpoint = True, checkpoint.of_log_alone()
        self._disk.replace(self._files.abort, str(os.getpid()).encode())
        if self._index is not None:
            safe_end = checkpoint.queues_end if checkpoint.index_ms else -1
            self._index.load(unclean, safe_end, checkpoint.index_ms, log.warning)
        starts = Starts(log=safe_start(self._log, NEVER_MS))
        if unclean:
            # Until the queues are whole again, no checkpoint may vouch for them.
            write_checkpoint(self._disk, self._files.checkpoint, checkpoint.of_log_alone())
            index_end = self._index.end_offset if self._index is not None else None
            starts = starts_after_crash(self._log, checkpoint, index_end)
        dispatcher = Dispatcher(self._queues, self._index, self._coder)
        self.recovered = recover(self._log, dispatcher, starts)

    def _lost_a_folder(self) -> bool:
        """There is a log, but not what points into it."""
        folders = [self._files.queues]
        if self._index is not None:
            folders.append(self._files.index)
        return bool(self._log.files) and not all(self._disk.names(path) for path in folders)

    def _is_unit_of(
        self, topic: str, queue_id: int, queue_offset: int, physical_offset: int, size: int
    ) -> bool:
        """Does the record at this place say that it belongs there?"""
        record = self._reader.record_or_none(physical_offset)
        start = self._log.view(physical_offset, 4)
        if start is None or int.from_bytes(start) != size:
            return False
        return record is not None and (
            (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, queue_offset)
        )

    # Writing

    def put(self, message: NewMessage, now_ms: int) -> Stored:
        """Append, dispatch, announce. TooLarge, DiskFull or StoreFailed, and nothing happened."""
        if self._flusher.failure is not None:
            raise StoreFailed("the disk failed this store; it takes no messages until restarted")
        if self._retention.puts_stop:
            raise DiskFull("the disk is more than 90 % full; old files go, or make room")
        topic = message.topic
        prepared = self._writer.prepare(message)
        size = prepared.size
        queue = self._queues.get(topic, message.queue_id)
        queued = message.sys_flag & TRANSACTION not in UNQUEUED
        queue_offset = queue.end if queued else 0
        code, keys = marks_of(message.properties_text)
        try:
            file = self._log.room_for(size)
            at = file.written
            offset = file.base + at
            if self._index is not None:
                self._index.put(topic, keys, offset, now_ms)
        except OSError as error:
            raise DiskFull(f"no room for another file: {error.strerror}") from error
        self._writer.write(file.memory, at, offset, queue_offset, now_ms, message, prepared)
        file.written = at + size
        self._housekeeping.last_stored_ms = now_ms
        if queued:
            if self._coder is not None:
                code = self._coder(topic, message.properties_text, code, now_ms)
            queue.append(offset, size, code)
            self._announce(topic, message.queue_id, queue_offset + 1, code)
        return Stored(offset, queue_offset, size, offset + size)

    def put_batch(self, messages: Sequence[NewMessage], now_ms: int) -> list[Stored]:
        """Several messages of one queue: all of them, or none."""
        try:
            self._log.room_for(sum(self._writer.prepare(message).size for message in messages))
            if self._index is not None:
                keys = (marks_of(message.properties_text).keys for message in messages)
                self._index.make_room(sum(map(len, keys)))
        except OSError as error:
            raise DiskFull(f"no room for another file: {error.strerror}") from error
        return [self.put(message, now_ms) for message in messages]

    def durable(self, stored: Stored) -> "asyncio.Future[None]":
        """Done when a put message survives a power cut."""
        return self._flusher.durable(stored.end)

    @property
    def promises_disk(self) -> bool:
        """A send is acknowledged only once it is on disk."""
        return self._config.flush_disk_type is FlushDiskType.SYNC_FLUSH

    # Reading

    def get(
        self, topic: str, queue_id: int, queue_offset: int, count_max: int,
        wants_tag: TagFilter | None = None, wants_record: RecordFilter | None = None,
    ) -> Found:  # fmt: skip
        """Messages of a queue from an offset on, as views of the log."""
        queue = self._queues.get(topic, queue_id)
        return self._reader.get(queue, queue_offset, count_max, wants_tag, wants_record)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First offset and end of a queue."""
        queue = self._queues.get(topic, queue_id)
        return queue.first, queue.end

    def record(self, physical_offset: int) -> StoredMessage | None:
        """The message that stands there; None if none does, or it is damaged."""
        return self._reader.record_or_none(physical_offset)

    def offset_by_time(self, topic: str, queue_id: int, wanted_ms: int) -> int:
        """The queue offset of the message that was stored nearest to a time."""
        return offset_by_time(self._reader, self._queues.get(topic, queue_id), wanted_ms)

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """When the oldest message of a queue was stored; -1 if there is none."""
        return earliest_ms(self._reader, self._queues.get(topic, queue_id))

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int | None = None
    ) -> list[StoredMessage]:
        """Messages with a key, newest first."""
        if self._index is None:
            raise BadState("messageIndexEnable is false: messages cannot be found by key")
        wanted = min(count_max or 2**31, self._config.default_query_max_num)
        found = []
        for offset in self._index.query(topic, key, begin_ms, end_ms, 2**31):
            message = self.record(offset)
            if (
                message is not None
                and message.topic == topic
                and begin_ms <= message.stored_ms <= end_ms
                and key in marks_of(message.properties_text).keys
            ):
                found.append(message)
                if len(found) == wanted:
                    break
        return found

    @property
    def log_bounds(self) -> tuple[int, int]:
        """First and last offset of the log."""
        return self._log.start, self._log.end

    def clean(self) -> int:
        """Delete what is past its time now, at whatever hour; the number of log files that went."""
        return self._retention.clean(by_hand=True)

    def delete_topic(self, topic: str) -> None:
        """Forget the queues of a topic; its records leave with their files of the log."""
        self._queues.delete_topic(topic)

    async def flush(self) -> None:
        """Everything: log, queues, index, checkpoint."""
        await self._housekeeping.flush()


def _read_limits(config: StoreConfig) -> ReadLimits:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return ReadLimits(
        hot_bytes=config.max_transfer_bytes_on_message_in_memory,
        hot_count=config.max_transfer_count_on_message_in_memory,
        cold_bytes=config.max_transfer_bytes_on_message_in_disk,
        cold_count=config.max_transfer_count_on_message_in_disk,
        memory=memory * config.access_message_in_memory_max_ratio // 100,
    )
