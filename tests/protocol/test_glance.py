"""A glance at the records of a pull tells what unpacking them tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import Malformed
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import (
    StoredMessage,
    glance_at_records,
    pack_record,
    unpack_body,
    unpack_records,
)

hosts = st.sampled_from([Host("10.0.0.1", 1), Host("::1", 65535)])
messages = st.builds(
    StoredMessage,
    topic=st.sampled_from(["T", "topic" * 20]),
    queue_offset=st.integers(0, 2**62),
    body=st.binary(max_size=40),
    born_host=hosts,
    store_host=hosts,
    properties_text=st.sampled_from(["", "TAGS\x01a"]),
)


@given(st.lists(messages, max_size=6))
def test_it_agrees_with_unpacking(stored):
    data = b"".join(map(pack_record, stored))
    unpacked = list(unpack_records(data))
    glances = glance_at_records(data)
    assert [glance[1:] for glance in glances] == [
        (each.queue_offset, len(each.body)) for each in unpacked
    ]
    bodies = [unpack_body(data, at, size) for at, _, size in glances]
    assert bodies == [(each.body, each.sys_flag) for each in unpacked]


@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_truncated_records_are_rejected(stored, data):
    whole = b"".join(map(pack_record, stored))
    end = data.draw(st.integers(1, len(whole) - 1))
    ends = {0}
    for each in stored:
        ends.add(max(ends) + len(pack_record(each)))
    if end not in ends:
        with pytest.raises(Malformed):
            glance_at_records(whole[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    try:
        found = glance_at_records(data)
    except Malformed:
        return
    assert not data or found


def test_a_body_that_was_damaged_is_refused():
    record = bytearray(pack_record(StoredMessage(topic="T", body=b"hello")))
    record[record.index(b"hello")] ^= 1
    with pytest.raises(Malformed, match="crc"):
        unpack_body(bytes(record), 0, 5)
    for size in (-1, 4, 10**6):
        with pytest.raises(Malformed, match="crc"):
            unpack_body(bytes(pack_record(StoredMessage(topic="T", body=b"hello"))), 0, size)
