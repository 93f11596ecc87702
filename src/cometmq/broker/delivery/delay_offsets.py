"""Delivery progress of delay levels, persisted in delayOffset.json."""

from pathlib import Path

from cometmq.background import Background
from cometmq.broker.tables.durable_progress import DurableProgress
from cometmq.broker.tables.table_file import KeptTable
from cometmq.protocol.bodies.tables import DelayOffsetTable
from cometmq.seams import Clock, Disk
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import Stored


class DelayOffsets:
    """Delay level to the queue offset of its next message."""

    def __init__(
        self, store: MessageStore, clock: Clock, background: Background, disk: Disk, path: Path
    ) -> None:
        self._now: dict[int, int] = {}
        self._persisted: dict[int, int] = {}
        self._file = KeptTable(disk, path, lambda: DelayOffsetTable(offset_table=self._persisted))
        self._progress: DurableProgress[dict[int, int]]
        self._progress = DurableProgress(store, clock, background, self)

    def load(self) -> None:
        stored = self._file.read(DelayOffsetTable)
        if stored is not None:
            self._now = dict(stored.offset_table)

    def get(self, level: int) -> int | None:
        """The next offset of a level; None if nothing was delivered yet."""
        return self._now.get(level)

    def set(self, level: int, offset: int) -> None:
        """Change an offset before delivery starts."""
        self._now[level] = offset

    def advance(self, level: int, offset: int, stored: Stored | None, within_ms: int) -> None:
        """The message before `offset` is delivered as `stored`, or given up if that is None."""
        assert offset > self._now.get(level, -1), "messages of a level are delivered in order"
        self._now[level] = offset
        self._progress.changed(stored, within_ms)

    def snapshot(self) -> dict[int, int]:
        return dict(self._now)

    async def persist(self, progress: dict[int, int]) -> None:
        if progress != self._persisted:
            self._persisted = progress
            self._file.changed()
        await self._file.save()

    async def save(self) -> None:
        """Persist the progress, once all deliveries are on disk."""
        await self._progress.save()
