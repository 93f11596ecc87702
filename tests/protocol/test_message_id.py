"""Offset ids, unique keys and packed hosts."""

from datetime import UTC, datetime
from ipaddress import ip_address

import pytest

from cometmq.errors import Malformed
from cometmq.protocol.records.hosts import Host, pack_host, unpack_host
from cometmq.protocol.records.message_id import OffsetId, UniqueKey, offset_id_format
from protocol.golden import each


@each("ids", "offset_id/")
def test_offset_ids(entry):
    value = entry["value"]
    expected = OffsetId(Host(str(ip_address(value["host"])), value["port"]), value["offset"])
    assert OffsetId.parse(entry["text"]) == OffsetId.parse(entry["text"].lower()) == expected
    assert str(expected) == entry["text"]
    assert offset_id_format(expected.host) % expected.physical_offset == entry["text"]


@each("ids", "unique_id/")
def test_unique_keys(entry):
    value, key = entry["value"], UniqueKey.parse(entry["text"])
    assert key.ip.hex() == value["ipHex"]
    assert key.pid == value["pid"]
    assert key.counter == int(entry["name"].split("/")[-1])
    assert str(key) == entry["text"]
    assert value["zone"] == "Etc/UTC"
    month = datetime.fromtimestamp(value["timeMs"] / 1000, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    assert month.timestamp() * 1000 + key.since_month_start_ms == value["timeMs"]


@pytest.mark.parametrize("text", ["", "0", "zz" * 16, "00" * 15, "00" * 17, "00" * 27, "é" * 32])
@pytest.mark.parametrize("kind", [OffsetId, UniqueKey])
def test_bad_ids_are_rejected(kind, text):
    with pytest.raises(Malformed):
        kind.parse(text)


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        (Host("10.1.2.3", 10911), "0a01020300002a9f"),
        (Host("2001:db8::1", 65535), "20010db80000000000000000000000010000ffff"),
    ],
)
def test_hosts(host, packed):
    assert pack_host(host).hex() == packed
    assert unpack_host(bytes.fromhex(packed)) == host
    assert host.is_v6 is (len(packed) == 40)
    assert str(host) == f"{host.ip}:{host.port}"
