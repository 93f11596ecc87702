"""The running info of a push consumer, for operators, with the names of Java's properties."""

from collections.abc import Iterable, Mapping

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.consumer.shared.stacks import task_stacks, thread_stacks
from cometmq.client.consumer.shared.stats import ConsumerStats
from cometmq.client.durations import duration_ms
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, ProcessQueueInfo
from cometmq.protocol.bodies.heartbeat import ConsumeType, Subscription
from cometmq.protocol.codes import VERSION_NAME

_SPELLED_OTHERWISE = {
    "group": "consumerGroup",
    "consume_from": "consumeFromWhere",
    "consume_threads": "consumeThreadMax",
    "pull_threshold_size_for_queue_mib": "pullThresholdSizeForQueue",
    "pull_threshold_size_for_topic_mib": "pullThresholdSizeForTopic",
}
# In milliseconds, as in Java.
_DURATIONS = {
    "pull_interval": "pullInterval",
    "suspend_current_queue_time": "suspendCurrentQueueTimeMillis",
    "await_termination_when_shutdown": "awaitTerminationMillisWhenShutdown",
}
_NOT_SHOWN = frozenset({"allocation", "consume_timestamp", "consume_timeout", "offset_folder"})


def running_properties(
    config: PushConsumerConfig, name_servers: Iterable[str], start_ms: int, *, orderly: bool
) -> dict[str, str]:
    """The properties that do not change while the consumer runs."""
    shown = {
        _spelled(name): _text(getattr(config, name))
        for name in config.__dataclass_fields__
        if name not in _NOT_SHOWN and name not in _DURATIONS
    }
    shown |= {
        java_name: str(duration_ms(getattr(config, name))) for name, java_name in _DURATIONS.items()
    }
    return shown | {
        "consumeThreadMin": str(config.consume_threads),
        "consumeTimeout": str(int(config.consume_timeout // 60)),
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in name_servers),
        "PROP_CONSUME_TYPE": ConsumeType.PASSIVELY.value,
        "PROP_CONSUMER_START_TIMESTAMP": str(start_ms),
        "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads),
        "PROP_CONSUMEORDERLY": _text(orderly),
        "PROP_CLIENT_VERSION": VERSION_NAME,
    }


def running_info(
    properties: Mapping[str, str],
    subscriptions: Iterable[Subscription],
    queues: Iterable[OwnedQueue],
    offsets: Offsets,
    stats: ConsumerStats,
    *,
    with_stacks: bool,
) -> ConsumerRunningInfo:
    """The answer to GET_CONSUMER_RUNNING_INFO."""
    wanted = list(subscriptions)
    return ConsumerRunningInfo(
        properties=dict(properties),
        subscription_set=wanted,
        mq_table={owned.queue: _queue(owned, offsets) for owned in queues},
        status_table={each.topic: stats.status(each.topic) for each in wanted},
        jstack=thread_stacks() + task_stacks() if with_stacks else None,
    )


def _queue(owned: OwnedQueue, offsets: Offsets) -> ProcessQueueInfo:
    process = owned.process
    lowest = process.lowest or 0
    return ProcessQueueInfo(
        cached_msg_count=len(process),
        cached_msg_min_offset=lowest,
        cached_msg_max_offset=lowest + process.span,
        cached_mib=process.size >> 20,
        commit_offset=offsets.known(owned.queue) or 0,
        dropped=process.is_dropped,
        last_consume_timestamp=owned.consumed_ms,
        last_lock_timestamp=0 if owned.lock is None else owned.lock.wall_ms,
        last_pull_timestamp=owned.pulled_ms,
        locked=owned.lock is not None,
        transaction_msg_count=len(process) - process.waiting,
    )


def _spelled(name: str) -> str:
    first, *rest = name.split("_")
    return _SPELLED_OTHERWISE.get(name) or first + "".join(map(str.capitalize, rest))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "value", value))
