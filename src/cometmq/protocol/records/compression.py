"""Bodies made smaller: zlib always; lz4 and zstd where their packages are installed.

The kind travels in three bits of the message's sysFlag. What is inflated is bounded, so a bomb
of a few kilobytes costs a few megabytes at most.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cometmq.errors import Malformed, NotInstalled, TooLarge
from cometmq.protocol.flags import MessageFlag

ZLIB_LEVEL = 5  # the original's default


def compress(body: bytes, kind: MessageFlag = MessageFlag.ZLIB, level: int = ZLIB_LEVEL) -> bytes:
    """The body in the given kind; the caller sets COMPRESSED and the kind in the sysFlag."""
    with _installed(kind):
        return _COMPRESS[_kind_of(kind)](body, level)


def decompress(body: bytes, sys_flag: int, size_max: int) -> bytes:
    """The body as it was sent; itself, if its sysFlag says it is not compressed."""
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
        raise Malformed(f"compression type {int(kind) >> 8} is not known")
    return kind


def inflate(data: bytes, size_max: int) -> bytes:
    """A whole zlib stream of at most `size_max` bytes."""
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
        if frame_content_size(body) > size_max:  # a frame that says its size is not held to ours
            raise TooLarge(f"more than {size_max} bytes after decompression")
        found = ZstdDecompressor().decompress(body, max_output_size=size_max + 1)
    except ZstdError as error:
        # Cut short, or longer than the bound: the same error. A reader tells them apart.
        return _whole(_zstd_start(body, size_max, error), False, size_max)
    return _whole(found, True, size_max)


def _zstd_start(body: bytes, size_max: int, cause: Exception) -> bytes:
    """As much as can be read of a frame that is not whole."""
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
