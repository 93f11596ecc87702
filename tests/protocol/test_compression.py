"""Compressed bodies: what Apache's compressors made, and what must not get through."""

import sys
import zlib

import pytest

from cometmq.errors import Malformed, NotInstalled, TooLarge
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.compression import compress, decompress, inflate
from protocol.golden import bytes_of, each, entries

KINDS = [MessageFlag.ZLIB, MessageFlag.LZ4, MessageFlag.ZSTD]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
SAMPLES = [entry for entry in entries("ids", "compress/") if "/util/" not in entry["name"]]


def sys_flag(entry):
    return entry["value"]["sysFlag"] | MessageFlag.COMPRESSED


@pytest.mark.parametrize("entry", SAMPLES, ids=[entry["name"] for entry in SAMPLES])
def test_theirs(entry):
    plain = bytes.fromhex(entry["value"]["plainHex"])
    assert decompress(bytes_of(entry), sys_flag(entry), len(plain)) == plain
    assert entry["value"]["typeValue"] == entry["value"]["sysFlag"] >> 8


@each("ids", "compress/util/")
def test_the_untyped_kind_is_zlib(entry):
    plain = bytes.fromhex(entry["value"]["plainHex"])
    assert decompress(bytes_of(entry), MessageFlag.COMPRESSED, len(plain)) == plain


def test_the_containers():
    """LZ4 travels as LZ4 frames, not as bare blocks; ours begin with the same magic numbers."""
    starts = {entry["value"]["sysFlag"]: bytes_of(entry)[:4] for entry in SAMPLES}
    for kind in (MessageFlag.LZ4, MessageFlag.ZSTD):
        assert compress(b"hello", kind)[:4] == starts[kind]
    assert starts[MessageFlag.LZ4] == b"\x04\x22\x4d\x18"


@each_kind
@pytest.mark.parametrize("plain", [b"", b"x", b"comet " * 1000, bytes(range(256)) * 300])
def test_ours(kind, plain):
    packed = compress(plain, kind)
    assert decompress(packed, kind | MessageFlag.COMPRESSED, len(plain)) == plain


def test_an_uncompressed_body_is_unchanged():
    assert decompress(b"as it is", MessageFlag.ZLIB, 0) == b"as it is"


@each_kind
def test_too_large(kind):
    bomb = compress(bytes(10_000_000), kind)
    with pytest.raises(TooLarge):
        decompress(bomb, kind | MessageFlag.COMPRESSED, 9_999_999)


def test_too_large_without_a_stated_size():
    """As Apache's zstd writes them."""
    (entry,) = [entry for entry in SAMPLES if entry["name"] == "compress/ZSTD/1800"]
    with pytest.raises(TooLarge):
        decompress(bytes_of(entry), sys_flag(entry), 1799)


@pytest.mark.parametrize("entry", SAMPLES, ids=[entry["name"] for entry in SAMPLES])
def test_cut_short(entry):
    packed = bytes_of(entry)
    for cut in range(len(packed)):
        with pytest.raises(Malformed):
            decompress(packed[:cut], sys_flag(entry), 10_000)


@each_kind
def test_cut_short_ours(kind):
    packed = compress(b"comet " * 1000, kind)
    with pytest.raises(Malformed):
        decompress(packed[:-1], kind | MessageFlag.COMPRESSED, 10_000)


@each_kind
def test_no_compressed_body(kind):
    with pytest.raises(Malformed):
        decompress(b"hello comet, this is plain", kind | MessageFlag.COMPRESSED, 100)


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_an_unknown_kind(kind):
    with pytest.raises(Malformed, match="compression type"):
        decompress(b"", kind << 8 | MessageFlag.COMPRESSED, 100)


def test_inflate():
    assert inflate(zlib.compress(b"abc"), 3) == b"abc"
    with pytest.raises(TooLarge):
        inflate(zlib.compress(b"abc"), 2)


@pytest.mark.parametrize(
    ("kind", "package"), [(MessageFlag.LZ4, "lz4"), (MessageFlag.ZSTD, "zstandard")]
)
def test_a_missing_package_is_named(monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotInstalled, match=r"cometmq\[speed\]"):
        compress(b"x", kind)
    with pytest.raises(NotInstalled, match=r"cometmq\[speed\]"):
        decompress(b"x", MessageFlag.COMPRESSED | kind, 100)
