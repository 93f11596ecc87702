"""What is to be consumed next, by queue, as it stands in memory."""

from cometmq.protocol.bodies.queues import MessageQueue


class OffsetTable(dict[MessageQueue, int]):
    """See the top of the file."""

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool) -> None:
        """This one is to be consumed next; with `only_up`, unless a higher one is."""
        known = self.get(queue)
        if known is None or not only_up or known < offset:
            self[queue] = offset
