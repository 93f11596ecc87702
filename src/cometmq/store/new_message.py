"""A message on its way into the log, and how its record is written there.

The layout is `protocol/message.py`'s; this writer fills the mapped file in place, and a test holds
the two together, byte for byte.
"""

import struct
from typing import NamedTuple

import msgspec

from cometmq.errors import TooLarge
from cometmq.protocol.hosts import Host, pack_host
from cometmq.protocol.limits import PROPERTIES_SIZE_MAX, TOPIC_LENGTH_MAX
from cometmq.protocol.message import HEADS, LOCAL_HOST, MAGIC, V6_SHIFT, body_crc, host_flags

_KEPT_MAX = 100_000
_V6_BITS = 3 << V6_SHIFT


class NewMessage(msgspec.Struct, kw_only=True, gc=False):
    """What a producer sent. Times in ms since 1970."""

    topic: str
    queue_id: int
    body: bytes
    properties_text: str = ""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: Host = LOCAL_HOST
    reconsume_times: int = 0
    prepared_offset: int = 0


class Prepared(NamedTuple):
    """What follows the head of a record, and the head that its hosts call for."""

    tail: bytes
    head: struct.Struct
    v6_bits: int
    born_host: bytes

    @property
    def size(self) -> int:
        """Of the whole record."""
        return self.head.size + len(self.tail)


class RecordWriter:
    """Writes records for one store, which has one address."""

    def __init__(self, store_host: Host, body_size_max: int) -> None:
        self._store_host = store_host
        self._packed_host = pack_host(store_host)
        self._body_size_max = body_size_max
        # Each saves 0.3 us or more a record: a broker sees few topics and hosts, again and again.
        self._topics: dict[str, bytes] = {}
        self._hosts: dict[Host, tuple[struct.Struct, int, bytes]] = {}

    def prepare(self, message: NewMessage) -> Prepared:
        """All but the place. Checks the limits: what is too large is refused, never cut."""
        body = message.body
        if len(body) > self._body_size_max:
            raise TooLarge(
                f"body of {len(body)} bytes; the limit, maxMessageSize, is {self._body_size_max}"
            )
        properties = message.properties_text.encode()
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise TooLarge(
                f"properties of {len(properties)} bytes; the limit is {PROPERTIES_SIZE_MAX}"
            )
        topic = self._topics.get(message.topic) or self._sized_topic(message.topic)
        host = self._hosts.get(message.born_host) or self._known_host(message.born_host)
        return Prepared(b"".join((body, topic, len(properties).to_bytes(2), properties)), *host)

    def write(
        self, memory: memoryview, at: int, physical_offset: int, queue_offset: int, now_ms: int,
        message: NewMessage, prepared: Prepared,
    ) -> None:  # fmt: skip
        """Fill in the record at `at`, for which the caller has found room."""
        tail, head, v6_bits, born_host = prepared
        start = at + head.size
        end = start + len(tail)
        head.pack_into(
            memory,
            at,
            end - at,
            MAGIC,
            body_crc(message.body),
            message.queue_id,
            message.flag,
            queue_offset,
            physical_offset,
            message.sys_flag & ~_V6_BITS | v6_bits,
            message.born_ms,
            born_host,
            now_ms,
            self._packed_host,
            message.reconsume_times,
            message.prepared_offset,
            len(message.body),
        )
        memory[start:end] = tail

    def _sized_topic(self, topic: str) -> bytes:
        packed = topic.encode()
        if not 0 < len(packed) <= TOPIC_LENGTH_MAX:
            raise TooLarge(f"topic of {len(packed)} bytes; the limit is {TOPIC_LENGTH_MAX}")
        if len(self._topics) >= _KEPT_MAX:
            self._topics.clear()
        sized = self._topics[topic] = bytes((len(packed),)) + packed
        return sized

    def _known_host(self, born_host: Host) -> tuple[struct.Struct, int, bytes]:
        if len(self._hosts) >= _KEPT_MAX:
            self._hosts.clear()
        v6_bits = host_flags(born_host, self._store_host)
        known = HEADS[v6_bits >> V6_SHIFT], v6_bits, pack_host(born_host)
        self._hosts[born_host] = known
        return known
