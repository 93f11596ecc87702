"""Compression of bodies: zlib, and lz4 and zstd if their packages are installed.

Three bits of the message's sysFlag identify the format. The decompressed size is limited, so that a
compression bomb cannot use more than a few megabytes.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cometmq.errors import Malformed, NotInstalled, TooLarge
from cometmq.protocol.flags import MessageFlag

ZLIB_LEVEL = 5  # the default of Apache's clients


def compress(body: bytes, kind: MessageFlag = MessageFlag.ZLIB, level: int = ZLIB_LEVEL) -> bytes:
    """Compress a body. The caller sets COMPRESSED and the format in the sysFlag."""
    with _installed(kind):
        return _COMPRESS[_kind_of(kind)](body, level)


def decompress(body: bytes, sys_flag: int, size_max: int) -> bytes:
    """Decompress a body if its sysFlag says that it is compressed."""
    if not sys_flag & MessageFlag.COMPRESSED:
        return body
    kind = _kind_of(sys_flag)
    with _installed(kind):
        return _DECOMPRESS[kind](body, size_max)


@contextmanager
def _installed(kind: MessageFlag) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        name = kind.name or ""
        raise NotInstalled(
            f"{name.lower()} bodies need a package: pip install 'cometmq[speed]'"
        ) from error


def _kind_of(sys_flag: int) -> MessageFlag:
    kind = MessageFlag(sys_flag & MessageFlag.COMPRESSION) or MessageFlag.ZLIB
    if kind not in _COMPRESS:
        raise Malformed(f"compression type {int(kind) >> 8} is unknown")
    return kind


def inflate(data: bytes, size_max: int) -> bytes:
    """Decompress a complete zlib stream of at most `size_max` bytes."""
    inflator = zlib.decompressobj()
    try:
        found = inflator.decompress(data, size_max + 1)
    except zlib.error as error:
        raise Malformed(f"not a zlib stream: {error}") from error
    if len(found) > size_max:
        raise TooLarge(f"more than {size_max} bytes after decompression")
    if not inflator.eof:
        raise Malformed("the zlib stream ends too early")
    return found


def _lz4_compress(body: bytes, level: int) -> bytes:
    from lz4 import frame  # optional: the `speed` extra

    return bytes(frame.compress(body))


def _lz4_decompress(body: bytes, size_max: int) -> bytes:
    from lz4 import frame

    try:
        stream = frame.LZ4FrameDecompressor()
        found = bytes(stream.decompress(body, max_length=size_max + 1))
    except RuntimeError as error:
        raise Malformed(f"not an lz4 frame: {error}") from error
    return _whole(found, stream.eof, size_max)


def _zstd_compress(body: bytes, level: int) -> bytes:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=level).compress(body)


def _zstd_decompress(body: bytes, size_max: int) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError, frame_content_size

    try:
        if (
            frame_content_size(body) > size_max
        ):  # the limit does not apply to a frame that declares its size
            raise TooLarge(f"more than {size_max} bytes after decompression")
        found = ZstdDecompressor().decompress(body, max_output_size=size_max + 1)
    except ZstdError as error:
        # Truncated or longer than the limit: the same error. A stream reader distinguishes them.
        return _whole(_zstd_start(body, size_max, error), False, size_max)
    return _whole(found, True, size_max)


def _zstd_start(body: bytes, size_max: int, cause: Exception) -> bytes:
    """The readable part of a truncated frame."""
    from zstandard import ZstdDecompressor, ZstdError

    try:
        with ZstdDecompressor().stream_reader(body) as stream:
            return stream.read(size_max + 1)
    except ZstdError:
        raise Malformed(f"not a zstd frame: {cause}") from cause


def _whole(found: bytes, ended: bool, size_max: int) -> bytes:
    if len(found) > size_max:
        raise TooLarge(f"more than {size_max} bytes after decompression")
    if not ended:
        raise Malformed("the compressed body ends too early")
    return found


_COMPRESS: dict[MessageFlag, Callable[[bytes, int], bytes]] = {
    MessageFlag.ZLIB: zlib.compress,
    MessageFlag.LZ4: _lz4_compress,
    MessageFlag.ZSTD: _zstd_compress,
}
_DECOMPRESS: dict[MessageFlag, Callable[[bytes, int], bytes]] = {
    MessageFlag.ZLIB: inflate,
    MessageFlag.LZ4: _lz4_decompress,
    MessageFlag.ZSTD: _zstd_decompress,
}
