"""The vectorized decoder, compared with the decoder of single records."""

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from cometmq.errors import Malformed
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.compression import compress
from cometmq.protocol.records.message import BLANK_MAGIC, StoredMessage, pack_record, unpack_record
from spark.rows import NEEDS, messages, packed, row_of

pa = pytest.importorskip("pyarrow", reason=NEEDS)
import numpy as np  # noqa: E402

from cometmq.spark.files.frames import Damage, LogFrames, records_of_pull  # noqa: E402
from cometmq.spark.read import batches  # noqa: E402
from cometmq.spark.read.decode import Records  # noqa: E402
from cometmq.spark.schema import COLUMNS, arrow_schema  # noqa: E402

FILE_SIZE = 1 << 16
# Times as integers, because Python's datetime has a smaller range.
PLAIN = pa.schema(
    [
        (field.name, pa.int64() if pa.types.is_timestamp(field.type) else field.type)
        for field in arrow_schema(COLUMNS)
    ]
)


def rows_of(records):
    assert records.is_whole.all()
    batch = records.batch("broker-a", COLUMNS)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(COLUMNS)
    return pa.table(batch).cast(PLAIN).to_pylist()


def wanted(records):
    return [row_of(unpack_record(record, check_crc=False), "broker-a") for record in records]


def log_file(records, base=0, size=FILE_SIZE):
    data = b"".join(records)
    room = size - len(data)
    assert room >= 8
    return data + struct.pack(">ii", room, BLANK_MAGIC) + bytes(room - 8)


def walked(data, base=0):
    found, damage = [], []
    for part in LogFrames(data, base).walk():
        damage.append(part) if isinstance(part, Damage) else found.extend(rows_of(part))
    return found, damage


@settings(max_examples=150, deadline=None)
@given(some.lists(messages(), min_size=1, max_size=12))
def test_columns_match_single_record_decoder(stored):
    records = packed(stored)
    assert rows_of(records_of_pull(b"".join(records))) == wanted(records)


@settings(max_examples=50, deadline=None)
@given(some.lists(messages(), min_size=1, max_size=12), some.integers(1, 2**50))
def test_log_file_is_read_up_to_its_blank_record(stored, base):
    records = packed(stored, base)
    assert walked(log_file(records, base), base) == (wanted(records), [])


@settings(max_examples=50, deadline=None)
@given(some.lists(messages(), min_size=2, max_size=8), some.data())
def test_torn_record_ends_a_log_file(stored, data):
    records = packed(stored)
    whole = b"".join(records)
    cut = data.draw(some.integers(len(whole) - len(records[-1]), len(whole) - 1))
    torn = whole[:cut] + bytes(FILE_SIZE - cut)
    found, damage = walked(torn)
    assert damage == []
    lost = torn[: len(whole)] != whole  # false if the removed bytes were zeros
    assert found == wanted(records[: len(records) - lost])


@settings(max_examples=50, deadline=None)
@given(some.lists(messages(), min_size=3, max_size=8), some.data())
def test_damage_in_the_middle_is_reported_and_skipped(stored, data):
    records = packed(stored)
    broken = data.draw(some.integers(0, len(records) - 2))
    at = len(b"".join(records[:broken]))
    whole = bytearray(log_file(records))
    whole[at + 4 : at + 8] = b"\xff\xff\xff\xff"
    found, damage = walked(bytes(whole))
    assert found == wanted(records[:broken] + records[broken + 1 :])
    assert damage == [Damage(at, len(records[broken]))]


def test_half_and_rollback_records_are_not_delivered():
    stored = [StoredMessage(topic="t", sys_flag=flag, body=b"x") for flag in (0, 4, 8, 12)]
    records = records_of_pull(b"".join(packed(stored)))
    assert records.is_delivered.tolist() == [True, False, True, False]


def test_wrong_body_crc_is_detected():
    good = packed([StoredMessage(topic="t", body=b"abc")])[0]
    bad = bytearray(good)
    bad[88] ^= 1
    assert records_of_pull(good + bytes(bad)).has_right_crc.tolist() == [True, False]


@pytest.mark.parametrize("seed", range(200))
def test_flipped_byte_is_rejected_or_read_within_bounds(seed):
    chance = random.Random(seed)
    records = packed([StoredMessage(topic="t", body=b"abc", properties_text="a\x01b")] * 3)
    data = bytearray(b"".join(records))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    try:
        found = records_of_pull(bytes(data))
    except Malformed:
        return
    assert len(found) == 3
    for record, row in zip(found.starts.tolist(), rows_of_any(found), strict=True):
        assert row == row_of(unpack_record(data, record, check_crc=False), "broker-a")


def rows_of_any(records):
    try:
        return rows_of(records)
    except (Malformed, pa.ArrowInvalid):
        pytest.skip("the flipped byte set the compressed flag or broke the topic")


def test_invalid_utf8_is_replaced_like_in_java():
    good = pack_record(StoredMessage(topic="t", body=b"x", properties_text="TAGS\x01aXb\x02k\x01v"))
    bad = good.replace(b"aXb", b"a\xffb")
    rows = rows_of(records_of_pull(good + bad))
    assert [row["tags"] for row in rows] == ["aXb", "a�b"]
    assert rows[1]["properties"] == [("TAGS", "a�b"), ("k", "v")]


def test_properties_are_matched_by_their_whole_name():
    text = "SPARK_ROW\x01mine\x02SPARX_ROW\x01other"
    records = records_of_pull(pack_record(StoredMessage(topic="t", properties_text=text)))
    assert records.properties.column("SPARK_ROW").to_pylist() == ["mine"]


def test_timestamps_outside_the_range_are_null():
    stored = [StoredMessage(topic="t", body=b"x", born_ms=ms) for ms in (2**63 - 1, -(2**63))]
    batch = records_of_pull(b"".join(packed(stored))).batch("b", ["bornTimestamp"])
    assert batch.to_pylist() == [{"bornTimestamp": None}] * 2


@pytest.mark.parametrize("cut", [1, 3, 50, 90])
def test_truncated_pull_body_is_rejected(cut):
    with pytest.raises(Malformed):
        records_of_pull(packed([StoredMessage(topic="t", body=b"abc")])[0][:-cut])


def test_records_written_by_apache(apache_records=Path(__file__).parent.parent / "golden"):
    import json

    golden = json.loads((apache_records / "records.json").read_text())["entries"]
    records = [bytes.fromhex(each["hex"]) for each in golden if "topic" in each["value"]]
    assert rows_of(records_of_pull(b"".join(records))) == wanted(records)


def test_records_at_arbitrary_positions():
    records = packed([StoredMessage(topic="t", body=bytes([n]) * n) for n in range(1, 9)])
    data = b"".join(records)
    places = records_of_pull(data).starts[[5, 0, 3]]
    chosen = Records(pa.py_buffer(data), places)
    assert rows_of(chosen) == wanted([records[5], records[0], records[3]])


@settings(max_examples=60, deadline=None)
@given(some.lists(some.tuples(some.integers(1, 60), some.integers(0, 40)), max_size=6))
def test_records_of_equal_and_different_sizes_are_found(runs):
    bodies = [bytes([65 + size % 26]) * size for count, size in runs for _ in range(count)]
    records = packed([StoredMessage(topic="t", body=body) for body in bodies])
    found = records_of_pull(b"".join(records))
    assert found.starts.tolist() == [len(b"".join(records[:at])) for at in range(len(records))]


@given(some.lists(messages(), max_size=12), some.integers(1, 400))
def test_inflated_bodies_per_batch_are_bounded(stored, size_max):
    records = packed(stored)
    found = records_of_pull(b"".join(records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_INFLATED_SIZE", size_max)
        made = list(batches.batches(found, "broker-a", COLUMNS))
    rows = [row for batch in made for row in pa.table(batch).cast(PLAIN).to_pylist()]
    assert rows == wanted(records)
    at = 0
    for batch in made:
        packed_rows = np.flatnonzero(found.is_compressed[at : at + batch.num_rows])
        sizes = [len(batch["body"][row].as_py()) for row in packed_rows.tolist()]
        assert sum(sizes) <= size_max or len(sizes) == 1
        at += batch.num_rows


def test_large_inflated_bodies_are_split_into_batches():
    body, flag = compress(bytes(10 << 20)), int(MessageFlag.COMPRESSED)
    (one,) = packed([StoredMessage(topic="t", sys_flag=flag, body=body)])
    made = [batch.num_rows for batch in batches.batches(records_of_pull(one * 8), "b", ("body",))]
    assert made == [3, 3, 2]
    assert len(list(batches.batches(records_of_pull(one * 8), "b", ("queueId",)))) == 1
