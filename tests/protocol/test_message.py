"""Stored records: Apache's bytes to our values and back."""

from ipaddress import ip_address

import msgspec
import pytest

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.limits import MESSAGE_SIZE_MAX, PROPERTIES_SIZE_MAX, TOPIC_LENGTH_MAX
from cometmq.protocol.records.compression import decompress
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import (
    MAGIC,
    RECORD_SIZE_MIN,
    StoredMessage,
    body_crc,
    host_flags,
    pack_record,
    unpack_record,
    unpack_records,
)
from protocol.golden import bytes_of, entries

RECORDS = [entry for entry in entries("records") if not entry["name"].startswith("batch")]
each_record = pytest.mark.parametrize("entry", RECORDS, ids=[entry["name"] for entry in RECORDS])
# Written by a client's encoder, which keeps the checksum of the body before compression. A broker
# stores the one of the body it was sent, and that is what we check and write.
PLAIN_CRC = {entry["name"] for entry in RECORDS if entry["name"].startswith("compressed_")}
V4, V6 = Host("10.1.2.3", 1), Host("2001:db8::1", 2)


def unpacked(entry):
    return unpack_record(bytes_of(entry), check_crc=entry["name"] not in PLAIN_CRC)


@each_record
def test_values(entry):
    message, value = unpacked(entry), entry["value"]
    assert message == StoredMessage(
        topic=value["topic"],
        queue_id=value["queueId"],
        queue_offset=value["queueOffset"],
        physical_offset=value["physicalOffset"],
        flag=value["flag"],
        sys_flag=value["sysFlag"],
        born_ms=value["bornTimestamp"],
        born_host=Host(str(ip_address(value["bornHost"])), value["bornPort"]),
        stored_ms=value["storeTimestamp"],
        store_host=Host(str(ip_address(value["storeHost"])), value["storePort"]),
        reconsume_times=value["reconsumeTimes"],
        prepared_offset=value["preparedTransactionOffset"],
        body=message.body,
        properties_text=value["propertiesText"],
    )
    plain = decompress(message.body, message.sys_flag, MESSAGE_SIZE_MAX)
    assert plain.hex() == value["bodyHex"]
    assert body_crc(plain) == value["bodyCrc"]
    assert message.properties == value["properties"]


@each_record
def test_bytes(entry):
    written, theirs = pack_record(unpacked(entry)), bytes_of(entry)
    if entry["name"] in PLAIN_CRC:
        assert written[8:12] != theirs[8:12]
        written = written[:8] + theirs[8:12] + written[12:]
    assert written.hex() == entry["hex"]


@pytest.mark.parametrize("name", sorted(PLAIN_CRC))
def test_the_checksum_is_of_the_stored_body(name):
    (entry,) = [entry for entry in RECORDS if entry["name"] == name]
    with pytest.raises(Malformed, match="crc"):
        unpack_record(bytes_of(entry))
    assert unpack_record(pack_record(unpacked(entry))) == unpacked(entry)


def test_all_four_mixes_of_hosts_are_among_them():
    hosts = {
        (message.born_host.is_v6, message.store_host.is_v6) for message in map(unpacked, RECORDS)
    }
    assert hosts == {(False, False), (False, True), (True, False), (True, True)}


def test_one_after_the_other():
    data = b"".join(map(bytes_of, RECORDS))
    assert list(unpack_records(data, check_crc=False)) == list(map(unpacked, RECORDS))
    assert unpack_record(data, len(bytes_of(RECORDS[0]))) == unpack_record(bytes_of(RECORDS[1]))


@pytest.mark.parametrize(
    ("born", "stored", "bits"), [(V4, V4, 0), (V6, V4, 16), (V4, V6, 32), (V6, V6, 48)]
)
def test_the_host_bits_follow_the_hosts(born, stored, bits):
    assert host_flags(born, stored) == bits
    message = StoredMessage(topic="t", born_host=born, store_host=stored, sys_flag=0x7FFFFFCF)
    assert unpack_record(pack_record(message)).sys_flag == 0x7FFFFFCF & ~48 | bits


def test_the_smallest_record():
    packed = pack_record(StoredMessage(topic=""))
    assert len(packed) == RECORD_SIZE_MIN
    with pytest.raises(Malformed):
        unpack_record(packed[:-1])


def test_limits():
    longest = StoredMessage(topic="t" * TOPIC_LENGTH_MAX, properties_text="p" * PROPERTIES_SIZE_MAX)
    assert unpack_record(pack_record(longest)) == longest
    for changes in ({"topic": "t" * 128}, {"properties_text": "p" * 32768}, {"topic": "é" * 64}):
        with pytest.raises(TooLarge):
            pack_record(msgspec.structs.replace(longest, **changes))


def damaged(**changes):
    """A good record with bytes put at places."""
    packed = bytearray(pack_record(StoredMessage(topic="topic", body=b"body", properties_text="p")))
    for place, data in changes.items():
        at = int(place.removeprefix("at"))
        packed[at : at + len(data)] = data
    return bytes(packed)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        damaged(at0=b"\x7f\xff\xff\xff"),  # longer than what there is
        damaged(at0=b"\0\0\0\x5a"),  # shorter than a head
        damaged(at0=b"\xff\xff\xff\xff"),
        damaged(at4=(MAGIC + 1).to_bytes(4, signed=True)),
        damaged(at8=b"\0\0\0\0"),  # crc
        damaged(at36=b"\0\0\0\x30"),  # hosts that are not there
        damaged(at84=b"\xff\xff\xff\xff"),  # body size
        damaged(at84=b"\0\0\0\x05"),
        damaged(at92=b"\xff"),  # topic size
        damaged(at93=b"\xff"),  # topic is no UTF-8
    ],
)
def test_damage(packed):
    with pytest.raises(Malformed):
        unpack_record(packed)


def test_bytes_left_over_inside_a_record():
    packed = damaged(at0=(len(damaged()) + 1).to_bytes(4)) + b"x"
    with pytest.raises(Malformed, match="does not match its declared sizes"):
        unpack_record(packed)


def test_a_crc_may_go_unchecked():
    assert unpack_record(damaged(at8=b"\0\0\0\0"), check_crc=False).body == b"body"
