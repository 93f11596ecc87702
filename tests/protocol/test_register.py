"""The registration of a broker, in both forms."""

import struct
import zlib

import msgspec
import pytest

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.bodies.register import RegisterBroker, decode_register, encode_register
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.protocol.limits import INFLATED_SIZE_MAX
from cometmq.protocol.records.compression import inflate
from cometmq.protocol.records.message import body_crc
from protocol.golden import bytes_of, each


def as_sent(entry):
    """What the value becomes on the wire: the compressed form has no order and no sys flag."""
    value = entry["value"]["body"]
    topics = {
        name: msgspec.convert(topic, TopicConfig)
        for name, topic in value["topicConfigSerializeWrapper"]["topicConfigTable"].items()
    }
    if entry["value"]["compressed"]:
        topics = {
            name: msgspec.structs.replace(topic, order=False, topic_sys_flag=0)
            for name, topic in topics.items()
        }
    return topics, value["filterServerList"]


@each("register_body")
def test_values(entry):
    body = decode_register(bytes_of(entry), compressed=entry["value"]["compressed"])
    assert (body.topics.topic_config_table, body.filter_server_list) == as_sent(entry)
    version = body.topics.data_version
    assert (version.timestamp, version.counter) == (1700000000000, 7)


@each("register_body")
def test_bytes(entry):
    """Compressed bytes depend on the library: what they inflate to does not."""
    compressed = entry["value"]["compressed"]
    written = encode_register(
        decode_register(bytes_of(entry), compressed=compressed), compressed=compressed
    )
    if compressed:
        assert inflate(written, INFLATED_SIZE_MAX).hex() == entry["value"]["inflatedHex"]
        assert written[:2] == bytes_of(entry)[:2]
    else:
        assert written.decode() == entry["value"]["text"]


@each("register_body")
def test_checksums(entry):
    assert body_crc(bytes_of(entry)) == entry["value"]["crc32"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("servers", [None, [], ["10.0.0.1:30000"]])
def test_no_filter_servers_is_not_an_empty_list(servers, compressed):
    body = RegisterBroker(filter_server_list=servers)
    written = encode_register(body, compressed=compressed)
    assert decode_register(written, compressed=compressed) == body


def packed(topic: bytes, *, count: int = 1, servers: bytes = b"[]") -> bytes:
    version = b'{"counter":7,"timestamp":1}'
    parts = [struct.pack(">i", len(version)), version, struct.pack(">i", count)]
    parts += [struct.pack(">i", len(topic)), topic, struct.pack(">i", len(servers)), servers]
    return zlib.compress(b"".join(parts))


@each("ids", "topic_config/")
def test_topic_lines(entry):
    value, data = entry["value"], packed(entry["text"].encode())
    if not value["decoded"]:
        with pytest.raises(Malformed):
            decode_register(data, compressed=True)
        return
    (topic,) = decode_register(data, compressed=True).topics.topic_config_table.values()
    assert topic == TopicConfig(
        topic_name=value["topicName"],
        read_queue_nums=value["readQueueNums"],
        write_queue_nums=value["writeQueueNums"],
        perm=value["perm"],
        topic_filter_type=value["topicFilterType"],
    )


@pytest.mark.parametrize(
    "line",
    [
        b"T 4 8 6 SINGLE_TAG more", b"T 4 8 x SINGLE_TAG", b"T 4 8 1_0 SINGLE_TAG",
        b"T 99999999999 8 6 SINGLE_TAG", b"T\xff 4 8 6 SINGLE_TAG", b"",
        "T 4 8 ٣ SINGLE_TAG".encode(),
    ],
)  # fmt: skip
def test_lines_that_are_no_topics(line):
    with pytest.raises(Malformed):
        decode_register(packed(line), compressed=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        packed(b"T 1 1 6 SINGLE_TAG", count=2),
        packed(b"T 1 1 6 SINGLE_TAG", count=-1),
        packed(b"T 1 1 6 SINGLE_TAG", servers=b"[1]"),
        packed(b"T 1 1 6 SINGLE_TAG")[:-8],
        zlib.compress(b""),
        zlib.compress(b"\xff\xff\xff\xff"),
        zlib.compress(b"\0\0\0\2{}"),
    ],
)
def test_damage(data):
    with pytest.raises((Malformed, TooLarge)):
        decode_register(data, compressed=True)


def test_a_bomb():
    with pytest.raises(TooLarge):
        decode_register(zlib.compress(bytes(INFLATED_SIZE_MAX + 1)), compressed=True)
