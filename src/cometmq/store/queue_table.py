"""Topic and queue id to its consume queue: found, made, listed, deleted.

A queue is loaded when it is first used: a store with many topics starts as fast as one with few.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from cometmq.seams import Disk
from cometmq.store.consume_queue import UNIT_SIZE, ConsumeQueue, Write

# Is this the unit of that record? topic, queue id, queue offset, physical offset, size.
Validity = Callable[[str, int, int, int, int], bool]


class QueueTable:
    """Queues by topic and id. `is_valid` looks a unit's record up in the log."""

    def __init__(
        self, folder: Path, file_size: int, disk: Disk, is_valid: Validity,
        log_start: Callable[[], int] = lambda: 0,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._file_size = -(-file_size // UNIT_SIZE) * UNIT_SIZE
        self._disk = disk
        self._is_valid = is_valid
        self._log_start = log_start
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, loaded from its files, or empty if there are none."""
        queue = self._queues.get((topic, queue_id))
        return queue if queue is not None else self._open(topic, queue_id)

    def _open(self, topic: str, queue_id: int) -> ConsumeQueue:
        folder = self._folder / topic / str(queue_id)
        queue = ConsumeQueue(folder, self._file_size, self._disk)
        queue.load(
            lambda queue_offset, physical_offset, size, _: self._is_valid(
                topic, queue_id, queue_offset, physical_offset, size
            )
        )
        if queue.end > queue.first:
            queue.forget_before(self._log_start())
        self._queues[topic, queue_id] = queue
        return queue

    def known(self) -> Iterator[tuple[str, int]]:
        """Every queue that has files or was used."""
        seen = set(self._queues)
        yield from seen
        for topic in self._disk.names(self._folder):
            for name in self._disk.names(self._folder / topic):
                if name.isdigit() and (topic, int(name)) not in seen:
                    yield topic, int(name)

    def unwritten(self) -> list[tuple[ConsumeQueue, int, list[Write]]]:
        """For each queue that has some: itself, its end now, and what is to be written."""
        return [
            (queue, queue.end, writes)
            for queue in self._queues.values()
            if queue.has_unwritten and (writes := queue.unwritten())
        ]

    def delete_topic(self, topic: str) -> None:
        """Forget a topic's queues, and remove their files."""
        for key in [key for key in self._queues if key[0] == topic]:
            del self._queues[key]
        for name in self._disk.names(self._folder / topic):
            folder = self._folder / topic / name
            for file in self._disk.names(folder):
                self._disk.delete(folder / file)
