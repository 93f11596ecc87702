"""The route of a topic: its writable queues, its readable queues and its brokers."""

from collections.abc import Mapping
from dataclasses import dataclass

from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID, QueueData, TopicRoute
from cometmq.protocol.flags import Perm


@dataclass(frozen=True, slots=True)
class ClientRoute:
    """An immutable route; a change of the topic yields another object."""

    topic: str
    to_write: tuple[MessageQueue, ...]  # only of brokers that have a master
    to_read: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]  # by name: addresses by id

    @classmethod
    def of(cls, topic: str, body: TopicRoute) -> "ClientRoute":
        """Convert the body of a name server's response."""
        brokers = {each.broker_name: dict(each.broker_addrs) for each in body.broker_datas}
        queue_datas = sorted(body.queue_datas, key=lambda each: each.broker_name)
        ordered = _order_counts(body.order_topic_conf)
        to_write = _queues(topic, ordered) if ordered else _to_write(topic, queue_datas, brokers)
        to_read = _queues(
            topic, [(e.broker_name, e.read_queue_nums) for e in queue_datas if e.perm & Perm.READ]
        )
        return cls(topic, to_write, to_read, brokers)

    @classmethod
    def of_pattern(cls, topic: str, body: TopicRoute, queues_max: int) -> "ClientRoute":
        """Guess the route of a missing topic from the topic whose settings it will get.

        Brokers create at most `queues_max` queues, and at most as many as the pattern has.
        """
        bounded = [
            QueueData(
                broker_name=each.broker_name,
                perm=each.perm,
                read_queue_nums=min(queues_max, each.read_queue_nums),
                write_queue_nums=min(queues_max, each.read_queue_nums),
                topic_sys_flag=each.topic_sys_flag,
            )
            for each in body.queue_datas
        ]
        return cls.of(topic, TopicRoute(broker_datas=body.broker_datas, queue_datas=bounded))


def _to_write(
    topic: str, queue_datas: list[QueueData], brokers: Mapping[str, Mapping[int, str]]
) -> tuple[MessageQueue, ...]:
    return _queues(
        topic,
        [
            (each.broker_name, each.write_queue_nums)
            for each in queue_datas
            if each.perm & Perm.WRITE and MASTER_ID in brokers.get(each.broker_name, {})
        ],
    )


def _queues(topic: str, counts: list[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, name, each) for name, count in counts for each in range(count))


def _order_counts(text: str | None) -> list[tuple[str, int]]:
    """Parse `broker:count;broker:count`, by which an operator fixes the queues of a topic."""
    found = []
    for part in (text or "").split(";"):
        name, _, count = part.partition(":")
        if name and count.isascii() and count.isdigit():
            found.append((name, int(count)))
    return found
