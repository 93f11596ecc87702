"""New messages, and how their records are written to the log.

`protocol/records/message.py` defines the layout. This writer fills the mapped file in place; a test
compares the two byte for byte.
"""

import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from zlib import crc32

import msgspec

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import PROPERTIES_SIZE_MAX, TOPIC_LENGTH_MAX
from cometmq.protocol.records.hosts import Host, pack_host
from cometmq.protocol.records.message import HEADS, LOCAL_HOST, MAGIC, V6_SHIFT, host_flags
from cometmq.protocol.records.properties import UNREADABLE_BYTES
from cometmq.store.queue.results import StoredMessages

_KEPT_MAX = 20_000  # shapes, and hosts: 10 MB
_NOT_V6_BITS = ~(3 << V6_SHIFT)


class NeedsNewFile(Exception):
    """The rest of the log file in use is too small for all messages that are put together."""


class NewMessage(msgspec.Struct, kw_only=True, gc=False):
    """A message as its sender gives it. Times in ms since 1970."""

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


class NewMessages(msgspec.Struct, frozen=True):
    """Messages that are stored together, by columns in the order of the fields of one."""

    topics: Sequence[str]
    queue_ids: Sequence[int]
    bodies: Sequence[bytes]
    properties_texts: Sequence[str]
    flags: Sequence[int]
    sys_flags: Sequence[int]
    born_ms: Sequence[int]
    born_hosts: Sequence[Host]
    reconsume_times: Sequence[int]
    prepared_offsets: Sequence[int]

    def __len__(self) -> int:
        return len(self.topics)


_row_of = attrgetter(*NewMessage.__struct_fields__)


def by_columns(messages: Sequence[NewMessage]) -> NewMessages:
    """The columns of at least one message."""
    return NewMessages(*zip(*map(_row_of, messages), strict=True))


# How the record of one shape is packed: `struct.Struct.pack_into`.
Pack = Callable[..., None]
# Size of the record, how it is packed, and the encoded parts: topic, properties, born host, and the
# host bits of the sys flag. A plain tuple: a named one costs 0.3 us.
Prepared = tuple[int, Pack, bytes, bytes, bytes, int]


class RecordWriter:
    """Writes records for one store, which has one address.

    A record's shape is its topic, body size, properties size, and whether the born host is IPv6.
    Shapes repeat, so each has its own `struct.Struct`, which packs head, body, topic and properties
    in one call: 0.6 us a record less than to pack the head and join the rest (bench/store.py). A
    cached shape is within the limits. A new one costs 1.5 us.
    """

    def __init__(self, store_host: Host, body_size_max: int) -> None:
        self._store_host = store_host
        self._packed_host = pack_host(store_host)
        self._body_size_max = body_size_max
        self._shapes: dict[tuple[str, int, int, int], tuple[int, Pack, bytes]] = {}
        self._hosts: dict[Host, tuple[bytes, int]] = {}

    def limit_bodies(self, size_max: int) -> None:
        """Change the limit of new messages; cached shapes were checked against the old one."""
        self._body_size_max = size_max
        self._shapes.clear()

    def prepare(self, messages: NewMessages) -> list[Prepared]:
        """Everything but the place. TooLarge if a message exceeds a limit."""
        hosts, shapes = self._hosts, self._shapes
        ready: list[Prepared] = []
        last_host: Host | None = None
        for topic, body, text, host in zip(
            messages.topics,
            messages.bodies,
            messages.properties_texts,
            messages.born_hosts,
            strict=True,
        ):
            properties = text.encode("utf-8", UNREADABLE_BYTES)
            if host is not last_host:  # most are of one connection
                born_host, v6_bits = hosts.get(host) or self._known_host(host)
                last_host = host
            shape = topic, len(body), len(properties), v6_bits
            size, pack, sized_topic = shapes.get(shape) or self._known_shape(*shape)
            ready.append((size, pack, sized_topic, properties, born_host, v6_bits))
        return ready

    def prepare_one(self, message: NewMessage) -> Prepared:
        """The same for one message: 0.4 us less than as a run of one."""
        properties = message.properties_text.encode("utf-8", UNREADABLE_BYTES)
        host = self._hosts.get(message.born_host) or self._known_host(message.born_host)
        born_host, v6_bits = host
        shape = message.topic, len(message.body), len(properties), v6_bits
        size, pack, topic = self._shapes.get(shape) or self._known_shape(*shape)
        return size, pack, topic, properties, born_host, v6_bits

    def write(
        self,
        memory: memoryview,
        base: int,
        now_ms: int,
        messages: NewMessages,
        prepared: Sequence[Prepared],
        places: StoredMessages,
    ) -> None:
        """Fill in the records at their places, in the file that begins at `base`.

        Malformed if a number does not fit its field: some of the records are then written.
        """
        host = self._packed_host
        rows = zip(
            prepared,
            places.physical_offsets,
            places.queue_offsets,
            messages.bodies,
            messages.queue_ids,
            messages.flags,
            messages.sys_flags,
            messages.born_ms,
            messages.reconsume_times,
            messages.prepared_offsets,
            strict=True,
        )
        try:
            for (
                ready,
                offset,
                queue_offset,
                body,
                queue_id,
                flag,
                sys_flag,
                born,
                times,
                half,
            ) in rows:
                size, pack, topic, properties, born_host, v6_bits = ready
                pack(
                    memory,
                    offset - base,
                    size,
                    MAGIC,
                    crc32(body) & 0x7FFFFFFF,
                    queue_id,
                    flag,
                    queue_offset,
                    offset,
                    sys_flag & _NOT_V6_BITS | v6_bits,
                    born,
                    born_host,
                    now_ms,
                    host,
                    times,
                    half,
                    len(body),
                    body,
                    topic,
                    len(properties),
                    properties,
                )
        except struct.error as error:
            raise _unfit(error) from error

    def write_one(
        self,
        memory: memoryview,
        at: int,
        physical_offset: int,
        queue_offset: int,
        now_ms: int,
        message: NewMessage,
        prepared: Prepared,
    ) -> None:
        """The same for one message, at `at`: 0.6 us less than as a run of one."""
        size, pack, topic, properties, born_host, v6_bits = prepared
        body = message.body
        try:
            pack(
                memory,
                at,
                size,
                MAGIC,
                crc32(body) & 0x7FFFFFFF,  # `body_crc`, without a call: 0.05 us
                message.queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                message.sys_flag & _NOT_V6_BITS | v6_bits,
                message.born_ms,
                born_host,
                now_ms,
                self._packed_host,
                message.reconsume_times,
                message.prepared_offset,
                len(body),
                body,
                topic,
                len(properties),
                properties,
            )
        except struct.error as error:
            raise _unfit(error) from error

    def _known_shape(
        self, topic: str, body_size: int, properties_size: int, v6_bits: int
    ) -> tuple[int, Pack, bytes]:
        packed = topic.encode()
        if body_size > self._body_size_max:
            raise TooLarge(
                f"body of {body_size} bytes; the limit, maxMessageSize, is {self._body_size_max}"
            )
        if properties_size > PROPERTIES_SIZE_MAX:
            raise TooLarge(
                f"properties of {properties_size} bytes; the limit is {PROPERTIES_SIZE_MAX}"
            )
        if not 0 < len(packed) <= TOPIC_LENGTH_MAX:
            raise TooLarge(f"topic of {len(packed)} bytes; the limit is {TOPIC_LENGTH_MAX}")
        if len(self._shapes) >= _KEPT_MAX:
            self._shapes.clear()
        sized_topic = bytes((len(packed),)) + packed
        head = HEADS[v6_bits >> V6_SHIFT].format
        whole = struct.Struct(f"{head}{body_size}s{len(sized_topic)}sH{properties_size}s")
        known = whole.size, whole.pack_into, sized_topic
        self._shapes[topic, body_size, properties_size, v6_bits] = known
        return known

    def _known_host(self, born_host: Host) -> tuple[bytes, int]:
        if len(self._hosts) >= _KEPT_MAX:
            self._hosts.clear()
        known = pack_host(born_host), host_flags(born_host, self._store_host)
        self._hosts[born_host] = known
        return known


def _unfit(error: struct.error) -> Malformed:
    return Malformed(f"a number of the message does not fit its field: {error}")
