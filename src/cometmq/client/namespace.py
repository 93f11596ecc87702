"""Converts names between programs (without the namespace) and the wire (with it)."""

from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import with_namespace, without_namespace


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace; most clients have an empty one, which changes nothing."""

    name: str = ""

    def wire(self, name: str) -> str:
        """Add the namespace to a topic or group that does not have it yet."""
        return with_namespace(self.name, name)

    def wire_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return the queue with the namespace in its topic."""
        if not self.name:
            return queue
        return MessageQueue(self.wire(queue.topic), queue.broker_name, queue.queue_id)

    def bare_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return the queue without the namespace in its topic."""
        if not self.name:
            return queue
        topic = without_namespace(queue.topic, self.name)
        return MessageQueue(topic, queue.broker_name, queue.queue_id)

    def bare_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues without the namespace, sorted."""
        return sorted(map(self.bare_queue, queues))
