"""What administrators ask of a store, beyond what it is for."""

from dataclasses import dataclass

from cometmq.seams import Disk
from cometmq.store.files import StoreFiles
from cometmq.store.message_store import MessageStore

NEVER_MS = -1


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Answered by the store's own reads, and by its disk."""

    store: MessageStore
    files: StoreFiles
    disk: Disk

    def stored_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When the message at an offset of a queue was stored; -1 if it is empty."""
        record = self.store.message(topic, queue_id, queue_offset)
        return record.stored_ms if record is not None else NEVER_MS

    def last_stored_ms(self, topic: str, queue_id: int) -> int:
        """When the newest message of a queue was stored; -1 if it is empty."""
        first, end = self.store.bounds(topic, queue_id)
        return self.stored_ms(topic, queue_id, end - 1) if end > first else NEVER_MS

    def earliest_ms(self) -> int:
        """When the oldest message of the log was stored; -1 if there is none."""
        record = self.store.record(self.store.log_bounds[0])
        return record.stored_ms if record is not None else NEVER_MS

    def unflushed_size(self) -> int:
        """Bytes of the log that a power cut would cost."""
        return self.store.log_bounds[1] - self.store.flushed_end

    def topics(self) -> list[str]:
        """Those that have queues on disk, known or not."""
        return self.disk.names(self.files.queues)

    def used_ratios(self) -> tuple[float, float]:
        """How full the disks of the log and of the queues are."""
        ratio = self.disk.used_ratio
        return ratio(self.files.commit_log), ratio(self.files.queues)

    def capacity(self) -> tuple[int, int]:
        """Bytes of the log's disk: in all, and free."""
        return self.disk.capacity(self.files.commit_log)
