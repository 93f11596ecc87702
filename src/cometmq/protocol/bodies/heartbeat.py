"""Heartbeats: the groups and subscriptions of a client."""

from enum import Enum
from typing import Any

from cometmq.errors import Malformed
from cometmq.protocol.java.fastjson import Body, loads, reshape
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class ConsumeType(Enum):
    """Pull or push; some clients send the ordinal."""

    ACTIVELY = "CONSUME_ACTIVELY"
    PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(Enum):
    """Whether each message goes to every member or to one."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFrom(Enum):
    """The position at which a new group starts. Old clients still send the last three names."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    LAST_OR_MIN_AT_FIRST_BOOT = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Subscription(Body):
    """The subscription of a group to a topic."""

    class_filter_mode: bool = False
    code_set: list[Int32] = []
    expression_type: str = "TAG"
    sub_string: str = "*"
    sub_version: Int64 = 0
    tags_set: list[str] = []
    topic: str = ""


class ConsumerData(Body, kw_only=True):
    """A consumer group of the client."""

    consume_from_where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_type: ConsumeType = ConsumeType.PASSIVELY
    group_name: str
    message_model: MessageModel = MessageModel.CLUSTERING
    subscription_data_set: list[Subscription] = []
    unit_mode: bool = False


class ProducerData(Body):
    """A producer group of the client."""

    group_name: str


class Heartbeat(Body, rename=camel(client_id="clientID")):
    """The body of a HEART_BEAT request."""

    client_id: str
    consumer_data_set: list[ConsumerData] = []
    producer_data_set: list[ProducerData] = []


class CheckClient(Body):
    """The body of CHECK_CLIENT_CONFIG: is this subscription allowed?"""

    client_id: str | None = None
    group: str | None = None
    subscription_data: Subscription | None = None


class ConsumerIds(Body):
    """The response body of GET_CONSUMER_LIST_BY_GROUP."""

    consumer_id_list: list[str] = []


_BY_ORDINAL: dict[str, type[Enum]] = {
    "consumeFromWhere": ConsumeFrom,
    "consumeType": ConsumeType,
    "messageModel": MessageModel,
}


def decode_heartbeat(data: bytes) -> Heartbeat:
    """Decode a heartbeat. C++ clients send ordinals of enums instead of names."""
    try:
        return loads(data, Heartbeat)
    except Malformed:
        plain = loads(data, dict[str, Any])
        consumers = plain.get("consumerDataSet")
        if not isinstance(consumers, list):
            raise
        plain["consumerDataSet"] = [_with_names(consumer) for consumer in consumers]
        return reshape(plain, Heartbeat)


def _with_names(consumer: Any) -> Any:
    if not isinstance(consumer, dict):
        return consumer
    named = dict(consumer)
    for key, names in _BY_ORDINAL.items():
        ordinal = consumer.get(key)
        values = [name.value for name in names]
        if isinstance(ordinal, int) and 0 <= ordinal < len(values):
            named[key] = values[ordinal]
    return named
