"""A message received: as it came, and unpacked as far as it is looked at."""

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
    """A message from a broker. What costs something to find out is found out when asked for.

    A Struct, as it is made in C.
    """

    broker_name: str
    queue_offset: int
    size: int  # in memory: of the body as it came
    _namespace: str  # the consumer's own
    _data: bytes | None  # where it is yet to be unpacked from
    _at: int
    _stored: StoredMessage | None = None
    _body: bytes | None = None
    _properties: dict[str, str] | None = None
    failures_here: int = 0  # of this copy, that no broker knows of

    @classmethod
    def of(cls, stored: StoredMessage, broker_name: str, namespace: str = "") -> "ReceivedMessage":
        """Of one that is unpacked."""
        size = len(stored.body)
        return cls(broker_name, stored.queue_offset, size, namespace, None, 0, stored)

    @classmethod
    def all_of(cls, data: bytes, broker_name: str, namespace: str = "") -> "list[ReceivedMessage]":
        """Those of a pull's body, each to be unpacked when it is looked at.

        A body that was damaged then costs its own message, not its queue. Malformed if these are no
        records at all.
        """
        return [
            cls(broker_name, queue_offset, size, namespace, data, at)
            for at, queue_offset, size in glance_at_records(data)
        ]

    def __repr__(self) -> str:
        try:
            return f"<message {self.message_id} of {self.topic}, {self.size} bytes>"
        except Malformed:
            return f"<message {self.queue_offset} of {self.broker_name} that cannot be read>"

    @property
    def topic(self) -> str:
        """As the sender wrote it: of a retried message, not the topic where it waited."""
        topic = self.origin_topic
        return without_namespace(topic, self._namespace) if self._namespace else topic

    @property
    def origin_topic(self) -> str:
        """`topic` as the wire has it."""
        topic = self.record.topic
        if topic.startswith(RETRY_PREFIX):
            topic = self.properties.get(names.RETRY_TOPIC, topic)
        return topic

    @property
    def queue(self) -> MessageQueue:
        """Where it was read."""
        return MessageQueue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def body(self) -> bytes:
        """As it was sent; Malformed or TooLarge if it was damaged or cannot be decompressed."""
        if self._body is None:
            data = self._data
            if data is not None:  # most listeners look at nothing else
                body, sys_flag = unpack_body(data, self._at, self.size)
            else:
                stored = self.record
                body, sys_flag = stored.body, stored.sys_flag
            if sys_flag & _COMPRESSED:
                body = decompress(body, sys_flag, BODY_INFLATED_SIZE_MAX)
            self._body = body
        return self._body

    def text(self) -> str:
        """The body as UTF-8; UnicodeDecodeError if it is not."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON; ValueError if it is not."""
        return json.loads(self.body)

    @property
    def properties(self) -> Mapping[str, str]:
        """All of them, the system's too."""
        if self._properties is None:
            self._properties = names.decode_properties(self.record.properties_text)
        return self._properties

    @property
    def user_properties(self) -> dict[str, str]:
        """The sender's own."""
        return {key: item for key, item in self.properties.items() if key not in names.RESERVED}

    @property
    def message_id(self) -> str:
        """The key that its sender gave it; the offset id, if none."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_id

    @property
    def offset_id(self) -> str:
        """Where it is stored; of a retried message, the copy."""
        return str(OffsetId(self.record.store_host, self.record.physical_offset))

    @property
    def origin_id(self) -> str:
        """The offset id of the first copy, for a message that was sent back."""
        return self.properties.get(names.ORIGIN_MESSAGE_ID) or self.offset_id

    @property
    def tags(self) -> str | None:
        """As sent."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """As sent."""
        return tuple(self.properties.get(names.KEYS, "").split())

    @property
    def sharding_key(self) -> str | None:
        """As sent."""
        return self.properties.get(SHARDING_KEY)

    @property
    def delay_level(self) -> int:
        """As sent; 0 if it was not delayed."""
        level = self.properties.get(names.DELAY, "")
        return int(level) if level.isascii() and level.isdigit() else 0

    @property
    def queue_id(self) -> int:
        """Of the queue where it was read."""
        return self.record.queue_id

    @property
    def reconsume_times(self) -> int:
        """How often a consumer of this group has failed it."""
        return self.record.reconsume_times + self.failures_here

    @property
    def flag(self) -> int:
        """The sender's own."""
        return self.record.flag

    @property
    def born_ms(self) -> int:
        """When it was sent, by the sender's clock."""
        return self.record.born_ms

    @property
    def stored_ms(self) -> int:
        """When it was stored, by the broker's clock."""
        return self.record.stored_ms

    @property
    def born(self) -> datetime:
        """`born_ms`, in UTC."""
        return datetime.fromtimestamp(self.record.born_ms / 1000, UTC)

    @property
    def stored(self) -> datetime:
        """`stored_ms`, in UTC."""
        return datetime.fromtimestamp(self.record.stored_ms / 1000, UTC)

    @property
    def born_host(self) -> Host:
        """Whence it was sent, as the broker saw it."""
        return self.record.born_host

    @property
    def store_host(self) -> Host:
        """The broker that stored it."""
        return self.record.store_host

    @property
    def record(self) -> StoredMessage:
        """As the broker keeps it; Malformed if more than its body was damaged."""
        stored = self._stored
        if stored is None:
            data = self._data
            if data is None:  # another thread has just done it
                return self.record
            try:
                stored = self._stored = unpack_record(data, self._at)
            except Malformed:
                # Who looks at the body is told; the rest is wanted to send it back.
                stored = self._stored = unpack_record(data, self._at, check_crc=False)
                return stored
            self._data = None  # which holds the other messages of its pull too
        return stored
