"""How queues are read: the cluster, the filter and the limits of pulls."""

from dataclasses import dataclass

from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.pull import PullHeader
from cometmq.spark.read.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings that all pulls of a read share. It can be pickled and sent to a worker."""

    cluster: Cluster
    group: str
    expression: str = "*"
    expression_kind: str = "TAG"
    pull_count: int = 4096
    broker_timeout_ms: int = 30_000  # how long to wait for an unreachable broker
    fail_on_data_loss: bool = True

    @property
    def is_filtered(self) -> bool:
        """Whether the broker may skip messages."""
        return self.expression != "*"

    def header(self, queue: MessageQueue, offset: int, count: int) -> PullHeader:
        """Return the header of a pull that the broker answers without waiting for messages."""
        return PullHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=self.expression,
            sub_version=0,
            expression_type=self.expression_kind,
        )
