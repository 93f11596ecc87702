"""Consumer offsets in memory: by queue, the offset to consume next."""

from cometmq.protocol.bodies.queues import MessageQueue


class OffsetTable(dict[MessageQueue, int]):
    """See the top of the file."""

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool) -> None:
        """Set the offset; with `only_up`, only if it is higher."""
        known = self.get(queue)
        if known is None or not only_up or known < offset:
            self[queue] = offset
