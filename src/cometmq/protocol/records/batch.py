"""Many messages in one body, as a batch send carries them.

| total size 4 | magic 4 (0) | body crc 4 (0) | flag 4 | body size 4 | body |
| properties size 2 | properties |                               one after the other
"""

import struct
from collections.abc import Iterable

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import BATCH_COUNT_MAX
from cometmq.protocol.records.properties import UNREADABLE_BYTES

_HEAD = struct.Struct(">iiiii")
assert _HEAD.size == 20
_BETWEEN = b"\0"  # two properties texts, of which hardly one has it
_unpack_head = _HEAD.unpack_from
_SIZE = struct.Struct(">H")
ENTRY_SIZE_MIN = _HEAD.size + _SIZE.size
_pack_head, _pack_size = _HEAD.pack, _SIZE.pack
_unpack_size = _SIZE.unpack_from


def pack_entries(entries: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """The body of a batch send, of flags, bodies and properties texts, which must fit."""
    parts: list[bytes] = []
    for flag, body, properties in entries:
        body_size, properties_size = len(body), len(properties)
        head = _pack_head(ENTRY_SIZE_MIN + body_size + properties_size, 0, 0, flag, body_size)
        parts += (head, body, _pack_size(properties_size), properties)
    return b"".join(parts)


def unpack_columns(data: bytes) -> tuple[list[int], list[bytes], list[str]]:
    """Flags, bodies and properties texts of a batch body, which they must fill exactly.

    The total size of a message is not looked at, nor by Apache: those of its parts say the same.
    """
    flags, bodies, properties = [], [], []
    at, whole = 0, len(data)
    for number in range(1, BATCH_COUNT_MAX + 1):
        if whole - at < ENTRY_SIZE_MIN:
            break
        _, _, _, flag, body_size = _unpack_head(data, at)
        body_end = at + 20 + body_size
        if body_size < 0 or body_end + 2 > whole:
            raise Malformed(f"message {number} of a batch says that its body has {body_size} bytes")
        end = body_end + 2 + _unpack_size(data, body_end)[0]
        if end > whole:
            raise Malformed(f"message {number} of a batch does not end where its sizes say")
        flags.append(flag)
        bodies.append(data[at + 20 : body_end])
        properties.append(data[body_end + 2 : end])
        at = end
    if whole - at >= ENTRY_SIZE_MIN:
        raise TooLarge(f"more than {BATCH_COUNT_MAX} messages in a batch")
    if at < whole:
        raise Malformed(f"{whole - at} bytes at the end of a batch are no message")
    return flags, bodies, _texts(properties)


def _texts(properties: list[bytes]) -> list[str]:
    """All of them in one call: no character reaches across the byte between two of them."""
    texts = _BETWEEN.join(properties).decode("utf-8", UNREADABLE_BYTES).split(_BETWEEN.decode())
    if len(texts) == len(properties):
        return texts
    return [each.decode("utf-8", UNREADABLE_BYTES) for each in properties]
