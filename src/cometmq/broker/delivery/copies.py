"""A stored message on its way into another queue: retries, deliveries and commits are copies."""

from cometmq.errors import BadName
from cometmq.protocol.names import check_topic
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import REAL_QUEUE_ID, REAL_TOPIC, number_in, take_property
from cometmq.store.log.new_message import NewMessage

_QUEUE_ID_END = 2**31


def copy_of(message: StoredMessage, topic: str, queue_id: int) -> NewMessage:
    """The same message for another queue; when and where it was born stays."""
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


def real_queue(properties_text: str) -> tuple[str, int] | None:
    """Where a message that was put aside belongs; None if it does not say, or is damaged."""
    _, topic = take_property(properties_text, REAL_TOPIC)
    queue_id = number_in(properties_text, REAL_QUEUE_ID)
    if topic is None or queue_id is None or queue_id >= _QUEUE_ID_END:
        return None
    try:
        return check_topic(topic), queue_id
    except BadName:
        return None
