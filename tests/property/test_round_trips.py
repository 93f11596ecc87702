"""Round trips: decode(encode(x)) == x."""

import json
import math
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_entries import pack_batch, unpack_batch
from cometmq.protocol.bodies.heartbeat import Heartbeat, decode_heartbeat
from cometmq.protocol.bodies.register import RegisterBroker, decode_register, encode_register
from cometmq.protocol.bodies.tables import TopicConfig, TopicConfigTable
from cometmq.protocol.command import Command, decode_binary, decode_json, encode_binary, encode_json
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.frame import FrameDecoder, encode_frame, encode_head
from cometmq.protocol.headers.base import read_header, write_header
from cometmq.protocol.java.fastjson import dumps, loads, standard_json
from cometmq.protocol.java.values import double_text, format_properties, hash_code, parse_properties
from cometmq.protocol.names import (
    BUILT_IN_GROUPS,
    check_group,
    namespace_of,
    with_namespace,
    without_namespace,
)
from cometmq.protocol.records.compression import compress, decompress
from cometmq.protocol.records.hosts import pack_host, unpack_host
from cometmq.protocol.records.message import pack_record, unpack_record, unpack_records
from cometmq.protocol.records.message_id import OffsetId, UniqueKey
from cometmq.protocol.records.properties import decode_properties, encode_properties
from property.strategies import (
    batch_entries,
    binary_commands,
    commands,
    hosts,
    int32s,
    int64s,
    json_commands,
    messages,
    of,
    queues,
    texts,
)
from protocol.golden import BODIES, HEADERS
from searches import examples

few = settings(max_examples=examples(25))  # there are many structs
finite = st.floats(allow_nan=False, allow_infinity=False)


def without_body(command):
    return msgspec.structs.replace(command, body=b"")


# Commands and frames ------------------------------------------------------------------------------


@given(json_commands)
def test_json_headers(command):
    header = encode_json(command)
    assert decode_json(header) == without_body(command)
    assert json.loads(header)["code"] == command.code


@given(binary_commands)
def test_binary_headers(command):
    assert decode_binary(encode_binary(command)) == without_body(command)


@given(commands)
def test_frames(command):
    frame = encode_frame(command)
    assert list(FrameDecoder().feed(frame)) == [command]
    assert frame == encode_head(command, len(command.body)) + command.body
    assert int.from_bytes(frame[:4]) == len(frame) - 4


@given(st.lists(commands, max_size=5), st.data())
def test_stream_split_at_any_position(sent, data):
    stream = b"".join(map(encode_frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder, found = FrameDecoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += decoder.feed(stream[start:end])
    assert found == sent
    assert decoder.pending_size == 0


@given(st.lists(commands, min_size=1, max_size=2))
def test_stream_fed_byte_by_byte(sent):
    decoder, found = FrameDecoder(), []
    for byte in b"".join(map(encode_frame, sent)):
        found += decoder.feed(bytes([byte]))
    assert found == sent


# Headers and bodies -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", HEADERS)
def test_headers(shape):
    @few
    @given(of(shape))
    def check(header):
        command = Command(code=1, fields=write_header(header))
        for found in (command, decode_binary(encode_binary(command))):
            assert plain(read_header(found, shape)) == plain(header)

    def plain(header):
        """Convert booleans that were read as text."""
        values = msgspec.structs.asdict(header).items()
        return {
            name: {"true": True, "false": False}.get(value, value)
            if name in ("unit_mode", "batch", "accept_standard_json_only")
            else value
            for name, value in values
        }

    check()


@pytest.mark.parametrize("shape", BODIES)
def test_bodies(shape):
    @few
    @given(of(shape))
    def check(body):
        assert loads(dumps(body), shape) == body
        written = dumps(body, standard=True)
        assert loads(written, shape) == body
        assert written.isascii()
        json.loads(written)  # standard JSON

    check()


@given(of(Heartbeat))
def test_heartbeats(heartbeat):
    assert decode_heartbeat(dumps(heartbeat)) == heartbeat


@given(of(Heartbeat), st.data())
def test_heartbeats_with_ordinals(heartbeat, data):
    plain = json.loads(dumps(heartbeat, standard=True))
    for consumer, theirs in zip(plain["consumerDataSet"], heartbeat.consumer_data_set, strict=True):
        for key, member in (
            ("consumeFromWhere", theirs.consume_from_where),
            ("consumeType", theirs.consume_type),
            ("messageModel", theirs.message_model),
        ):
            if data.draw(st.booleans()):
                consumer[key] = list(type(member)).index(member)
    assert decode_heartbeat(json.dumps(plain).encode()) == heartbeat


names = st.text("abcXYZ019_-%|", min_size=1, max_size=12)


@st.composite
def registrations(draw):
    topics = draw(st.lists(of(TopicConfig), max_size=4))
    named = {
        name: msgspec.structs.replace(topic, topic_name=name, topic_filter_type="SINGLE_TAG")
        for name, topic in zip(
            draw(st.lists(names, min_size=len(topics), max_size=len(topics), unique=True)),
            topics,
            strict=True,
        )
    }
    return RegisterBroker(
        filter_server_list=draw(st.none() | st.lists(texts, max_size=2)),
        topics=TopicConfigTable(topic_config_table=named),
    )


@given(registrations())
def test_registrations(body):
    assert decode_register(encode_register(body)) == body


@given(registrations())
def test_compressed_registrations(body):
    """The compressed form contains neither `order` nor the sys flag of a topic."""
    plain = {
        name: msgspec.structs.replace(topic, order=False, topic_sys_flag=0)
        for name, topic in body.topics.topic_config_table.items()
    }
    packed = encode_register(body, compressed=True)
    table = msgspec.structs.replace(body.topics, topic_config_table=plain)
    assert decode_register(packed, compressed=True) == msgspec.structs.replace(body, topics=table)
    assert decode_register(zlib.compress(zlib.decompress(packed)), compressed=True).topics == table


# Fastjson dialect ---------------------------------------------------------------------------------

leaves = st.none() | st.booleans() | int64s | finite | texts
plain_json = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | int32s, inner, max_size=3),
    max_leaves=8,
)


def as_json(value):
    """Convert to standard JSON: keys become text, null entries are omitted."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items() if item is not None}
    return [as_json(item) for item in value] if isinstance(value, list) else value


@given(plain_json)
def test_dialect_converts_to_standard_json(value):
    text = dumps(value).decode()
    assert json.loads(standard_json(text)) == as_json(value)


@given(st.dictionaries(queues, plain_json.filter(lambda value: value is not None), max_size=3))
def test_objects_as_keys(table):
    found = json.loads(standard_json(dumps(table).decode()))
    assert {tuple(json.loads(key).items()): item for key, item in found.items()} == {
        tuple(queue.fields().items()): as_json(item) for queue, item in table.items()
    }


@given(plain_json, st.sampled_from([" ", "\n", "\t ", ""]))
def test_white_space_is_ignored(value, space):
    text = json.dumps(as_json(value), separators=(f"{space},{space}", f"{space}:{space}"))
    assert json.loads(standard_json(space + text + space)) == as_json(value)


# Records, batches, ids, properties ----------------------------------------------------------------


@given(messages())
def test_records(message):
    assert unpack_record(pack_record(message)) == message


@given(st.lists(messages(), max_size=3), st.binary(max_size=5))
def test_consecutive_records(stored, before):
    data = b"".join(map(pack_record, stored))
    assert list(unpack_records(data)) == list(unpack_records(memoryview(data))) == stored
    if stored:
        assert unpack_record(before + data, len(before)) == stored[0]


@given(st.lists(batch_entries, max_size=5))
def test_batches(entries):
    assert list(unpack_batch(pack_batch(entries))) == entries


property_texts = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=10
)


@given(st.dictionaries(property_texts, property_texts, max_size=5))
def test_properties(properties):
    text = encode_properties(properties)
    assert decode_properties(text) == decode_properties(text + "\x02") == properties
    assert not text.endswith("\x02")


@given(hosts, int64s)
def test_offset_ids(host, place):
    assert unpack_host(pack_host(host)) == host
    assert OffsetId.parse(str(OffsetId(host, place))) == OffsetId(host, place)


@given(
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.tuples(*(st.integers(0, 2**bits - 1) for bits in (16, 32, 32, 16))),
)
def test_unique_keys(ip, rest):
    assert UniqueKey.parse(str(UniqueKey(ip, *rest))) == UniqueKey(ip, *rest)


@given(
    st.binary(max_size=2000), st.sampled_from([MessageFlag.ZLIB, MessageFlag.LZ4, MessageFlag.ZSTD])
)
def test_compression(body, kind):
    packed = compress(body, kind)
    assert decompress(packed, kind | MessageFlag.COMPRESSED, len(body)) == body


# Java ---------------------------------------------------------------------------------------------


@given(st.text(max_size=40))
def test_hash_codes(text):
    units = memoryview(text.encode("utf-16-le")).cast("H").tolist()
    total = sum(unit * 31**power for power, unit in enumerate(reversed(units)))
    assert hash_code(text) == (total + 2**31) % 2**32 - 2**31


@given(finite)
def test_numbers_as_text(value):
    text = double_text(value)
    assert float(text) == value and math.copysign(1, float(text)) == math.copysign(1, value)
    assert ("E" in text) is (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert "." in text and "e" not in text


settings_keys = st.text("abcXYZ019_.", min_size=1, max_size=10)
settings_texts = st.text(
    st.characters(exclude_characters="\\", exclude_categories=["Cs"]), max_size=15
).filter(lambda text: not text or text[0] not in " \t\f")


@given(st.dictionaries(settings_keys, settings_texts, max_size=4))
def test_settings(values):
    assert parse_properties(format_properties(values)) == values


@given(st.text("ab=: \t\f\\\n\r#!u0", max_size=30))
def test_comments_and_line_ends_do_not_change_properties(text):
    found = parse_properties(text)
    assert parse_properties("# comment\n" + text) == found
    if "\r" not in text:
        assert parse_properties(text.replace("\n", "\r\n")) == found


group_names = st.text("abcXYZ019_-", min_size=1, max_size=10) | st.sampled_from(
    sorted(BUILT_IN_GROUPS - {"CID_RMQ_SYS_TRANS"})
)


@given(st.text("abcXYZ", min_size=1, max_size=5), group_names)
def test_namespaces(namespace, name):
    for prefix in ("", "%RETRY%", "%DLQ%"):
        wrapped = with_namespace(namespace, prefix + name)
        assert namespace_of(wrapped) == namespace
        assert with_namespace(namespace, wrapped) == wrapped == check_group(wrapped)
        assert without_namespace(wrapped) == without_namespace(wrapped, namespace) == prefix + name
        assert without_namespace(wrapped, namespace + "x") == wrapped
