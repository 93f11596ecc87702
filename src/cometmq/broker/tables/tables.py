"""All tables of a broker: loaded together, saved together.

Topics and groups are saved when they change. Offsets and locks change all the time and are saved
every `flushConsumerOffsetInterval`. Connected clients are not saved: they send heartbeats.
"""

import logging
from functools import partial
from pathlib import Path

from cometmq.background import Background
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.broker.tables.queue_locks import QueueLockTable
from cometmq.broker.tables.topics import TopicTable
from cometmq.seams import Clock, Disk
from cometmq.settings.live_settings import LiveSettings

log = logging.getLogger(__name__)


class Tables:
    """Topics, groups, consumer offsets, queue locks and connected clients."""

    def __init__(
        self, disk: Disk, folder: Path, clock: Clock, settings: LiveSettings, clients: Clients
    ) -> None:
        self._clock = clock
        self.topics = TopicTable(disk, folder / "topics.json", clock, settings)
        self.groups = GroupTable(disk, folder / "subscriptionGroup.json", clock, settings)
        self.offsets = ConsumerOffsets(disk, folder / "consumerOffset.json")
        self.locks = QueueLockTable(disk, folder / "queueLocks.json")
        self.clients = clients

    def load(self) -> None:
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        self.locks.load(self._clock.monotonic_ms())

    def save_changes(self, background: Background) -> None:
        """Save topics and groups soon after each change."""
        self.topics.on_change(partial(self.topics.file.save_soon, background))
        self.groups.on_change(partial(self.groups.file.save_soon, background))

    async def save(self) -> None:
        """Save all tables that changed. The first one that fails ends it."""
        for table in (self.offsets, self.topics, self.groups, self.locks):
            await table.file.save()

    async def drop_expired(self) -> None:
        """Drop expired locks, and close connections whose client sent no heartbeat for too long."""
        now_ms = self._clock.monotonic_ms()
        self.locks.forget_expired(now_ms)
        for link in self.clients.silent(now_ms):
            log.warning("closing the connection of %s: its client sent no heartbeat", link.peer)
            link.close()
