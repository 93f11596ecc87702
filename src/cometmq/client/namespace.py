"""Names as their owner writes them, and as the wire has them: there, with a namespace."""

from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import with_namespace, without_namespace


@dataclass(frozen=True, slots=True)
class Namespace:
    """Empty for most."""

    name: str = ""

    def wire(self, name: str) -> str:
        """Of a topic or group; a name that is in it already stays."""
        return with_namespace(self.name, name)

    def wire_queue(self, queue: MessageQueue) -> MessageQueue:
        """A queue as brokers name it."""
        if not self.name:
            return queue
        return MessageQueue(self.wire(queue.topic), queue.broker_name, queue.queue_id)

    def bare_queue(self, queue: MessageQueue) -> MessageQueue:
        """A queue as its owner names it."""
        if not self.name:
            return queue
        topic = without_namespace(queue.topic, self.name)
        return MessageQueue(topic, queue.broker_name, queue.queue_id)

    def bare_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Queues as their owner names them, sorted."""
        return sorted(map(self.bare_queue, queues))
