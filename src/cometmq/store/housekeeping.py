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
from cometmq.store.flusher import Flusher
from cometmq.store.index import Index
from cometmq.store.queue_table import QueueTable

log = logging.getLogger(__name__)

PAGE_SIZE = 4096


class Housekeeping:
    """The timers of one store."""

    def __init__(
        self, config: StoreConfig, files: StoreFiles, disk: Disk, clock: Clock,
        commit_log: CommitLog, queues: QueueTable, index: Index | None, flusher: Flusher,
    ) -> None:  # fmt: skip
        self._config = config
        self._files = files
        self._disk = disk
        self._clock = clock
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._flusher = flusher
        self._tasks: list[asyncio.Task[None]] = []
        self._one_at_a_time = asyncio.Lock()
        self.last_stored_ms = 0  # of the newest record in the log

    def start(self) -> None:
        """Run the timers on the running loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._flush_log()), loop.create_task(self._flush_rest())]

    async def abandon(self) -> None:
        """Stop the timers, and nothing else."""
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
        return True

    async def flush(self) -> None:
        """Log first, then what points into it, then the checkpoint that vouches for both."""
        async with self._one_at_a_time:
            last_ms = self.last_stored_ms
            batch = self._queues.unwritten()
            regions = self._index.dirty_regions() if self._index is not None else []
            await self._flusher.flush()
            if not batch and not regions:
                return
            writes = [write for _, _, writes in batch for write in writes]
            await asyncio.wrap_future(self._disk.begin(partial(_write_all, self._disk, writes)))
            for queue, end, _ in batch:
                queue.written(end)
            await asyncio.wrap_future(self._disk.begin(partial(_sync_all, regions)))
            checkpoint = Checkpoint(last_ms, last_ms, last_ms)
            await asyncio.wrap_future(
                self._disk.begin(
                    partial(write_checkpoint, self._disk, self._files.checkpoint, checkpoint)
                )
            )

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


def _sync_all(regions: list[Region]) -> None:
    for region in regions:
        region.sync()
