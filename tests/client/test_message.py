"""Messages to send and messages received."""

import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.received import received
from cometmq.client.message import (
    PULL_STATUS_OF,
    SEND_STATUS_OF,
    SHARDING_KEY,
    Message,
    PullStatus,
    SendStatus,
)
from cometmq.errors import BadMessage, Malformed
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.compression import compress
from cometmq.protocol.records.properties import RESERVED, decode_properties

KEY = "7F0000010001070DEA4E6D1B2A3C0000"
words = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda text: len(text.split()) == 1 and text == text.strip())


def test_what_is_sent_as_text_is_kept_as_bytes():
    message = Message("orders", "é", keys="a b")
    assert message.body == "é".encode()
    assert message.keys == ("a", "b")
    assert Message("orders", bytearray(b"x")).body == b"x"
    assert Message("orders", memoryview(b"x")).body == b"x"


def test_a_message_is_a_value():
    message = Message("orders", b"x", tags="a", keys=["k"], properties={"p": "v"})
    assert message == Message("orders", b"x", tags="a", keys="k", properties={"p": "v"})
    with pytest.raises(AttributeError):
        message.topic = "other"
    with pytest.raises(TypeError):
        message.properties["p"] = "w"
    assert msgspec.structs.replace(message, body="y").body == b"y"


def test_properties_given_are_copied():
    own = {"p": "v"}
    message = Message("orders", b"x", properties=own)
    own["p"] = "changed"
    assert message.properties == {"p": "v"}


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"topic": ""}, "the topic name is empty"),
        ({"topic": "a b"}, "may contain only letters"),
        ({"topic": "a/../b"}, "may contain only letters"),
        ({"topic": "t" * 128}, "the limit is 127"),
        ({"topic": 5}, "not a valid topic"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "choose another"),
        ({"body": b""}, "at least one byte"),
        ({"body": ""}, "at least one byte"),
        ({"body": {"a": 1}}, "encode it"),
        ({"body": None}, "body is a NoneType: it must be bytes or str"),
        ({"tags": b"body"}, "the body comes before it"),
        ({"keys": ["a b"]}, "not a word"),
        ({"keys": [""]}, "not a word"),
        ({"keys": [5]}, "not a word"),
        ({"delay_level": -1}, "0 for no delay"),
        ({"flag": 2**31}, "does not fit in 32 bits"),
        ({"properties": {"TAGS": "a"}}, "choose another name"),
        ({"properties": {SHARDING_KEY: "a"}}, "choose another name"),
        ({"properties": {"a": 5}}, "convert them with str"),
        ({"properties": {"a": ""}}, "leave it out"),
        ({"properties": {" ": "a"}}, "leave it out"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_what_to_change(fields, hint):
    with pytest.raises(BadMessage, match=hint):
        Message(**{"topic": "orders", "body": b"x", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": "a\x02KEYS\x01b"},
        {"keys": ["a\x01"]},
        {"properties": {"a\x01b": "c\x02d"}},
        {"properties": {"a\x02b": "c"}},
        {"sharding_key": "\x01"},
        {"buyer_id": "\x02"},
    ],
)
def test_no_property_can_be_forged(fields):
    with pytest.raises(BadMessage, match="remove it"):
        Message("orders", b"x", **fields).properties_text(KEY)


def test_properties_have_a_limit_in_bytes():
    Message("orders", b"x", properties={"p": "v" * 32_000}).properties_text(KEY)
    for value in ("v" * 32_768, "é" * 16_500, "😀" * 8_300):
        with pytest.raises(BadMessage, match="the limit is 32767"):
            Message("orders", b"x", properties={"p": value}).properties_text(KEY)


@given(
    st.none() | words, st.lists(words), st.integers(0, 18),
    st.dictionaries(words.filter(lambda name: name not in RESERVED | {SHARDING_KEY}), words),
    st.booleans(), st.none() | words, st.none() | words,
)  # fmt: skip
def test_what_is_sent_is_what_is_received(tags, keys, level, own, wait, shard, buyer):
    message = Message(
        "orders", b"x", tags=tags, keys=keys, delay_level=level, properties=own, wait=wait,
        sharding_key=shard, buyer_id=buyer,
    )  # fmt: skip
    text = message.properties_text(KEY)
    got = received(properties=decode_properties(text))
    assert (got.tags, got.keys, got.delay_level, got.message_id) == (tags, tuple(keys), level, KEY)
    assert got.user_properties == own | ({SHARDING_KEY: shard} if shard else {})
    assert got.sharding_key == shard
    assert got.properties.get("WAIT") == (None if wait else "false")
    assert got.properties.get("BUYER_ID") == buyer


def test_received_message_tells_where_and_when():
    message = received(
        7, properties={"UNIQ_KEY": KEY}, queue_id=3, physical_offset=456, born_ms=1_700_000_000_123,
        stored_ms=1_700_000_000_500, reconsume_times=2, flag=9,
    )  # fmt: skip
    assert message.queue == MessageQueue("orders", "broker-a", 3)
    assert (message.queue_offset, message.queue_id, message.reconsume_times) == (7, 3, 2)
    assert (message.message_id, message.offset_id) == (KEY, "0A00000100002A9F00000000000001C8")
    assert message.origin_id == message.offset_id
    assert message.born == datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, datetime.UTC)
    assert message.stored - message.born == datetime.timedelta(milliseconds=377)
    assert (message.born_ms, message.stored_ms, message.flag) == (
        1_700_000_000_123, 1_700_000_000_500, 9,
    )  # fmt: skip
    assert str(message.store_host) == "10.0.0.1:10911"
    assert message.born_host == message.record.born_host


def test_received_message_without_unique_key_is_known_by_its_place():
    message = received(physical_offset=1)
    assert message.message_id == message.offset_id
    assert (message.tags, message.keys, message.delay_level) == (None, (), 0)


def test_a_level_that_is_no_number_is_none():
    assert received(properties={"DELAY": "²"}).delay_level == 0
    assert received(properties={"DELAY": "x"}).delay_level == 0


def test_retried_message_has_the_topic_that_its_sender_wrote():
    own = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ABC"}
    message = received(topic="%RETRY%group", properties=own)
    assert message.topic == "orders"
    assert message.queue.topic == "%RETRY%group"
    assert message.origin_id == "ABC"


def test_a_consumer_in_a_namespace_sees_topics_without_it():
    assert received(topic="ns%orders").topic == "ns%orders"
    assert received(topic="ns%orders", namespace="ns").topic == "orders"
    assert received(topic="other%orders", namespace="ns").topic == "other%orders"
    retried = received(
        topic="%RETRY%ns%group", namespace="ns", properties={"RETRY_TOPIC": "ns%orders"}
    )
    assert retried.topic == "orders"


@pytest.mark.parametrize("kind", [MessageFlag.ZLIB, MessageFlag.LZ4, MessageFlag.ZSTD])
def test_body_is_decompressed_once_and_when_asked_for(kind):
    packed = compress(b"comet " * 100, kind)
    message = received(body=packed, sys_flag=int(MessageFlag.COMPRESSED | kind))
    assert message.size == len(packed)
    assert message.body == b"comet " * 100
    assert message.body is message.body


def test_damaged_body_fails_where_it_is_read():
    message = received(body=b"no zlib", sys_flag=int(MessageFlag.COMPRESSED))
    assert message.topic == "orders"
    with pytest.raises(Malformed):
        _ = message.body


def test_body_as_text_and_json():
    assert received(body="é".encode()).text() == "é"
    assert received(body=b'{"a": [1]}').json() == {"a": [1]}
    with pytest.raises(ValueError, match="utf-8"):
        received(body=b"\xff").text()


def test_statuses_of_codes():
    assert SEND_STATUS_OF[ResponseCode.SUCCESS] is SendStatus.OK
    assert {status.value for status in SEND_STATUS_OF.values()} == {
        "SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE",
    }  # fmt: skip
    assert PULL_STATUS_OF[ResponseCode.PULL_OFFSET_MOVED] is PullStatus.OFFSET_ILLEGAL
    assert set(PULL_STATUS_OF.values()) == set(PullStatus)


def test_repr_names_the_message():
    message = received(properties={"UNIQ_KEY": KEY})
    assert repr(message) == f"<message {KEY} of orders, 4 bytes>"
