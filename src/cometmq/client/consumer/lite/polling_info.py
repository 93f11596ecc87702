"""The running info of a lite pull consumer, for operators."""

from collections.abc import Iterable, Mapping

from cometmq.client.consumer.lite.read_ahead import ReadAhead
from cometmq.client.consumer.shared.stacks import task_stacks
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, ProcessQueueInfo
from cometmq.protocol.bodies.heartbeat import ConsumeType, Subscription
from cometmq.protocol.bodies.queues import MessageQueue


def polling_info(
    name_servers: Iterable[str],
    start_ms: int,
    subscriptions: list[Subscription],
    queues: Mapping[MessageQueue, ReadAhead],
    *,
    with_stacks: bool,
) -> ConsumerRunningInfo:
    """The answer to GET_CONSUMER_RUNNING_INFO, with the names of Java's properties."""
    return ConsumerRunningInfo(
        properties={
            "PROP_NAMESERVER_ADDR": ";".join(name_servers),
            "PROP_CONSUME_TYPE": ConsumeType.ACTIVELY.value,
            "PROP_CONSUMER_START_TIMESTAMP": str(start_ms),
            "PROP_THREADPOOL_CORE_SIZE": "-1",
            "PROP_CONSUMEORDERLY": "false",
        },
        subscription_set=subscriptions,
        mq_table={queue: _queue_info(ahead) for queue, ahead in queues.items()},
        jstack=task_stacks() if with_stacks else None,
    )


def _queue_info(ahead: ReadAhead) -> ProcessQueueInfo:
    low, high = ahead.bounds or (0, 0)
    return ProcessQueueInfo(
        cached_msg_count=ahead.count,
        cached_msg_min_offset=low,
        cached_msg_max_offset=high,
        cached_mib=ahead.size >> 20,
        commit_offset=ahead.done or 0,
    )
