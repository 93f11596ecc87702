"""What a store does by itself: timed flushes of log, queues and index, and the checkpoint."""

import asyncio
import logging
from functools import partial

from cometmq.errors import StoreFailed
from cometmq.seams import Clock, Disk, Region
from cometmq.store.checkpoint import Checkpoint, write_checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import Write
from cometmq.store.files import StoreFiles
from cometmq.store.flusher import Flusher, sync_all
from cometmq.store.index import Index
from cometmq.store.queue_table import QueueTable
from cometmq.store.retention import Retention

log = logging.getLogger(__name__)

PAGE_SIZE = 4096


class Housekeeping:
    """The timers of one store."""

    def __init__(
        self, config: StoreConfig, files: StoreFiles, disk: Disk, clock: Clock,
        commit_log: CommitLog, queues: QueueTable, index: Index | None, flusher: Flusher,
        retention: Retention,
    ) -> None:  # fmt: skip
        self._config = config
        self._files = files
        self._disk = disk
        self._clock = clock
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._flusher = flusher
        self._retention = retention
        self._tasks: list[asyncio.Task[None]] = []
        self._one_at_a_time = asyncio.Lock()
        self._unsynced: list[Region] = []  # of the index
        self._index_failed = False
        self._vouched_end = -1
        self.last_stored_ms = 0  # of the newest record in the log

    def start(self) -> None:
        """Run the timers on the running loop."""
        loop = asyncio.get_running_loop()
        timers = (self._flush_log(), self._flush_rest(), self._clean())
        self._tasks = [loop.create_task(timer) for timer in timers]

    async def abandon(self) -> None:
        """Stop the timers, and nothing else; a flush that is under way ends first."""
        async with self._one_at_a_time:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> bool:
        """Stop the timers and flush everything; False if the disk would not have it."""
        await self.abandon()
        try:
            await self.flush()
        except (StoreFailed, OSError) as error:
            log.error("the store could not be closed cleanly: %s", error)
            return False
        return not self._index_failed

    async def flush(self) -> None:
        """Log first, then what points into it, then the checkpoint that vouches for both."""
        async with self._one_at_a_time:
            last_ms, end = self.last_stored_ms, self._log.end
            index_ms = last_ms
            batch = self._queues.unwritten()
            if self._index is not None:
                # They are told once: those of a flush that fails are synced by the next.
                self._unsynced += self._index.dirty_regions()
                index_ms = 0 if self._index_failed else self._index.last_stored_ms
            await self._flusher.flush()
            if not batch and not self._unsynced and end == self._vouched_end:
                return
            writes = [write for _, _, writes in batch for write in writes]
            await asyncio.wrap_future(self._disk.begin(partial(_write_all, self._disk, writes)))
            for queue, queue_end, _ in batch:
                queue.written(queue_end)
            await self._sync_index()
            checkpoint = Checkpoint(last_ms, last_ms, index_ms, log_end=end, queues_end=end)
            await asyncio.wrap_future(
                self._disk.begin(
                    partial(write_checkpoint, self._disk, self._files.checkpoint, checkpoint)
                )
            )
            self._vouched_end = end

    async def _sync_index(self) -> None:
        """A failed sync is final here too: the index is made again when the store is opened."""
        regions = self._unsynced
        try:
            await asyncio.wrap_future(self._disk.begin(partial(sync_all, regions)))
        except OSError:
            self._index_failed = True
            raise
        finally:
            self._unsynced = []

    async def _flush_log(self) -> None:
        """At least so many dirty pages, or so much time since the last flush."""
        least = self._config.flush_commit_log_least_pages * PAGE_SIZE
        flushed_ms = self._clock.monotonic_ms()
        while True:
            await self._clock.sleep_ms(self._config.flush_interval_commit_log)
            self._log.begin_next()
            if self._index is not None:
                self._index.begin_next()
            now_ms = self._clock.monotonic_ms()
            dirty = self._log.end - self._flusher.flushed
            thorough = now_ms - flushed_ms >= self._config.flush_commit_log_thorough_interval
            if dirty > 0 and (dirty >= least or thorough):
                try:
                    await self._flusher.flush()
                except StoreFailed:
                    return  # told by the flusher; every put says so from now on
                flushed_ms = now_ms

    async def _clean(self) -> None:
        while True:
            try:
                self._retention.clean()
            except OSError as error:
                log.error("old files could not be deleted, will try again: %s", error)
            await self._clock.sleep_ms(self._config.clean_resource_interval)

    async def _flush_rest(self) -> None:
        while True:
            await self._clock.sleep_ms(self._config.flush_interval_consume_queue)
            try:
                await self.flush()
            except StoreFailed:
                return
            except OSError as error:
                log.error("queues or index could not be written, will try again: %s", error)


def _write_all(disk: Disk, writes: list[Write]) -> None:
    for path, offset, data, file_size in writes:
        disk.write_at(path, offset, data, file_size)
