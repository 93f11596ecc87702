"""The record writer writes what the protocol's packer packs, and refuses what does not fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, pack_record, unpack_record
from cometmq.store.log import new_message
from cometmq.store.log.new_message import NewMessage, RecordWriter
from searches import examples

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(Host, st.ip_addresses().map(str), int32s)
new_messages = st.builds(
    NewMessage,
    topic=st.text(min_size=1, max_size=31),  # at most 4 bytes each
    queue_id=int32s, body=st.binary(max_size=300), properties_text=st.text(max_size=100),
    flag=int32s, sys_flag=int32s, born_ms=int64s, born_host=hosts, reconsume_times=int32s,
    prepared_offset=int64s,
)  # fmt: skip


def written(writer, message, physical_offset=0, queue_offset=0, now_ms=0):
    """The record, after checking that it touches no byte around it."""
    prepared = writer.prepare_one(message)
    memory = bytearray(b"\xee" * (prepared[0] + 20))
    writer.write_one(
        memoryview(memory), 10, physical_offset, queue_offset, now_ms, message, prepared
    )
    assert memory[:10] == memory[-10:] == b"\xee" * 10
    return bytes(memory[10:-10])


def packed(message, store_host, physical_offset, queue_offset, now_ms):
    """The same record, by the clear layout."""
    return pack_record(
        StoredMessage(
            topic=message.topic, queue_id=message.queue_id, queue_offset=queue_offset,
            physical_offset=physical_offset, flag=message.flag, sys_flag=message.sys_flag,
            born_ms=message.born_ms, born_host=message.born_host, stored_ms=now_ms,
            store_host=store_host, reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_offset, body=message.body,
            properties_text=message.properties_text,
        )
    )  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(new_messages, hosts, int64s, int64s, int64s)
def test_the_writer_and_the_packer_agree(message, store_host, physical, queue_offset, now_ms):
    record = written(RecordWriter(store_host, 4 << 20), message, physical, queue_offset, now_ms)
    assert record == packed(message, store_host, physical, queue_offset, now_ms)
    assert unpack_record(record).body == message.body


few_messages = st.builds(
    NewMessage,
    topic=st.sampled_from(["a", "b", "é", "ab"]), queue_id=int32s,
    body=st.binary(max_size=2), properties_text=st.sampled_from(["", "a", "b", "ab", "é"]),
    sys_flag=int32s, born_host=st.sampled_from([Host("1.1.1.1", 1), Host("::1", 1)]),
)  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(few_messages, max_size=30), hosts, st.integers(1, 5))
def test_what_is_kept_of_one_shape_is_not_used_for_another(messages, store_host, kept_max):
    """Few topics, sizes and hosts, so that the same ones come again, and are forgotten again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_message, "_KEPT_MAX", kept_max)
        writer = RecordWriter(store_host, 1024)
        for message in messages:
            assert written(writer, message, 7, 8, 9) == packed(message, store_host, 7, 8, 9)
            assert len(writer._shapes) <= kept_max


@pytest.mark.parametrize("field", ["queue_id", "flag", "sys_flag", "reconsume_times"])
def test_a_number_that_does_not_fit_is_refused(field):
    writer = RecordWriter(Host("127.0.0.1", 1), 1000)
    message = NewMessage(**{"topic": "T", "queue_id": 0, "body": b"", field: 2**31})
    with pytest.raises(Malformed, match="does not fit its field"):
        written(writer, message)


def test_one_writer_serves_many_topics_and_hosts():
    """What it remembers of a topic or host is not used for another."""
    writer = RecordWriter(Host("::1", 1), 1024)
    hosts = [Host("10.0.0.1", 5), Host("10.0.0.1", 6), Host("2001:db8::1", 5)]
    for topic in ("a", "bb", "a"):
        for host in hosts * 2:
            record = unpack_record(
                written(writer, NewMessage(topic=topic, queue_id=0, body=b"", born_host=host))
            )
            assert (record.topic, record.born_host) == (topic, host)
            assert record.store_host == Host("::1", 1)


def test_limits_are_reached_and_not_passed():
    writer = RecordWriter(Host("127.0.0.1", 1), 1000)
    most = NewMessage(topic="t" * 127, queue_id=0, body=b"b" * 1000, properties_text="p" * 32767)
    record = unpack_record(written(writer, most))
    assert (record.topic, record.body) == (most.topic, most.body)
    assert record.properties_text == most.properties_text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"body": b"b" * 1001}, "body of 1001 bytes.*maxMessageSize.*1000"),
        ({"properties_text": "p" * 32768}, "properties of 32768 bytes.*32767"),
        ({"properties_text": "é" * 16384}, "properties of 32768 bytes.*32767"),
        ({"topic": "t" * 128}, "topic of 128 bytes.*127"),
        ({"topic": "é" * 64}, "topic of 128 bytes.*127"),
        ({"topic": ""}, "topic of 0 bytes"),
    ],
)
def test_what_is_too_large_is_refused_by_name(change, said):
    writer = RecordWriter(Host("127.0.0.1", 1), 1000)
    fields = {"topic": "T", "queue_id": 0, "body": b""} | change
    for _ in range(2):
        with pytest.raises(TooLarge, match=said):
            writer.prepare_one(NewMessage(**fields))
