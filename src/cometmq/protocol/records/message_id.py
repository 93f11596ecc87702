"""The two kinds of message ids: offset ids and unique keys.

offset id   hex of | host 8 or 20 | physical offset 8 |        assigned by the broker
unique key  hex of | IP 4 or 16 | pid 2 | loader hash 4 | ms since month start 4 | count 2 |
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from cometmq.errors import Malformed
from cometmq.protocol.records.hosts import V4, V6, Host, pack_host, unpack_host

_OFFSET = struct.Struct(">q")
_OFFSET_FORMAT = "%016X"
_UNIQUE_TAIL = struct.Struct(">HIIH")
_UNIQUE_SIZES = (4 + _UNIQUE_TAIL.size, 16 + _UNIQUE_TAIL.size)


class OffsetId(NamedTuple):
    """The broker of a message and its physical offset."""

    host: Host
    physical_offset: int

    def __str__(self) -> str:
        return (pack_host(self.host) + _OFFSET.pack(self.physical_offset)).hex().upper()

    @classmethod
    def parse(cls, text: str) -> "OffsetId":
        """Parse 32 hex digits, or 56 for an IPv6 broker."""
        packed = _from_hex(text)
        if len(packed) not in (V4.size + 8, V6.size + 8):
            raise Malformed(f"a message id has 32 or 56 digits, not {len(text)}")
        return cls(unpack_host(packed[:-8]), _OFFSET.unpack(packed[-8:])[0])


def offset_id_format(host: Host) -> str:
    """A format: `% physical_offset` gives the id of a message of this host, in 0.2 us, not 0.8."""
    return pack_host(host).hex().upper() + _OFFSET_FORMAT


def joined_offset_ids(id_format: str, physical_offsets: Sequence[int]) -> str:
    """The ids of a batch with commas between, by `offset_id_format`: 0.1 us each, not 0.4."""
    front = id_format.removesuffix(_OFFSET_FORMAT)
    packed = struct.pack(f">{len(physical_offsets)}q", *physical_offsets)
    return front + packed.hex(",", _OFFSET.size).upper().replace(",", "," + front)


class UniqueKey(NamedTuple):
    """The value of UNIQ_KEY. The time is relative to the start of the month."""

    ip: bytes
    pid: int
    loader_hash: int
    since_month_start_ms: int
    counter: int

    def __str__(self) -> str:
        return (self.ip + _UNIQUE_TAIL.pack(*self[1:])).hex().upper()

    @classmethod
    def parse(cls, text: str) -> "UniqueKey":
        """Parse 32 hex digits, or 56 for an IPv6 client."""
        packed = _from_hex(text)
        if len(packed) not in _UNIQUE_SIZES:
            raise Malformed(f"a unique key has 32 or 56 digits, not {len(text)}")
        return cls(packed[: -_UNIQUE_TAIL.size], *_UNIQUE_TAIL.unpack(packed[-_UNIQUE_TAIL.size :]))


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise Malformed(f"not a message id: {text[:60]!r}") from error
