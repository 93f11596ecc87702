"""A stored message, and the only copy of the 4.9 record layout.

    | total size 4 | magic 4 | body crc 4 | queue id 4 | flag 4 | queue offset 8 |
    | physical offset 8 | sys flag 4 | born 8 | born host 8 or 20 | stored 8 | store host 8 or 20 |
    | reconsume times 4 | prepared transaction offset 8 | body size 4 | body |
    | topic size 1 | topic | properties size 2 | properties |

Two bits of the sys flag say which hosts are IPv6. The commit log, the response to a pull and
replication to a slave use the same bytes.
"""

import struct
from collections.abc import Iterator
from zlib import crc32

import msgspec

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.limits import PROPERTIES_SIZE_MAX, TOPIC_LENGTH_MAX
from cometmq.protocol.records.hosts import Host, pack_host, unpack_host
from cometmq.protocol.records.properties import (
    UNREADABLE_BYTES,
    decode_properties,
    properties_bytes,
    readable,
)

MAGIC = -626843481  # 0xDAA320A7
BLANK_MAGIC = -875286124  # 0xCBD43194: the rest of this log file is empty
_CRC_BITS = 0x7FFFFFFF
LOCAL_HOST = Host("127.0.0.1", 0)


# The fields before the body, with their formats in a record with two IPv4 hosts.
_FIELDS = {
    "size": "i",
    "magic": "i",
    "body_crc": "i",
    "queue_id": "i",
    "flag": "i",  # the user's own
    "queue_offset": "q",
    "physical_offset": "q",
    "sys_flag": "i",
    "born_ms": "q",
    "born_host": "8s",
    "stored_ms": "q",
    "store_host": "8s",
    "reconsume_times": "i",
    "prepared_offset": "q",  # of the half message of a transaction
    "body_size": "i",
}
_FORMATS = list(_FIELDS.values())
# Byte offsets of the fields with two IPv4 hosts. An IPv6 host moves the fields after it.
FIELD_OFFSETS = {
    name: struct.calcsize(">" + "".join(_FORMATS[:rank])) for rank, name in enumerate(_FIELDS)
}


def _head(born_size: int, store_size: int) -> struct.Struct:
    sizes = {"born_host": f"{born_size}s", "store_host": f"{store_size}s"}
    return struct.Struct(">" + "".join((_FIELDS | sizes).values()))


# Index: the two bits of the sys flag: no host, born host, store host, both are IPv6.
V6_SHIFT = 4
# Plain numbers: an IntFlag drops unknown bits and is slow.
_BORN_V6, _STORE_V6 = int(MessageFlag.BORN_HOST_V6), int(MessageFlag.STORE_HOST_V6)
assert _BORN_V6 | _STORE_V6 == 3 << V6_SHIFT
HEADS = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))
assert [head.size for head in HEADS] == [88, 100, 100, 112]
_START = struct.Struct(">ii28xi")  # total size, magic, sys flag
_GLANCE = struct.Struct(">ii12xq8xi44xi")  # the same, with queue offset and, for IPv4, body size
_BODY_SIZE = struct.Struct(">i")  # the last field before the body
_CRC_AND_FLAG = struct.Struct(">8xi24xi")  # body crc, sys flag
_SIZE = struct.Struct(">H")  # of properties
RECORD_SIZE_MIN = HEADS[0].size + 1 + 2


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message with its queue offset and physical offset. Times in ms since 1970."""

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
    body: bytes = b""  # compressed if the sys flag says so
    properties_text: str = ""

    @property
    def properties(self) -> dict[str, str]:
        """The parsed properties. Bytes that are not UTF-8 become U+FFFD, as in Java."""
        text = self.properties_text
        return decode_properties(text if text.isascii() else readable(text))


def body_crc(body: bytes | memoryview) -> int:
    """The CRC-32 of a body without its top bit, because the field is signed."""
    return crc32(body) & _CRC_BITS


def host_flags(born_host: Host, store_host: Host) -> int:
    """The sys flag bits for the sizes of the two hosts."""
    return (_BORN_V6 if born_host.is_v6 else 0) | (_STORE_V6 if store_host.is_v6 else 0)


def pack_record(message: StoredMessage) -> bytes:
    """Encode a message. The host bits of the sys flag are set from its hosts."""
    topic = message.topic.encode()
    properties = properties_bytes(message.properties_text)
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
    """Decode the record at `at`. Raises Malformed if its sizes or its crc do not match."""
    room = len(data) - at
    if room < RECORD_SIZE_MIN:
        raise Malformed(f"{room} bytes are too short for a record")
    size, magic, sys_flag = _START.unpack_from(data, at)
    if magic != MAGIC:
        raise Malformed(f"magic {magic & 0xFFFFFFFF:#x} at {at} is not the start of a record")
    head = HEADS[sys_flag >> V6_SHIFT & 3]
    if not head.size + 3 <= size <= room:
        raise Malformed(f"record at {at} declares {size} bytes, but {room} are left")
    (
        _,
        _,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        _,
        born_ms,
        born_host,
        stored_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_size,
    ) = head.unpack_from(data, at)
    body_at = at + head.size
    topic_at = body_at + body_size + 1
    end = at + size
    if body_size < 0 or topic_at + 2 > end:
        raise Malformed(f"record at {at} has a body of {body_size} bytes")
    properties_at = topic_at + data[topic_at - 1] + 2
    # The sizes of body, topic and properties must fill the record exactly.
    if properties_at > end or properties_at + _SIZE.unpack_from(data, properties_at - 2)[0] != end:
        raise Malformed(f"record at {at} does not match its declared sizes")
    body = bytes(data[body_at : topic_at - 1])
    if check_crc and crc32(body) & _CRC_BITS != crc:
        raise Malformed(f"body of the record at {at} does not match its crc")
    try:
        topic = str(data[topic_at : properties_at - 2], "utf-8")
        properties_text = str(data[properties_at:end], "utf-8", UNREADABLE_BYTES)
    except UnicodeDecodeError as error:
        raise Malformed(f"record at {at}: {error}") from error
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        flag=flag,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=unpack_host(born_host),
        stored_ms=stored_ms,
        store_host=unpack_host(store_host),
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
        body=body,
        properties_text=properties_text,
    )


def glance_at_records(data: bytes) -> list[tuple[int, int, int]]:
    """Position, queue offset and body size of each record in a pull response.

    Takes 0.5 us per record, a fifth of decoding it. Raises Malformed if the records do not fill the
    body; the content of a record is checked when it is decoded.
    """
    found = []
    at, end = 0, len(data)
    while at < end:
        if end - at < RECORD_SIZE_MIN:
            raise Malformed(f"{end - at} bytes are too short for a record")
        size, magic, queue_offset, sys_flag, body_size = _GLANCE.unpack_from(data, at)
        if magic != MAGIC or not RECORD_SIZE_MIN <= size <= end - at:
            raise Malformed(f"the {end - at} bytes at {at} do not start with a record")
        if sys_flag >> V6_SHIFT & 3:
            head_size = HEADS[sys_flag >> V6_SHIFT & 3].size
            if size < head_size + 3:
                raise Malformed(
                    f"record at {at} declares {size} bytes, less than its head of {head_size}"
                )
            (body_size,) = _BODY_SIZE.unpack_from(data, at + head_size - _BODY_SIZE.size)
        found.append((at, queue_offset, body_size))
        at += size
    return found


def unpack_body(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Body and sys flag of a record, whose body size `glance_at_records` returned.

    Takes 0.5 us, a fifth of decoding the record. Raises Malformed if the crc does not match.
    """
    crc, sys_flag = _CRC_AND_FLAG.unpack_from(data, at)
    body_at = at + HEADS[sys_flag >> V6_SHIFT & 3].size
    body = data[body_at : body_at + size]
    if len(body) != size or crc32(body) & _CRC_BITS != crc:
        raise Malformed(f"body of the record at {at} does not match its crc")
    return body, sys_flag


def unpack_records(data: bytes | memoryview, *, check_crc: bool = True) -> Iterator[StoredMessage]:
    """The messages in a pull response."""
    at = 0
    while at < len(data):
        yield unpack_record(data, at, check_crc=check_crc)
        at += _START.unpack_from(data, at)[0]
