"""The route of a topic as clients use it: its queues to write to and to read from, its brokers."""

from collections.abc import Mapping
from dataclasses import dataclass

from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID, QueueData, TopicRoute
from cometmq.protocol.flags import Perm


@dataclass(frozen=True, slots=True)
class ClientRoute:
    """A value: it changes by being replaced."""

    topic: str
    to_write: tuple[MessageQueue, ...]  # of brokers whose master is there
    to_read: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]  # by name: addresses by id

    @classmethod
    def of(cls, topic: str, body: TopicRoute) -> "ClientRoute":
        """From what a name server answers."""
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
        """Of a topic that is not there yet: where the topic is that it will be made after.

        Brokers make no more queues than they are asked for, nor than the pattern has.
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
    """Of `broker:count;broker:count`, which an operator sets so that queues stay what they are."""
    found = []
    for part in (text or "").split(";"):
        name, _, count = part.partition(":")
        if name and count.isascii() and count.isdigit():
            found.append((name, int(count)))
    return found
