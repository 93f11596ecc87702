"""What is put in bulk is, byte for byte, what is put one by one: with numpy and without.

What is to hold is in docs/disk.md, section 3.
"""

import sys
from array import array
from random import Random

import pytest

from cometmq.disk import RealDisk
from cometmq.protocol.records.key_hash import key_hashes
from cometmq.store.index.bulk_hash import bulk_hashes
from cometmq.store.index.index import Index
from cometmq.testing.clock import ManualClock
from store.rig import NOON_MS, index_keys

SLOTS, ENTRIES = 50, 300


def messages(seed, count=900):
    """Keys, place and time of each; clocks step back, keys repeat, some messages have many."""
    chance = Random(seed)
    place = 0
    for _ in range(count):
        place += chance.randrange(91, 500)
        keys = [f"k{chance.randrange(200)}" for _ in range(chance.choice((1, 1, 2, 2, 2, 9)))]
        yield keys, place, NOON_MS + chance.randrange(-5000, 100_000_000)


def opened(folder):
    index = Index(folder, SLOTS, ENTRIES, RealDisk(), ManualClock(NOON_MS))
    index.load(False, 2**62, 0, print)
    return index


def content(folder):
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def put_in_parts(index, chance, sent):
    """In parts of all sizes, some of them put again, as a walk that begins earlier does."""
    at = 0
    while at < len(sent):
        part = sent[max(0, at - chance.randrange(20)) : at + chance.choice((1, 5, 100, 700))]
        hashes, places, times_ms = array("I"), array("q"), array("q")
        known = [one for one in part if one[1] > index.end_offset]
        again = [one for one in part if one[1] < index.end_offset]
        for keys, place, stored_ms in again + known:
            hashes.extend(key_hashes("T", keys))
            places.extend([place] * len(keys))
            times_ms.extend([stored_ms] * len(keys))
        index.put(hashes, places, times_ms)
        at = sent.index(part[-1]) + 1


@pytest.mark.parametrize("has_numpy", [True, False], ids=["numpy", "plain"])
@pytest.mark.parametrize("seed", range(8))
def test_bulk_and_one_by_one_are_the_same(tmp_path, monkeypatch, seed, has_numpy):
    if has_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.setitem(sys.modules, "numpy", None)
    sent = list(messages(seed))
    in_bulk = opened(tmp_path / "b")
    monkeypatch.setattr("cometmq.store.index.index.HELD_MAX", 0)
    one_by_one = opened(tmp_path / "a")
    for keys, place, stored_ms in sent:
        index_keys(one_by_one, "T", keys, place, stored_ms)
    put_in_parts(in_bulk, Random(seed), sent)
    assert len(one_by_one.files) > 5
    assert one_by_one.end_offset == in_bulk.end_offset
    assert content(tmp_path / "a") == content(tmp_path / "b")
    # And the state in memory is that of the files: what is put next is the same too.
    for index in (one_by_one, in_bulk):
        index_keys(index, "T", ["last", "k1"], sent[-1][1] + 100, NOON_MS)
        index.settle()
    assert content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize("alphabet", ["0123456789ABCDEF", "az#%~ ", "\x7fé漢😀a"])
def test_hashes_in_bulk(alphabet):
    pytest.importorskip("numpy")
    chance = Random(alphabet)
    topics, keys = [], []
    for _ in range(500):
        topics.append(chance.choice(("T", "%RETRY%group", "a-topic-of-some-length")))
        lengths = chance.choices((1, 7, 32, 32, 33, 300), k=chance.randrange(4))
        keys.append(["".join(chance.choices(alphabet, k=length)) for length in lengths])
    keys.append(["polygenelubricants"])  # with no topic before it, the one hash without a sign
    topics.append("")
    expected = [
        one for topic, some in zip(topics, keys, strict=True) for one in key_hashes(topic, some)
    ]
    assert list(bulk_hashes(topics, keys)) == expected


@pytest.mark.parametrize("widths", [(32, 13), (32,), (5, 32, 1), (), (300, 0)])
def test_hashes_of_keys_that_are_alike(widths):
    pytest.importorskip("numpy")
    chance = Random(len(widths))
    keys = [["".join(chance.choices("0AZaz~", k=width)) for width in widths] for _ in range(100)]
    topics = [chance.choice(("T", "U")) for _ in keys]
    pairs = zip(topics, keys, strict=True)
    expected = [one for topic, some in pairs for one in key_hashes(topic, some)]
    assert list(bulk_hashes(topics, keys)) == expected


@pytest.mark.parametrize("counts", [(2, 1, 3), (1, 0, 2), (0, 1), (1, 3)])
def test_hashes_of_keys_of_one_length_but_not_as_many(counts):
    pytest.importorskip("numpy")
    keys = [
        [f"{message}-{number}" for number in range(count)] for message, count in enumerate(counts)
    ]
    topics = [f"T{message}" for message in range(len(counts))]
    pairs = zip(topics, keys, strict=True)
    expected = [one for topic, some in pairs for one in key_hashes(topic, some)]
    assert list(bulk_hashes(topics, keys)) == expected


def test_no_hashes_in_bulk():
    assert list(bulk_hashes([], [])) == []
    assert list(bulk_hashes(["T"], [[]])) == []
