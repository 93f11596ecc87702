"""A queue with Java's accessors; it equals the plain queue."""

from cometmq.protocol.bodies import queues as ours


class MessageQueue(ours.MessageQueue):
    """One queue of one topic on one broker."""

    __slots__ = ()

    @classmethod
    def of(cls, queue: ours.MessageQueue) -> "MessageQueue":
        return cls(queue.topic, queue.broker_name, queue.queue_id)

    def __repr__(self) -> str:
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name},"
            f" queueId={self.queue_id}]"
        )

    def getTopic(self) -> str:
        return self.topic

    def getBrokerName(self) -> str:
        return self.broker_name

    def getQueueId(self) -> int:
        return self.queue_id
