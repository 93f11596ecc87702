"""A received message, which is decoded when its attributes are read."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from cometmq.errors import Malformed
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.limits import BODY_INFLATED_SIZE_MAX
from cometmq.protocol.names import RETRY_PREFIX, without_namespace
from cometmq.protocol.records import properties as names
from cometmq.protocol.records.compression import decompress
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import (
    StoredMessage,
    glance_at_records,
    unpack_body,
    unpack_record,
)
from cometmq.protocol.records.message_id import OffsetId

SHARDING_KEY = "SHARDING_KEY"  # the property's name in Apache's Go client; Java's has none
_COMPRESSED = int(MessageFlag.COMPRESSED)


class ReceivedMessage(msgspec.Struct, eq=False):
    """A message from a broker. Attributes are decoded when they are first read.

    Attributes:
        broker_name: The broker that delivered the message.
        queue_offset: The offset in the queue.
        size: Bytes of the body as received, before decompression.
        failures_here: Failed calls of the listener for this copy that are not reported to the
            broker yet.
    """

    # A Struct is created in C.
    broker_name: str
    queue_offset: int
    size: int
    _namespace: str  # of the consumer
    _data: bytes | None  # the body of the pull, until the record is decoded
    _at: int  # the record's position in it
    _stored: StoredMessage | None = None
    _body: bytes | None = None
    _properties: dict[str, str] | None = None
    failures_here: int = 0

    @classmethod
    def of(cls, stored: StoredMessage, broker_name: str, namespace: str = "") -> "ReceivedMessage":
        """Create a message from a decoded record."""
        size = len(stored.body)
        return cls(broker_name, stored.queue_offset, size, namespace, None, 0, stored)

    @classmethod
    def all_of(cls, data: bytes, broker_name: str, namespace: str = "") -> "list[ReceivedMessage]":
        """Create the messages of a pull's body; each is decoded when it is used.

        A damaged message therefore does not block its queue. Raises Malformed if the records
        cannot be told apart.
        """
        return [
            cls(broker_name, queue_offset, size, namespace, data, at)
            for at, queue_offset, size in glance_at_records(data)
        ]

    def __repr__(self) -> str:
        try:
            return f"<message {self.message_id} of {self.topic}, {self.size} bytes>"
        except Malformed:
            return f"<message {self.queue_offset} of {self.broker_name} that cannot be decoded>"

    @property
    def topic(self) -> str:
        """The topic to which the message was sent, also for a retry; without the namespace."""
        topic = self.origin_topic
        return without_namespace(topic, self._namespace) if self._namespace else topic

    @property
    def origin_topic(self) -> str:
        """The topic with its namespace."""
        topic = self.record.topic
        if topic.startswith(RETRY_PREFIX):
            topic = self.properties.get(names.RETRY_TOPIC, topic)
        return topic

    @property
    def queue(self) -> MessageQueue:
        """The queue from which the message was read; of a retry, a queue of the retry topic."""
        return MessageQueue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def body(self) -> bytes:
        """The body, decompressed. Raises Malformed or TooLarge if that is not possible."""
        if self._body is None:
            data = self._data
            if data is not None:  # most listeners read only the body
                body, sys_flag = unpack_body(data, self._at, self.size)
            else:
                stored = self.record
                body, sys_flag = stored.body, stored.sys_flag
            if sys_flag & _COMPRESSED:
                body = decompress(body, sys_flag, BODY_INFLATED_SIZE_MAX)
            self._body = body
        return self._body

    def text(self) -> str:
        """Decode the body as UTF-8. Raises UnicodeDecodeError if it is invalid."""
        return self.body.decode()

    def json(self) -> Any:
        """Decode the body as JSON. Raises ValueError if it is invalid."""
        return json.loads(self.body)

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, those of the system included."""
        if self._properties is None:
            self._properties = names.decode_properties(self.record.properties_text)
        return self._properties

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties that the sender set, without those of the system."""
        return {key: item for key, item in self.properties.items() if key not in names.RESERVED}

    @property
    def message_id(self) -> str:
        """The unique key that the sender generated, or the offset id if it is missing."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_id

    @property
    def offset_id(self) -> str:
        """The id of this stored copy: the broker's address and the physical offset."""
        return str(OffsetId(self.record.store_host, self.record.physical_offset))

    @property
    def origin_id(self) -> str:
        """The offset id of the first copy of a message that is retried."""
        return self.properties.get(names.ORIGIN_MESSAGE_ID) or self.offset_id

    @property
    def tags(self) -> str | None:
        """The tag of the message, or None."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The business keys of the message."""
        return tuple(self.properties.get(names.KEYS, "").split())

    @property
    def sharding_key(self) -> str | None:
        """The key that chose the queue, or None."""
        return self.properties.get(SHARDING_KEY)

    @property
    def delay_level(self) -> int:
        """The delay level of the message; 0 if it was not delayed."""
        level = self.properties.get(names.DELAY, "")
        return int(level) if level.isascii() and level.isdigit() else 0

    @property
    def queue_id(self) -> int:
        """The id of the queue from which the message was read."""
        return self.record.queue_id

    @property
    def reconsume_times(self) -> int:
        """How often consumers of this group failed to process the message."""
        return self.record.reconsume_times + self.failures_here

    @property
    def flag(self) -> int:
        """The 32-bit flag that the sender set."""
        return self.record.flag

    @property
    def born_ms(self) -> int:
        """Send time by the sender's clock, in milliseconds since 1970."""
        return self.record.born_ms

    @property
    def stored_ms(self) -> int:
        """Store time by the broker's clock, in milliseconds since 1970."""
        return self.record.stored_ms

    @property
    def born(self) -> datetime:
        """Send time by the sender's clock, in UTC."""
        return datetime.fromtimestamp(self.record.born_ms / 1000, UTC)

    @property
    def stored(self) -> datetime:
        """Store time by the broker's clock, in UTC."""
        return datetime.fromtimestamp(self.record.stored_ms / 1000, UTC)

    @property
    def born_host(self) -> Host:
        """The sender's address, as the broker saw it."""
        return self.record.born_host

    @property
    def store_host(self) -> Host:
        """The address of the broker that stored the message."""
        return self.record.store_host

    @property
    def record(self) -> StoredMessage:
        """The stored record. Raises Malformed if more than its body is damaged."""
        stored = self._stored
        if stored is None:
            data = self._data
            if data is None:  # another thread has just decoded it
                return self.record
            try:
                stored = self._stored = unpack_record(data, self._at)
            except Malformed:
                # Reading the body raises; the other fields are needed to send the message back.
                stored = self._stored = unpack_record(data, self._at, check_crc=False)
                return stored
            self._data = None  # it also holds the other messages of the pull
        return stored
