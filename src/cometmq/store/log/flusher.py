"""Flushes the log: group commit for puts that wait for the disk, timed flushes for the rest.

One fdatasync at a time runs on a thread; later requests wait for the next one. A
failed one is final: the kernel may have dropped the pages, and a second try would lie. The waiters
fail, and so does everything after, until the store is opened again.
"""

import asyncio
import logging
from functools import partial

from cometmq.errors import StoreFailed
from cometmq.seams import Disk, Region
from cometmq.store.log.commit_log import CommitLog

log = logging.getLogger(__name__)


class Flusher:
    """Offsets before `flushed` survive a power cut."""

    def __init__(self, commit_log: CommitLog, disk: Disk, flushed: int | None = None) -> None:
        """Without `flushed` all of the log is synced once: a killed process left it in memory."""
        self._log = commit_log
        self._disk = disk
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # the end that each waits for
        self._running: asyncio.Task[None] | None = None
        self.flushed = commit_log.start if flushed is None else flushed
        self.failure: OSError | None = None

    def durable(self, end: int) -> "asyncio.Future[None]":
        """Done when the log is durable up to `end`. One flush serves all waiting callers."""
        # One future per caller: a canceled caller cancels only its own.
        future = asyncio.get_running_loop().create_future()
        if self.failure is not None:
            future.set_exception(_failed(self.failure))
        elif end <= self.flushed:
            future.set_result(None)
        else:
            self._waiting.append((end, future))
            self._run()
        return future

    async def flush(self) -> None:
        """All that is written by now."""
        await self.durable(self._log.end)

    def _run(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._flush_while_wanted())

    async def _flush_while_wanted(self) -> None:
        try:
            while self._waiting:
                end = self._log.end
                regions = [file.region for file in self._log.files if self.flushed < file.end]
                await asyncio.wrap_future(self._disk.begin(partial(sync_all, regions)))
                self.flushed = end
                waiting, self._waiting = self._waiting, []
                for wanted, future in waiting:
                    if wanted > end:
                        self._waiting.append((wanted, future))
                    elif not future.done():
                        future.set_result(None)
        except OSError as error:
            self._fail(error)
        finally:
            self._running = None

    def _fail(self, error: OSError) -> None:
        log.error("the log cannot be made durable; the store takes no more messages: %s", error)
        self.failure = error
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(_failed(error))


def sync_all(regions: list[Region]) -> None:
    """One after the other, on a thread."""
    for region in regions:
        region.sync()


def _failed(error: OSError) -> StoreFailed:
    return StoreFailed(f"the log could not be written to disk: {error.strerror}")
