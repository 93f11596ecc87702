"""Half messages: how a transactional message is stored until its producer decides.

Half messages are in the only queue of RMQ_SYS_TRANS_HALF_TOPIC, which no consumer reads. Properties
name the destination. A half message whose producer was asked is stored again at the end of the
queue, so that the beginning of the queue can be cleaned. Each copy names the offset of the first.
"""

import msgspec

from cometmq.broker.delivery.copies import real_queue
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.names import HALF_TOPIC
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import (
    CHECK_IMMUNITY_SECONDS,
    DELAY,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    number_in,
    take_property,
)
from cometmq.protocol.records.property_view import PropertyView, edit_properties
from cometmq.store.log.new_message import NewMessage

NOT_TRANSACTION = ~int(MessageFlag.TRANSACTION)


class HalfMessage:
    """A stored half message. Its properties are parsed once."""

    __slots__ = (
        "_properties",
        "check_times",
        "first_offset",
        "immunity_seconds",
        "message",
        "offset",
        "producer_group",
        "unique_key",
    )

    def __init__(self, message: StoredMessage) -> None:
        properties = PropertyView(message.properties_text)
        self._properties = properties
        self.message = message
        self.offset = message.queue_offset
        # The place of the first half message that this one is a copy of; None for a first one.
        self.first_offset = properties.number(PREPARED_QUEUE_OFFSET)
        self.check_times = properties.number(TRANSACTION_CHECK_TIMES) or 0
        # The time after its birth in which its producer is not asked; None if it set none.
        self.immunity_seconds = properties.number(CHECK_IMMUNITY_SECONDS)
        self.producer_group = properties.get(PRODUCER_GROUP)
        self.unique_key = properties.get(UNIQ_KEY)

    @property
    def destination(self) -> tuple[str, int] | None:
        """Its own topic and queue id; None if they are missing or invalid."""
        return real_queue(self._properties)

    def text_for_clients(self, text: str | None = None) -> str:
        """Its properties, or `text` of a copy, as clients see them.

        The name of the first half message is removed: Apache's broker stores it only for a message
        with an immunity time, and we store it for every copy.
        """
        text = self.message.properties_text if text is None else text
        if self._properties.get(CHECK_IMMUNITY_SECONDS) is not None:
            return text
        return take_property(text, PREPARED_QUEUE_OFFSET)[0]

    def text_of_copy(self, check_times: int | None) -> str:
        """The properties of a copy at the end of the queue, with a new count if there is one."""
        changes: dict[str, str | None] = {}
        if check_times is not None:
            changes[TRANSACTION_CHECK_TIMES] = str(check_times)
        if self.first_offset is None:
            changes[PREPARED_QUEUE_OFFSET] = str(self.offset)
        return edit_properties(self.message.properties_text, changes)


def is_half(message: NewMessage) -> bool:
    """The producer decides later. A consumer's retry may still have the property; it is not one."""
    _, flag = take_property(message.properties_text, TRANSACTION_PREPARED)
    if flag is None or flag.lower() != "true":
        return False
    return not (message.reconsume_times > 0 and number_in(message.properties_text, DELAY))


def half_of(message: NewMessage) -> NewMessage:
    """The half message that is stored for a new message.

    It is never delayed, as with Apache's client. Properties of an earlier transaction are removed.
    """
    text = edit_properties(
        message.properties_text,
        {
            DELAY: None,
            TRANSACTION_CHECK_TIMES: None,
            PREPARED_QUEUE_OFFSET: None,
            REAL_TOPIC: message.topic,
            REAL_QUEUE_ID: str(message.queue_id),
        },
    )
    return msgspec.structs.replace(
        message,
        topic=HALF_TOPIC,
        queue_id=0,
        properties_text=text,
        sys_flag=message.sys_flag & NOT_TRANSACTION,
    )
