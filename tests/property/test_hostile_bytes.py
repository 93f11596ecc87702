"""Arbitrary bytes of a peer are parsed or raise a PeerError."""

import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_entries import unpack_batch
from cometmq.errors import BadHeader, Malformed, PeerError, TooLarge
from cometmq.protocol.bodies.heartbeat import decode_heartbeat
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.register import decode_register
from cometmq.protocol.command import Command, decode_binary, decode_json
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.java.fastjson import loads, standard_json
from cometmq.protocol.java.values import parse_properties
from cometmq.protocol.records.compression import decompress, inflate
from cometmq.protocol.records.message import unpack_record, unpack_records
from cometmq.protocol.records.message_id import OffsetId, UniqueKey
from cometmq.protocol.records.properties import decode_properties
from property.strategies import SPITEFUL, mutants
from protocol.golden import BODIES, HEADERS, bytes_of, entries
from searches import examples

EXPECTED = (Malformed, TooLarge, BadHeader)
FRAMES = [bytes_of(entry) for entry in entries("frames") + entries("captures")]
TEXTS = [bytes_of(entry) for entry in entries("bodies")]
HEARTBEATS = [bytes_of(entry) for entry in entries("bodies", "HeartbeatData")]
RECORDS = [bytes_of(e) for e in entries("records") if not e["name"].startswith("batch")]
BATCHES = [bytes_of(entry) for entry in entries("records", "batch")]
REGISTERS = [bytes_of(entry) for entry in entries("register_body")]
INFLATED = [
    bytes.fromhex(entry["value"]["inflatedHex"])
    for entry in entries("register_body")
    if entry["value"]["compressed"]
]
COMPRESSED = [bytes_of(entry) for entry in entries("ids", "compress/")]
SHAPES = [*BODIES, MessageQueue, dict[str, Any], list[str]]

noise = st.binary(max_size=60) | st.lists(st.sampled_from(SPITEFUL), max_size=12).map(b"".join)


def refused(action, *args, **options) -> bool:
    """Return whether a PeerError is raised; any other exception fails the test."""
    try:
        found = action(*args, **options)
        if hasattr(found, "__next__"):
            list(found)
    except EXPECTED as error:
        assert isinstance(error, PeerError) and str(error)
        return True
    return False


def look_at_everything(data: bytes) -> None:
    """Parse everything in the frames that a server might parse."""
    for command in FrameDecoder().feed(data):
        refused(lambda: command.ext_fields)  # noqa: B023
        refused(encode_frame, command)
        for shape in HEADERS:
            refused(read_header, command, shape)
        if command.body:
            refused(decode_heartbeat, command.body)
            refused(unpack_records, command.body)


@given(noise | mutants(FRAMES))
def test_frames(data):
    refused(look_at_everything, data)


@given(noise)
def test_headers_without_a_frame(data):
    refused(decode_json, data)
    refused(decode_binary, data)


@given(mutants([b'{"topic":"t","queueId":"1","timestamp":"5","bname":"b"}']) | noise)
def test_ext_fields(data):
    for shape in HEADERS:
        refused(read_header, Command(code=1, fields=msgspec.Raw(data)), shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_bodies(shape):
    @settings(max_examples=examples(25))
    @given(mutants(TEXTS) | noise)
    def check(data):
        refused(loads, data, shape)

    check()


@given(mutants(TEXTS) | noise)
def test_fastjson_dialect(data):
    text = data.decode("utf-8", "replace")
    if not refused(standard_json, text):
        assert standard_json(standard_json(text)) == standard_json(text)


@given(mutants(HEARTBEATS) | noise)
def test_heartbeats(data):
    refused(decode_heartbeat, data)


@given(mutants(REGISTERS) | noise)
def test_registrations(data):
    refused(decode_register, data)
    refused(decode_register, data, compressed=True)


@given(mutants(INFLATED) | noise)
def test_inflated_registrations(data):
    refused(decode_register, zlib.compress(data), compressed=True)


@given(mutants(RECORDS) | noise, st.booleans())
def test_records(data, check_crc):
    refused(unpack_record, data, check_crc=check_crc)
    refused(unpack_records, data, check_crc=check_crc)


@given(mutants(BATCHES) | noise)
def test_batches(data):
    refused(unpack_batch, data)


@given(mutants(COMPRESSED) | noise, st.integers(0, 0x7FF))
def test_compressed_bodies(data, flag):
    refused(decompress, data, flag | MessageFlag.COMPRESSED, 10_000)
    refused(inflate, data, 10_000)


@given(st.text())
def test_texts(text):
    refused(OffsetId.parse, text)
    refused(UniqueKey.parse, text)
    assert all(name and value for name, value in decode_properties(text).items())
    parse_properties(text)


@given(st.text("0123456789abcdefABCDEFgG ", min_size=30, max_size=60))
def test_ids(text):
    refused(OffsetId.parse, text)
    refused(UniqueKey.parse, text)


def test_internal_errors_are_not_hidden():
    """`refused` does not treat our bugs as errors of the peer."""
    assert refused(loads, b"x", dict[str, Any])
    assert not refused(loads, b"{}", dict[str, Any])
    with pytest.raises(ZeroDivisionError):
        refused(lambda: 1 / 0)
