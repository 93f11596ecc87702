"""One index file: its bytes, its chains, and what a cut or damage leaves of it.

What is to hold is in docs/disk.md, section 3.
"""

import struct
from array import array
from itertools import islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.disk import RealDisk
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.key_hash import key_hash, key_hashes
from cometmq.store.index.bulk_hash import bulk_hashes
from cometmq.store.index.index_file import ENTRY, HEADER, SLOT, IndexFile, file_size
from searches import examples

SLOTS, ENTRIES = 7, 10
NOON_MS = 1_700_000_000_000
EVER = (0, 2**62)
LEAST = "2.(4*&3"  # hashed with T# to -2^31

# Two files of Apache RocketMQ 4.9.7, written by its IndexFile.putKey: keys T#k0 to T#k3 in turn, at
# offsets 100, 150, 200 and so on, 700 ms apart from NOON_MS on; then 100 s more before the second.
APACHE_FIRST = bytes.fromhex(
    "0000018bcfe568000000018bcfe57de0000000000000006400000000000001f4000000040000000a"
    "00000007000000080000000000000000000000000000000900000006000000000000000000000000"
    "00000000000000000026bfb4000000000000006400000000000000000026bfb50000000000000096"
    "00000000000000000026bfb600000000000000c800000001000000000026bfb700000000000000fa"
    "00000002000000000026bfb4000000000000012c00000002000000010026bfb5000000000000015e"
    "00000003000000020026bfb6000000000000019000000004000000030026bfb700000000000001c2"
    "00000004000000040026bfb400000000000001f40000000500000005"
)
APACHE_SECOND = bytes.fromhex(
    "0000018bcfe7073c0000018bcfe7122c000000000000022600000000000002ee0000000400000006"
    "00000002000000030000000000000000000000000000000400000005000000000000000000000000"
    "00000000000000000026bfb5000000000000022600000064000000000026bfb60000000000000258"
    "00000000000000000026bfb7000000000000028a00000001000000000026bfb400000000000002bc"
    "00000002000000000026bfb500000000000002ee0000000200000001000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000"
)


@pytest.fixture
def file(tmp_path):
    region = RealDisk().create(tmp_path / "file", file_size(SLOTS, ENTRIES))
    yield IndexFile(region, SLOTS, ENTRIES)
    region.close()


def put(file, key, physical_offset, stored_ms, topic="T"):
    put_hashes(file, key_hashes(topic, [key]), physical_offset, stored_ms)


def put_hashes(file, hashes, physical_offset, stored_ms):
    count = len(hashes)
    columns = array("q", [physical_offset] * count), array("q", [stored_ms] * count)
    file.put(array("I", hashes), *columns)


def query(file, key, begin_ms=0, end_ms=2**62, count_max=100, topic="T"):
    return list(islice(file.query(key_hash(topic, key), begin_ms, end_ms), count_max))


def fill_as_apache(file, first, last, gap_ms=0):
    for turn in range(first, last):
        put(file, f"k{turn % 4}", 100 + 50 * turn, NOON_MS + 700 * turn + gap_ms)


# Hashes


def java_hash(topic, key):
    value = abs(hash_code(f"{topic}#{key}"))
    return 0 if value == 2**31 else value


TEXTS = st.text(st.characters(codec=None), max_size=40)
KEYS = st.one_of(
    TEXTS,
    st.text("0123456789ABCDEF", min_size=32, max_size=32),
    st.text("0123456789abcdefNOZ-", min_size=30, max_size=34),
    st.text(st.characters(max_codepoint=127), min_size=120, max_size=300),
)


@settings(deadline=None, max_examples=examples(500))
@given(TEXTS, st.lists(KEYS, max_size=4))
@example("T", [""])
@example("T", ["", "a"])
@example("T", ["a" * 127, "b" * 128])
@example("T", ["\ud83d", "\ude00"])
@example("T", ["0" * 32, "N" * 32])
@example("T", ["O" * 32, "/" * 32])
@example("T\ud83d", ["\ude00"])
def test_hashes_are_those_of_java(topic, keys):
    wanted = [java_hash(topic, key) for key in keys]
    assert [key_hash(topic, key) for key in keys] == wanted
    for _ in range(2):  # the second time, the topic is known
        assert list(key_hashes(topic, keys)) == wanted
        assert list(bulk_hashes([topic], [keys])) == wanted


def test_the_hash_without_absolute_value_is_0():
    assert hash_code("T#" + LEAST) == -(2**31)
    assert key_hash("T", LEAST) == 0
    assert list(key_hashes("T", [LEAST, LEAST])) == [0, 0]
    unique = "7F00000100002A139A55123400000001"
    hashes = bulk_hashes(["T", "T", "T"], [[LEAST, LEAST], [unique, LEAST], []])
    assert list(hashes) == [0, 0, key_hash("T", unique), 0]


def test_remembered_topics_are_bounded():
    for number in range(3000):
        assert key_hash(f"topic{number}", "key") == java_hash(f"topic{number}", "key")


# Bytes


def test_the_first_file_is_apaches_byte_for_byte(file):
    fill_as_apache(file, 0, 9)
    assert bytes(file.region.memory) == APACHE_FIRST


def test_a_second_file_differs_from_apaches_in_the_time_of_its_first_entry(file):
    """Theirs says 100 s since the begin of the file before; they read it as since its own."""
    fill_as_apache(file, 9, 14, gap_ms=100_000)
    theirs = bytearray(APACHE_SECOND)
    at = HEADER.size + SLOTS * SLOT.size + ENTRY.size + 12
    assert struct.unpack_from(">i", theirs, at) == (100,)
    struct.pack_into(">i", theirs, at, 0)
    assert bytes(file.region.memory) == theirs


def test_apaches_files_are_read(file):
    file.region.memory[:] = APACHE_SECOND
    theirs = IndexFile(file.region, SLOTS, ENTRIES)
    assert (theirs.count, theirs.begin_offset, theirs.end_offset) == (6, 550, 750)
    assert theirs.is_possible() and not theirs.is_torn()
    assert query(theirs, "k1") == [750, 550]
    first_ms = NOON_MS + 9 * 700 + 100_000
    assert query(theirs, "k1", first_ms, first_ms) == [550], "in spite of its odd time"


def test_every_byte_of_a_pair(file):
    """In a new file: two entries that share no slot, and a header."""
    first, second = hashes = key_hashes("T", ["k0", "k1"])
    put_hashes(file, hashes, 4096, NOON_MS)
    slots = [0] * SLOTS
    slots[first % SLOTS], slots[second % SLOTS] = 1, 2
    expected = struct.pack(">qqqqii", NOON_MS, NOON_MS, 4096, 4096, 2, 3)
    expected += struct.pack(f">{SLOTS}i", *slots)
    expected += bytes(20)
    expected += struct.pack(">iqii", first, 4096, 0, 0)
    expected += struct.pack(">iqii", second, 4096, 0, 0)
    assert bytes(file.region.memory) == expected.ljust(file_size(SLOTS, ENTRIES), b"\0")


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4), max_size=8),
    st.integers(1, 5),
)
def test_entries_are_written_as_java_writes_them(tmp_path_factory, messages, slots):
    """Message by message or all in one call: as the plainest writer, Java's, does key by key."""
    folder = tmp_path_factory.mktemp("pairs")
    regions = [RealDisk().create(folder / name, file_size(slots, 40)) for name in ("one", "all")]
    file, in_one_call = (IndexFile(region, slots, 40) for region in regions)
    entries = array("I"), array("q"), array("q")
    plain = bytearray(file_size(slots, 40))
    number, used = 1, 0
    for turn, hashes in enumerate(messages):
        put_hashes(file, hashes, 1000 + turn, NOON_MS + turn * 1500)
        for value in hashes:
            for column, cell in zip(
                entries, (value, 1000 + turn, NOON_MS + turn * 1500), strict=True
            ):
                column.append(cell)
        for value in hashes:
            slot_at = 40 + value % slots * 4
            (before,) = struct.unpack_from(">i", plain, slot_at)
            used += before == 0
            entry_at = 40 + 4 * slots + 20 * number
            struct.pack_into(
                ">iqii", plain, entry_at, value, 1000 + turn, turn * 1500 // 1000, before
            )
            struct.pack_into(">i", plain, slot_at, number)
            number += 1
        end_ms, end_offset = NOON_MS + turn * 1500, 1000 + turn
        struct.pack_into(">qqqqii", plain, 0, NOON_MS, end_ms, 1000, end_offset, used, number)
    if messages:
        in_one_call.put(*entries)
    for region in regions:
        assert bytes(region.memory) == plain
        region.close()


# Room and times


def test_full_is_full(file):
    assert file.room == 9
    fill_as_apache(file, 0, 8)
    before = bytes(file.region.memory)
    with pytest.raises(AssertionError):  # room for one is not room for two
        put_hashes(file, [1, 2], 5000, NOON_MS)
    assert bytes(file.region.memory) == before
    put_hashes(file, [1], 5000, NOON_MS)
    assert file.room == 0


def test_times_have_a_second_to_spare(file):
    put(file, "first", 1, NOON_MS)
    put(file, "a", 2, NOON_MS + 5_400)
    assert query(file, "a", NOON_MS + 5_400, NOON_MS + 5_400) == [2]
    assert query(file, "a", NOON_MS + 5_999, NOON_MS + 9_000) == [2], "it may have been then"
    assert query(file, "a", NOON_MS + 6_000, NOON_MS + 9_000) == []
    assert query(file, "a", NOON_MS, NOON_MS + 5_000) == [2]
    assert query(file, "a", NOON_MS, NOON_MS + 4_999) == []


def test_a_clock_set_back_hides_nothing(file):
    put(file, "a", 1, NOON_MS)
    put(file, "a", 2, NOON_MS - 30_000)
    put(file, "a", 3, NOON_MS + 20_000)
    put(file, "a", 4, NOON_MS - 10_000)
    assert query(file, "a", NOON_MS - 30_000, NOON_MS - 30_000)[-2:] == [2, 1]
    assert 3 in query(file, "a", NOON_MS + 20_000, NOON_MS + 20_000)


def test_seconds_are_clamped(file):
    put(file, "a", 1, 0)
    put(file, "b", 2, 2**31 * 1000 * 5)
    at = HEADER.size + SLOTS * SLOT.size + 2 * ENTRY.size
    assert ENTRY.unpack_from(file.region.memory, at)[2] == 2**31 - 1


def test_no_more_than_asked(file):
    for turn in range(9):
        put(file, "a", turn, NOON_MS)
    assert query(file, "a", count_max=3) == [8, 7, 6]
    assert query(file, "a", count_max=0) == []


def test_the_end_is_past_the_checkpoint_as_soon_as_anything_is_put(file):
    put(file, "a", 1, NOON_MS)
    file.settle(NOON_MS)
    assert not file.is_dirty() and file.end_ms == NOON_MS
    put(file, "b", 2, NOON_MS)
    assert file.is_dirty() and file.end_ms == NOON_MS + 1
    assert HEADER.unpack_from(file.region.memory)[1] == NOON_MS + 1


# Damage


def test_a_circle_ends(file):
    hashes = [3, 3, 3]
    put_hashes(file, hashes, 1, NOON_MS)
    put_hashes(file, [3], 2, NOON_MS)
    at = HEADER.size + SLOTS * SLOT.size + ENTRY.size
    struct.pack_into(">I", file.region.memory, at + 16, 4)  # the oldest points to the newest
    assert list(file.query(3, *EVER)) == [2, 1]


def test_slots_ahead_of_the_header_are_seen(file):
    """As a power cut may leave them: the header's page is older than the others."""
    put(file, "a", 1, NOON_MS)
    old_header = bytes(file.region.memory[: HEADER.size])
    put(file, "b", 2, NOON_MS)
    assert not file.is_torn()
    file.region.memory[: HEADER.size] = old_header
    assert IndexFile(file.region, SLOTS, ENTRIES).is_torn()


@settings(deadline=None, max_examples=examples(200))
@given(damage=st.binary(min_size=file_size(3, 6), max_size=file_size(3, 6)))
def test_noise_is_no_crash(tmp_path_factory, damage):
    region = RealDisk().create(tmp_path_factory.mktemp("noise") / "file", file_size(3, 6))
    region.memory[:] = damage
    file = IndexFile(region, 3, 6)
    file.is_possible()
    file.is_torn()
    if file.count <= 6:
        for value in range(3):
            list(file.query(value, *EVER))
    region.close()


@pytest.mark.parametrize(
    "header",
    [
        (NOON_MS, NOON_MS, 0, 0, 0, 11),
        (NOON_MS, NOON_MS, 0, 0, 3, 2),
        (NOON_MS, NOON_MS, 2, 1, 1, 2),
        (NOON_MS, NOON_MS, -1, 1, 1, 2),
        (-1, NOON_MS, 0, 1, 1, 2),
        (0, -1, 0, 1, 1, 2),
        (0, 0, 0, 0, 2**32 - 1, 1),
        (0, 0, 0, 0, 0, 2**32 - 1),
    ],
)
def test_impossible_headers(file, header):
    HEADER.pack_into(file.region.memory, 0, *header)
    assert not IndexFile(file.region, SLOTS, ENTRIES).is_possible()
