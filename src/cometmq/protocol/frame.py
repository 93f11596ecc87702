"""Bytes to commands and back.

| size 4: of what follows | codec 1 | header size 3 | header | body |
"""

import struct
from collections.abc import Iterator

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.command import (
    Codec,
    Command,
    decode_binary,
    decode_json,
    encode_binary,
    encode_json,
)
from cometmq.protocol.limits import FRAME_SIZE_MAX, HEADER_SIZE_MAX

_PREFIX = struct.Struct(">iBBH")  # size, codec, header size: its high byte, its low two
_SIZE = struct.Struct(">i")
_SIZE_MAX = FRAME_SIZE_MAX - _SIZE.size
_DECODE = {Codec.JSON: decode_json, Codec.BINARY: decode_binary}
_ENCODE = {Codec.JSON: encode_json, Codec.BINARY: encode_binary}
assert _PREFIX.size == 8


class FrameDecoder:
    """Takes the bytes of one connection as they come and gives the commands in them."""

    __slots__ = ("_pending", "_wanted")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._wanted = 0

    @property
    def pending_size(self) -> int:
        """How many bytes of a begun frame are held."""
        return len(self._pending)

    @property
    def wanted_size(self) -> int:
        """How many bytes must be held before there is more to say about the begun frame."""
        return self._wanted

    def feed(self, data: bytes) -> Iterator[Command]:
        """The commands that these bytes complete.

        Malformed or TooLarge after the good ones, and then the connection is of no more use. To be
        run to its end: what is left over is kept then.
        """
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return  # inside a large frame: nothing to copy or to look at again
            data = bytes(self._pending)
            self._pending.clear()
        at, end = 0, len(data)
        self._wanted = _PREFIX.size
        while end - at >= _PREFIX.size:
            size, codec, high, low = _PREFIX.unpack_from(data, at)
            header_size = high << 16 | low
            if not (header_size + _SIZE.size <= size <= _SIZE_MAX) or codec > Codec.BINARY:
                raise _never_a_frame(size, codec, header_size)
            if header_size > HEADER_SIZE_MAX:
                raise TooLarge(f"a header of {header_size} bytes, the limit is {HEADER_SIZE_MAX}")
            frame_end = at + _SIZE.size + size
            if frame_end > end:
                self._wanted = frame_end - at
                break
            body_at = at + _PREFIX.size + header_size
            command = _DECODE[codec](data[at + _PREFIX.size : body_at])
            command.body = data[body_at:frame_end]
            at = frame_end
            yield command
        if at < end:
            self._pending += data[at:]


def _never_a_frame(size: int, codec: int, header_size: int) -> Malformed | TooLarge:
    if size > _SIZE_MAX:
        return TooLarge(f"a frame of {size} bytes, the limit is {_SIZE_MAX}")
    return Malformed(f"a frame of {size} bytes with codec {codec} and a header of {header_size}")


def encode_frame(command: Command) -> bytes:
    """The whole frame of a command."""
    return encode_head(command, len(command.body)) + command.body


def encode_head(command: Command, body_size: int) -> bytes:
    """A frame without its body, which the caller sends after it."""
    header = _ENCODE[command.codec](command)
    size = _SIZE.size + len(header) + body_size
    if size > _SIZE_MAX or len(header) > HEADER_SIZE_MAX:
        raise TooLarge(f"a frame of {size} bytes with a header of {len(header)}")
    return _PREFIX.pack(size, command.codec, len(header) >> 16, len(header) & 0xFFFF) + header
