"""The queue that a sender wants: one queue, one that is selected, or any."""

from dataclasses import dataclass

from cometmq.client.fields import Optional
from cometmq.client.message import Message
from cometmq.client.send.destinations import Destination
from cometmq.client.send.selectors import FaultTable, Selector, by_sharding_key
from cometmq.errors import BadMessage, BadSetting
from cometmq.protocol.bodies.queues import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """How a send chooses; with none of the three, by the message's sharding key if it has one."""

    queue: MessageQueue | None = None
    selector: Selector | None = None  # given the queues, the message and the key
    key: object = None  # whose hash chooses, if there is no selector

    def is_free(self, message: Message) -> bool:
        """Any queue will do."""
        return self is ANY and not message.sharding_key

    def of(self, destination: Destination, message: Message) -> MessageQueue | None:
        """The queue; None if any will do."""
        queue, selector = self.queue, self.selector
        if queue is None:
            if selector is None:
                if self.key is None and not message.sharding_key:
                    return None
                selector = by_sharding_key
            destination.queues.check_any()
            queue = selector(destination.queues.queues, message, self.key)
        if queue.topic != message.topic:
            raise BadMessage(f"{queue} is not of topic {message.topic}: choose another queue")
        return queue

    def one_of(
        self, destination: Destination, message: Message, faults: FaultTable | None = None
    ) -> MessageQueue:
        """The queue; the next one, if any will do."""
        if self is ANY and not message.sharding_key:  # `is_free`, without a call: most sends
            return destination.queues.next(faults=faults)
        return self.of(destination, message) or destination.queues.next(faults=faults)


ANY = QueueRequest()
_QUEUE = Optional(MessageQueue)


def choice_of(queue: MessageQueue | None, selector: Selector | None, key: object) -> QueueRequest:
    """Of what a sender gave."""
    if queue is None and selector is None and key is None:
        return ANY  # the usual case, for which nothing is made
    if selector is not None and not callable(selector):
        raise BadSetting(f"selector is {selector!r}: it must be a function that returns a queue")
    return QueueRequest(_QUEUE.check("queue", queue), selector, key)
