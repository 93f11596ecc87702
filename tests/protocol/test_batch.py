"""Batch bodies, against those that Apache's encoder writes."""

import struct

import pytest

from batch_entries import BatchEntry, pack_batch, unpack_batch
from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import BATCH_COUNT_MAX
from cometmq.protocol.records.properties import decode_properties
from protocol.golden import bytes_of, each


@each("records", "batch")
def test_both_ways(entry):
    expected = entry["value"].get("messages", [entry["value"]])
    found = list(unpack_batch(bytes_of(entry)))
    assert found == [
        BatchEntry(
            body=bytes.fromhex(value["bodyHex"]),
            flag=value["flag"],
            properties_text=value["propertiesText"],
        )
        for value in expected
    ]
    assert [decode_properties(item.properties_text) for item in found] == [
        value["properties"] for value in expected
    ]
    assert pack_batch(found).hex() == entry["hex"]


def test_none():
    assert list(unpack_batch(b"")) == []
    assert pack_batch([]) == b""


GOOD = pack_batch([BatchEntry(body=b"body", properties_text="a\x01b")])


@pytest.mark.parametrize(
    "data",
    [
        GOOD[:-1],
        GOOD + b"\0",
        GOOD[:16] + b"\xff\xff\xff\xff" + GOOD[20:],  # body size
        GOOD[:16] + b"\0\0\0\5" + GOOD[20:],
        GOOD[:24] + b"\0\2" + GOOD[26:],  # properties size
    ],
)
def test_damage(data):
    with pytest.raises(Malformed):
        list(unpack_batch(data))


def test_a_negative_body_size_is_rejected():
    """Its size, read again as the size of the properties, would fit."""
    data = struct.pack(">iiiii", 20 + 0xFFFE, 0, 0, 0, -2) + b"p" * 0xFFFE
    with pytest.raises(Malformed, match="a body of -2 bytes"):
        list(unpack_batch(data))


def test_limits():
    empty = struct.pack(">iiiiiH", 22, 0, 0, 0, 0, 0)
    assert len(list(unpack_batch(empty * BATCH_COUNT_MAX))) == BATCH_COUNT_MAX
    with pytest.raises(TooLarge):
        list(unpack_batch(empty * (BATCH_COUNT_MAX + 1)))
