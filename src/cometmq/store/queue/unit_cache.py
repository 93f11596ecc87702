"""Units that are in memory though they are in files: of the queues that were last written to."""

from collections import OrderedDict

from cometmq.store.queue.consume_queue import ConsumeQueue

# Bytes in all: what 400 busy queues keep for readers near their ends. With more, those that nobody
# wrote to for the longest time are read from their files.
KEPT_SIZE_MAX = 16 << 20


class KeptUnits:
    """How much each queue keeps, the one written to longest ago first."""

    def __init__(self, size_max: int = KEPT_SIZE_MAX) -> None:
        self._size_max = size_max
        self._sizes: OrderedDict[ConsumeQueue, int] = OrderedDict()
        self._total = 0

    def note(self, queue: ConsumeQueue) -> None:
        """It was written to its files just now."""
        self.forget(queue)
        self._sizes[queue] = queue.kept_size
        self._total += queue.kept_size
        while self._total > self._size_max:
            oldest, size = self._sizes.popitem(last=False)
            self._total -= size
            oldest.release()

    def forget(self, queue: ConsumeQueue) -> None:
        """It is used no more."""
        self._total -= self._sizes.pop(queue, 0)
