"""Messages of a pull, unpacked as far as they are looked at."""

import pytest

from cometmq.client.received import ReceivedMessage
from cometmq.errors import Malformed
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.compression import compress
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, pack_record, unpack_records


def pulled(*stored):
    return b"".join(map(pack_record, stored))


def stored(offset, body=b"hello", **fields):
    return StoredMessage(
        topic="T", queue_offset=offset, body=body, store_host=Host("10.0.0.1", 1), **fields
    )


def test_they_are_those_that_were_packed():
    data = pulled(*(stored(offset, properties_text="TAGS\x01a") for offset in range(3)))
    messages = ReceivedMessage.all_of(data, "broker-a")
    assert [message.queue_offset for message in messages] == [0, 1, 2]
    assert [message.size for message in messages] == [5, 5, 5]
    assert [message.record for message in messages] == list(unpack_records(data))
    assert [message.body for message in messages] == [b"hello"] * 3
    assert {message.tags for message in messages} == {"a"}
    assert {message.broker_name for message in messages} == {"broker-a"}


def test_a_body_is_had_without_the_rest_and_the_rest_without_the_body():
    data = pulled(stored(0), stored(1))
    one, other = ReceivedMessage.all_of(data, "b")
    assert one.body == b"hello" and one._stored is None
    assert other.topic == "T" and other._data is None, "the other's bytes are let go"
    assert (other.body, one.topic) == (b"hello", "T")


def test_a_compressed_body_is_inflated_either_way():
    flags = MessageFlag.COMPRESSED | MessageFlag.ZLIB
    data = pulled(stored(0, compress(b"x" * 5000, int(flags), 5), sys_flag=int(flags)))
    (glanced,), (unpacked,) = ReceivedMessage.all_of(data, "b"), ReceivedMessage.all_of(data, "b")
    assert unpacked.record.sys_flag == flags
    assert glanced.body == unpacked.body == b"x" * 5000


def test_damage_costs_its_own_message_alone():
    data = bytearray(pulled(stored(0, b"good"), stored(1, b"evil")))
    data[data.index(b"evil")] ^= 1
    good, evil = ReceivedMessage.all_of(bytes(data), "b")
    assert good.body == b"good"
    assert (evil.queue_offset, evil.topic) == (1, "T"), "what sends it back can be read"
    with pytest.raises(Malformed, match="crc"):
        evil.body  # noqa: B018


def test_one_that_cannot_be_read_at_all_has_a_place():
    data = bytearray(pulled(stored(7)))
    data[-1] = 99  # the size of its properties
    (message,) = ReceivedMessage.all_of(bytes(data), "b")
    with pytest.raises(Malformed):
        message.topic  # noqa: B018
    assert repr(message) == "<message 7 of b that cannot be decoded>"


def test_failures_here_count_with_those_that_the_broker_knows():
    message = ReceivedMessage.of(stored(0, reconsume_times=2), "b")
    message.failures_here += 1
    assert message.reconsume_times == 3
