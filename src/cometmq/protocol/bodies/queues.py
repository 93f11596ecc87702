"""A message queue, and the bodies that lock and unlock queues."""

from functools import total_ordering
from typing import Any, Self

import msgspec

from cometmq.protocol.java.fastjson import Body, ObjectKey
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32


class _QueueFields(Body):
    broker_name: str
    queue_id: Int32
    topic: str


@total_ordering
class MessageQueue(ObjectKey):
    """One queue of one topic at one broker. Immutable."""

    __slots__ = ("broker_name", "queue_id", "topic")

    def __init__(self, topic: str, broker_name: str, queue_id: int) -> None:
        self.topic = topic
        self.broker_name = broker_name
        self.queue_id = queue_id

    def _key(self) -> tuple[str, str, int]:
        return self.topic, self.broker_name, self.queue_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageQueue) and self._key() == other._key()

    def __lt__(self, other: "MessageQueue") -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"MessageQueue({self.topic!r}, {self.broker_name!r}, {self.queue_id})"

    def fields(self) -> dict[str, object]:
        """The wire names and values of the fields."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `fields`."""
        found = msgspec.convert(fields, _QueueFields, strict=False)
        return cls(found.topic, found.broker_name, found.queue_id)


class LockQueues(Body):
    """The body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ requests."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = []


class LockedQueues(Body, rename=camel(locked="lockOKMQSet")):
    """The response body of LOCK_BATCH_MQ: the queues that the client has locked."""

    locked: list[MessageQueue] = []
