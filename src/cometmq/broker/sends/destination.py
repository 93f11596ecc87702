"""The queue that a send names, and the topic that has to be created for it."""

import random

import msgspec

from cometmq.broker.handlers.checks import Checks, with_queue
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.protocol.flags import TopicFlag
from cometmq.protocol.headers.base import is_true
from cometmq.protocol.headers.send import SendHeader
from cometmq.protocol.names import RETRY_PREFIX


def destination(
    checks: Checks, ask: SendHeader, received_ms: int
) -> tuple[int, TopicConfig | None]:
    """The queue id, and the topic to create once the message is stored. Raises Refused, BadName.

    Below 0 a producer asks for any queue.
    """
    known = checks.open_to_sends(ask.topic, ask.queue_id, received_ms)
    topic = known or _new_topic(checks, ask)
    queue_id = ask.queue_id
    if queue_id < 0:
        queue_id = random.randrange(max(topic.write_queue_nums, 1))  # noqa: S311 - spreads load
    return queue_id, topic if known is None else None


def _new_topic(checks: Checks, ask: SendHeader) -> TopicConfig:
    if ask.topic.startswith(RETRY_PREFIX):
        topic = TopicConfig(topic_name=ask.topic, read_queue_nums=1, write_queue_nums=1)
        flag = TopicFlag.UNIT_SUB
    else:
        topic = checks.topics.like(
            ask.default_topic, ask.topic, ask.default_topic_queue_nums
        ) or checks.known_topic(ask.topic)
        flag = TopicFlag.UNIT
    if is_true(ask.unit_mode):
        topic = msgspec.structs.replace(topic, topic_sys_flag=int(flag))
    return with_queue(topic, max(ask.queue_id, 0))
