"""Copies of stored messages for another queue: retries, deliveries and commits."""

from cometmq.errors import BadName
from cometmq.protocol.names import check_topic
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import REAL_QUEUE_ID, REAL_TOPIC
from cometmq.protocol.records.property_view import PropertyView
from cometmq.store.log.new_message import NewMessage

_QUEUE_ID_END = 2**31


def copy_of(message: StoredMessage, topic: str, queue_id: int) -> NewMessage:
    """The same message for another queue; its birth time and host stay."""
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties_text=message.properties_text,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=message.born_host,
        reconsume_times=message.reconsume_times,
    )


def real_queue(properties: PropertyView) -> tuple[str, int] | None:
    """The destination of a diverted message; None if it is missing or invalid."""
    topic, queue_id = properties.get(REAL_TOPIC), properties.number(REAL_QUEUE_ID)
    if topic is None or queue_id is None or queue_id >= _QUEUE_ID_END:
        return None
    try:
        return check_topic(topic), queue_id
    except BadName:
        return None
