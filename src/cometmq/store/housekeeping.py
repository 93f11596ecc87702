"""Background work of a store: flushes of log, queues and index, the checkpoint, cleaning."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from cometmq.background import Background
from cometmq.errors import BeingDeleted, StoreFailed
from cometmq.seams import Clock, Disk, Region
from cometmq.store.config import StoreConfig
from cometmq.store.contents import FlushState, StoreContents
from cometmq.store.files import StoreFiles
from cometmq.store.log.flusher import Flusher, sync_all
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.file_runs import Write
from cometmq.store.queue.queue_files import write_in_order
from cometmq.store.queue.queue_table import Key
from cometmq.store.queue.unit_rebuild import UnitRebuild
from cometmq.store.recovery.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from cometmq.store.recovery.manifest import Bounds, write_manifest
from cometmq.store.retention import Retention

log = logging.getLogger(__name__)

PAGE_SIZE = 4096
_BOUNDS_EVERY_MS = 60_000
_QUEUES_AT_ONCE = 256  # per write: their units are collected on the loop


class Housekeeping:
    """The timers of one store. Flushes never run concurrently."""

    def __init__(
        self,
        config: StoreConfig,
        files: StoreFiles,
        disk: Disk,
        clock: Clock,
        contents: StoreContents,
        flushed: FlushState,
        flusher: Flusher,
        retention: Retention,
    ) -> None:
        self._config = config
        self._files = files
        self._disk = disk
        self._clock = clock
        self._log = contents.log
        self._queues = contents.queues
        self._index = contents.index
        self._flushed = flushed
        self._flusher = flusher
        self._retention = retention
        self._background = Background(clock)
        self._log_flushed_ms = clock.monotonic_ms()
        self._one_at_a_time = asyncio.Lock()
        self._unsynced: list[Region] = []  # of the index
        self._index_failed = contents.index is not None and contents.index.lacks_keys
        self._written_end = -1  # of the last checkpoint that was written here
        self._bounds_noted_ms: int | None = None
        self._index_names: list[str] | None = None  # of the files that the manifest lists
        self.last_stored_ms = 0  # of the newest record in the log

    def start(self) -> None:
        every, start = self._background.every, self._background.start
        every(lambda: self._config.flush_interval_commit_log, self._flush_log, "flush of the log")
        every(lambda: self._config.flush_interval_consume_queue, self._flush_rest, "timed flush")
        start(self._clean(), "first cleaning")
        every(lambda: self._config.clean_resource_interval, self._clean, "cleaning")

    def start_rebuild(self, rebuild: UnitRebuild) -> None:
        """Rebuild damaged units in the background; no file is deleted during a write of units."""
        work = rebuild.serve(self._write_units, self._clock.sleep_ms)
        self._background.start(work, "rebuild of damaged units")

    async def _write_units(self, writes: Callable[[], list[Write] | None]) -> bool:
        """Write units while no file is deleted; False if `writes` returns None (queue deleted)."""
        async with self._one_at_a_time:
            found = writes()
            if found is None:
                return False
            await self._begin(partial(self._disk.write_all, found))
            return True

    def use(self, config: StoreConfig) -> None:
        """Use other settings, from the next run of each timer on."""
        self._config = config

    async def abandon(self) -> None:
        """Stop the timers without flushing; a flush in progress completes first."""
        async with self._one_at_a_time:
            await self._background.close()

    async def stop(self) -> bool:
        """Stop the timers and flush everything; False if the disk failed."""
        await self.abandon()
        try:
            self._bounds_noted_ms = None
            await self.flush()
        except (StoreFailed, OSError) as error:
            log.error("the store could not be closed cleanly: %s", error)
            return False
        return not self._index_failed

    async def flush(self) -> None:
        """Flush the log, then queues and index, which point into it, then write the checkpoint."""
        async with self._one_at_a_time:
            try:
                await self._flush_all()
            except OSError as error:
                self._flushed.failure = error
                raise
            self._flushed.failure = None

    async def _flush_all(self) -> None:
        await self._delete_doomed()
        await self._delete_leaving()
        checkpoint = self._checkpoint()
        bounds = self._bounds_to_list()
        queues = self._queues.with_unwritten()
        if self._index is not None:
            # Each region is returned once: if this flush fails, the next one syncs it.
            self._unsynced += self._index.dirty_regions()
            checkpoint = replace(
                checkpoint,
                index_ms=self._index.last_stored_ms,
                queues_ms=min(checkpoint.queues_ms, self._index.in_use_since_ms()),
            )
            if self._index_failed:  # the next start rebuilds it in any case
                checkpoint = checkpoint.without_index()
                self._unsynced = []
        await self._flusher.flush()
        is_same = checkpoint.log_end == self._written_end and self._listed() is None
        if is_same and not queues and not self._unsynced and not bounds:
            return
        for start in range(0, len(queues), _QUEUES_AT_ONCE):
            await self._write_queues(queues[start : start + _QUEUES_AT_ONCE])
        await self._sync_index()
        self._queues.list_bounds(bounds)
        await self._list_files()
        await self._begin(partial(write_checkpoint, self._disk, self._files.checkpoint, checkpoint))
        self._flushed.vouched_end = self._written_end = checkpoint.log_end

    def _bounds_to_list(self) -> dict[Key, Bounds]:
        """First and last offsets of queues for the manifest, once a minute: the list is long.

        They are written after the units are on disk: a start rebuilds queues without listed units.
        """
        now_ms, listed_ms = self._clock.monotonic_ms(), self._bounds_noted_ms
        if listed_ms is not None and now_ms - listed_ms < _BOUNDS_EVERY_MS:
            return {}
        self._bounds_noted_ms = now_ms
        return self._queues.bounds_now()

    async def _write_queues(self, queues: list[tuple[Key, ConsumeQueue]]) -> None:
        batch = self._queues.unwritten(queues)
        writes = [of_queue for _, _, _, of_queue in batch]
        await self._begin(partial(write_in_order, self._disk, writes))
        for key, queue, end, _ in batch:
            self._queues.written(key, queue, end)

    async def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic from memory immediately, and from disk before this returns.

        If the caller is canceled, the next flush completes the deletion.
        """
        self._queues.leave(topic)
        await self.flush()
        if topic in self._queues.leaving:
            raise BeingDeleted(f"files of topic {topic} cannot be deleted yet: the log says why")

    async def _delete_leaving(self) -> None:
        """Remove topics from the manifest, delete their files, and only then accept messages again.

        With messages accepted earlier, a crash would leave two records with the same queue offset.
        """
        topics, end = self._queues.leaving, self._log.end
        if not topics:
            return
        await self._flusher.durable(end)  # otherwise the log may end before it after a power cut
        paths = self._queues.forget(topics, end)
        await self._list_files()
        try:
            await self._begin(partial(_delete_all, self._disk, paths))
        except OSError as error:
            log.error("files of deleted topics stay, will try again: %s", error)
        else:
            self._queues.gone(topics)

    def _checkpoint(self) -> Checkpoint:
        """The checkpoint to write if the flush succeeds."""
        last_ms, end = self.last_stored_ms, self._log.end
        index_end = -1 if self._index is None else end
        return Checkpoint(last_ms, last_ms, last_ms, end, end, index_end, self._log.tail_crc(end))

    def _listed(self) -> list[str] | None:
        """Names of the index files for a new manifest; None if the old manifest is up to date."""
        names = [] if self._index is None else [file.region.path.name for file in self._index.files]
        return names if self._queues.has_changed or names != self._index_names else None

    async def _list_files(self) -> None:
        names = self._listed()
        if names is not None:
            manifest = self._queues.listed(names)
            try:
                await self._begin(
                    partial(write_manifest, self._disk, self._files.manifest, manifest)
                )
            except OSError:
                self._index_names = None  # the next flush writes another
                raise
            self._index_names = names

    async def _delete_doomed(self) -> None:
        """Delete files even if other steps fail, because a full disk needs room."""
        await self._retention.sweep()
        regions, paths = self._retention.doomed()
        if not paths:
            return
        self._unsynced = [region for region in self._unsynced if region not in regions]
        for region in regions:
            region.close()
        try:
            await self._list_files()
        except OSError as error:
            log.error("the list of files could not be written: %s", error)
        deleted: list[Path] = []
        await self._begin(partial(_delete_old, self._disk, paths, deleted))
        self._retention.gone(deleted)

    async def _begin(self, work: Callable[[], None]) -> None:
        """Run work on a thread. A canceled caller still waits: two works never run concurrently."""
        done = asyncio.wrap_future(self._disk.begin(work))
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            done.result()  # raise the failure instead of the cancellation
            raise

    async def _sync_index(self) -> None:
        """After a failed sync the index is not trusted: the next start rebuilds it."""
        try:
            await self._begin(partial(sync_all, self._unsynced))
        except OSError:
            self._index_failed = True
            self._unsynced = []
            await self._begin(partial(_disown_index, self._disk, self._files.checkpoint))
            raise
        self._unsynced = []

    async def _flush_log(self) -> None:
        """Flush if enough pages are dirty, or if the last flush was long ago."""
        self._log.begin_next()
        if self._index is not None:
            self._index.begin_next()
        now_ms = self._clock.monotonic_ms()
        dirty = self._log.end - self._flusher.flushed
        least = self._config.flush_commit_log_least_pages * PAGE_SIZE
        interval_ms = self._config.flush_commit_log_thorough_interval
        thorough = now_ms - self._log_flushed_ms >= interval_ms
        if dirty > 0 and (dirty >= least or thorough) and self._flusher.failure is None:
            with suppress(StoreFailed):  # logged by the flusher; every further put fails
                await self._flusher.flush()
                self._log_flushed_ms = now_ms

    async def _flush_rest(self) -> None:
        if self._flusher.failure is not None:
            return
        try:
            with suppress(StoreFailed):
                await self.flush()
        except OSError as error:
            log.error("queues or index could not be written, will try again: %s", error)

    async def _clean(self) -> None:
        try:
            self._retention.clean()
            async with self._one_at_a_time:
                await self._retention.sweep()
        except OSError as error:
            log.error("the age of files cannot be told, will try again: %s", error)


def _delete_all(disk: Disk, paths: list[Path]) -> None:
    for path in paths:
        disk.delete(path)


def _delete_old(disk: Disk, paths: list[Path], deleted: list[Path]) -> None:
    """Delete the files of each folder in order; after a failure, keep the later ones.

    A gap between files of the log, or of a queue, would make the store unreadable.
    """
    stuck: set[Path] = set()
    for path in paths:
        if path.parent in stuck:
            continue
        try:
            disk.delete(path)
        except OSError as error:
            stuck.add(path.parent)
            log.error("%s cannot be deleted, will try again: %s", path, error)
        else:
            deleted.append(path)


def _disown_index(disk: Disk, path: Path) -> None:
    """Write a checkpoint without the index. Until the restart, reads use the index in memory."""
    write_checkpoint(disk, path, read_checkpoint(disk, path).without_index())
