"""Many messages in one body, as a batch send carries them.

| total size 4 | magic 4 (0) | body crc 4 (0) | flag 4 | body size 4 | body |
| properties size 2 | properties |                               one after the other
"""

import struct
from collections.abc import Iterable, Iterator

import msgspec

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import BATCH_COUNT_MAX, PROPERTIES_SIZE_MAX

_HEAD = struct.Struct(">iiiii")
assert _HEAD.size == 20


class BatchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a batch; topic, queue and times are the batch's."""

    body: bytes
    flag: int = 0
    properties_text: str = ""


def pack_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body of a batch send."""
    return b"".join(map(_pack_entry, entries))


def _pack_entry(entry: BatchEntry) -> bytes:
    properties = entry.properties_text.encode()
    if len(properties) > PROPERTIES_SIZE_MAX:
        raise TooLarge(f"properties of {len(properties)} bytes, the limit is {PROPERTIES_SIZE_MAX}")
    size = _HEAD.size + len(entry.body) + 2 + len(properties)
    head = _HEAD.pack(size, 0, 0, entry.flag, len(entry.body))
    return b"".join((head, entry.body, len(properties).to_bytes(2), properties))


def unpack_batch(data: bytes | memoryview) -> Iterator[BatchEntry]:
    """The entries of a batch body, which they must fill exactly."""
    view = memoryview(data)
    at = count = 0
    while at < len(view):
        count += 1
        if count > BATCH_COUNT_MAX:
            raise TooLarge(f"more than {BATCH_COUNT_MAX} messages in a batch")
        if len(view) - at < _HEAD.size + 2:
            raise Malformed(f"{len(view) - at} bytes at the end of a batch are no message")
        size, _, _, flag, body_size = _HEAD.unpack_from(view, at)
        properties_at = at + _HEAD.size + body_size + 2
        end = at + size
        if body_size < 0 or not properties_at <= end <= len(view):
            raise Malformed(f"message {count} of a batch says {size} bytes, body {body_size}")
        if int.from_bytes(view[properties_at - 2 : properties_at]) != end - properties_at:
            raise Malformed(f"message {count} of a batch does not end where its sizes say")
        try:
            properties = str(view[properties_at:end], "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"message {count} of a batch: {error}") from error
        body = bytes(view[at + _HEAD.size : properties_at - 2])
        yield BatchEntry(body=body, flag=flag, properties_text=properties)
        at = end
