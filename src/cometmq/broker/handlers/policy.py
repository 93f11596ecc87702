"""Values of the policy columns: what a slave answers, and access by what a body names.

Codes and remarks are those of a 4.9.7 slave, whose remark to a send also has the disk use.
"""

from collections.abc import Iterator

from cometmq.protocol.bodies.heartbeat import CheckClient, decode_heartbeat
from cometmq.protocol.bodies.queues import LockQueues
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.java.fastjson import loads
from cometmq.remoting.access import AccessRule, Action, Need, Resource
from cometmq.remoting.dispatch import Reply

SLAVE_NO_SEND = Reply(
    ResponseCode.SERVICE_NOT_AVAILABLE.value,
    remark="service not available now. It may be caused by one of the following reasons: the "
    "broker's disk is full, messages are put to the slave, message store has been shut down, etc.",
)
SLAVE_NO_SEND_BACK = Reply(ResponseCode.SYSTEM_ERROR.value, remark="SERVICE_NOT_AVAILABLE")
SLAVE_NO_TRANSACTION = Reply(
    ResponseCode.SLAVE_NOT_AVAILABLE.value, remark="not set any response code"
)
SLAVE_NO_CHANGE = Reply(
    ResponseCode.SYSTEM_ERROR.value,
    remark="Can't modify topic or subscription group from slave broker, please execute it from "
    "master broker.",
)


def _of_heartbeat(body: bytes) -> Iterator[Need]:
    """Producer groups need nothing, and give nothing either."""
    for consumer in decode_heartbeat(body).consumer_data_set:
        yield _group(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            yield _topic(subscription.topic)


def _of_queues(body: bytes) -> Iterator[Need]:
    locks = loads(body, LockQueues)
    yield _group(locks.consumer_group)
    for topic in {queue.topic for queue in locks.mq_set}:
        yield _topic(topic)


def _of_subscription(body: bytes) -> Iterator[Need]:
    checked = loads(body, CheckClient)
    if checked.group:
        yield _group(checked.group)
    if checked.subscription_data is not None:
        yield _topic(checked.subscription_data.topic)


def _group(name: str) -> Need:
    return Need(Action.SUB, Resource.GROUP, name)


def _topic(name: str) -> Need:
    return Need(Action.SUB, Resource.TOPIC, name)


HEARTBEAT = AccessRule(body=_of_heartbeat)
QUEUES = AccessRule(body=_of_queues)
SUBSCRIPTION = AccessRule(body=_of_subscription)
