"""A stored message, and the only copy of the 4.9 record layout.

    | total size 4 | magic 4 | body crc 4 | queue id 4 | flag 4 | queue offset 8 |
    | physical offset 8 | sys flag 4 | born 8 | born host 8 or 20 | stored 8 | store host 8 or 20 |
    | reconsume times 4 | prepared transaction offset 8 | body size 4 | body |
    | topic size 1 | topic | properties size 2 | properties |

Two bits of the sys flag say which hosts are IPv6. A record is what the commit log holds, what a
pull returns and what a slave copies: the same bytes everywhere.
"""

import struct
from collections.abc import Iterator
from zlib import crc32

import msgspec

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.hosts import Host, pack_host, unpack_host
from cometmq.protocol.limits import PROPERTIES_SIZE_MAX, TOPIC_LENGTH_MAX
from cometmq.protocol.properties import decode_properties

MAGIC = -626843481  # 0xDAA320A7
BLANK_MAGIC = -875286124  # 0xCBD43194: the rest of this file of the log is empty
LOCAL_HOST = Host("127.0.0.1", 0)


def _head(born_size: int, store_size: int) -> struct.Struct:
    return struct.Struct(
        ">"
        "i"  # total size
        "i"  # magic
        "i"  # body crc
        "i"  # queue id
        "i"  # flag: the user's own
        "q"  # queue offset
        "q"  # physical offset
        "i"  # sys flag
        "q"  # born, ms
        f"{born_size}s"  # born host
        "q"  # stored, ms
        f"{store_size}s"  # store host
        "i"  # reconsume times
        "q"  # prepared transaction offset
        "i"  # body size; body, topic and properties follow
    )


# By the two bits of the sys flag, shifted down: nothing, born host, store host, both are IPv6.
V6_SHIFT = 4
HEADS = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))
assert [head.size for head in HEADS] == [88, 100, 100, 112]
_START = struct.Struct(">ii")  # total size, magic
_SYS_FLAG = struct.Struct(">i")
_SYS_FLAG_AT = 36
RECORD_SIZE_MIN = HEADS[0].size + 1 + 2


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message with its place in a queue and in the log. Times in ms since 1970."""

    topic: str
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: Host = LOCAL_HOST
    stored_ms: int = 0
    store_host: Host = LOCAL_HOST
    reconsume_times: int = 0
    prepared_offset: int = 0
    body: bytes = b""  # as stored: compressed, if the sys flag says so
    properties_text: str = ""

    @property
    def properties(self) -> dict[str, str]:
        """The properties text, parsed."""
        return decode_properties(self.properties_text)


def body_crc(body: bytes | memoryview) -> int:
    """CRC-32 without its top bit: the field is a signed integer."""
    return crc32(body) & 0x7FFFFFFF


def host_flags(born_host: Host, store_host: Host) -> int:
    """The sys flag bits that tell how long the two hosts are."""
    return (MessageFlag.BORN_HOST_V6 if born_host.is_v6 else 0) | (
        MessageFlag.STORE_HOST_V6 if store_host.is_v6 else 0
    )


def pack_record(message: StoredMessage) -> bytes:
    """The record of a message. Its host bits are set from its hosts."""
    topic = message.topic.encode()
    properties = message.properties_text.encode()
    if len(topic) > TOPIC_LENGTH_MAX:
        raise TooLarge(f"topic of {len(topic)} bytes, the limit is {TOPIC_LENGTH_MAX}")
    if len(properties) > PROPERTIES_SIZE_MAX:
        raise TooLarge(f"properties of {len(properties)} bytes, the limit is {PROPERTIES_SIZE_MAX}")
    v6_bits = host_flags(message.born_host, message.store_host)
    head = HEADS[v6_bits >> V6_SHIFT]
    size = head.size + len(message.body) + 1 + len(topic) + 2 + len(properties)
    packed = b"".join(
        (
            head.pack(
                size,
                MAGIC,
                body_crc(message.body),
                message.queue_id,
                message.flag,
                message.queue_offset,
                message.physical_offset,
                message.sys_flag & ~(3 << V6_SHIFT) | v6_bits,
                message.born_ms,
                pack_host(message.born_host),
                message.stored_ms,
                pack_host(message.store_host),
                message.reconsume_times,
                message.prepared_offset,
                len(message.body),
            ),
            message.body,
            len(topic).to_bytes(1),
            topic,
            len(properties).to_bytes(2),
            properties,
        )
    )
    assert len(packed) == size
    return packed


def unpack_record(
    data: bytes | memoryview, at: int = 0, *, check_crc: bool = True
) -> StoredMessage:
    """The message whose record starts at `at`; Malformed if it does not close as it should."""
    view = memoryview(data)[at:]
    if len(view) < RECORD_SIZE_MIN:
        raise Malformed(f"{len(view)} bytes are too few for a record")
    size, magic = _START.unpack_from(view)
    if magic != MAGIC:
        raise Malformed(f"magic {magic & 0xFFFFFFFF:#x} at {at} does not start a record")
    head = HEADS[_SYS_FLAG.unpack_from(view, _SYS_FLAG_AT)[0] >> V6_SHIFT & 3]
    if not head.size + 3 <= size <= len(view):
        raise Malformed(f"record at {at} says {size} bytes, there are {len(view)}")
    fields = head.unpack_from(view)
    body, topic, properties = _tail(view[head.size : size], fields[14], at)
    if check_crc and body_crc(body) != fields[2]:
        raise Malformed(f"body of the record at {at} does not match its crc")
    return StoredMessage(
        topic=topic,
        queue_id=fields[3],
        queue_offset=fields[5],
        physical_offset=fields[6],
        flag=fields[4],
        sys_flag=fields[7],
        born_ms=fields[8],
        born_host=unpack_host(fields[9]),
        stored_ms=fields[10],
        store_host=unpack_host(fields[11]),
        reconsume_times=fields[12],
        prepared_offset=fields[13],
        body=body,
        properties_text=properties,
    )


def _tail(view: memoryview, body_size: int, at: int) -> tuple[bytes, str, str]:
    """Body, topic and properties, which must fill the rest of the record exactly."""
    topic_at = body_size + 1
    if body_size < 0 or topic_at + 2 > len(view):
        raise Malformed(f"record at {at} has a body of {body_size} bytes")
    properties_at = topic_at + view[topic_at - 1] + 2
    properties_size = int.from_bytes(view[properties_at - 2 : properties_at])
    if properties_at + properties_size != len(view):
        raise Malformed(f"record at {at} does not end where its sizes say")
    try:
        topic = str(view[topic_at : properties_at - 2], "utf-8")
        properties = str(view[properties_at:], "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"record at {at}: {error}") from error
    return bytes(view[:body_size]), topic, properties


def unpack_records(data: bytes | memoryview, *, check_crc: bool = True) -> Iterator[StoredMessage]:
    """The messages of a pull's body, one after the other."""
    at = 0
    while at < len(data):
        yield unpack_record(data, at, check_crc=check_crc)
        at += _START.unpack_from(data, at)[0]
