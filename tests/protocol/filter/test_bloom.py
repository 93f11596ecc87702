"""Bloom filters of groups."""

import pytest

from cometmq.protocol.filter.bloom import BloomFilter, murmur3
from protocol.golden import each


@each("filters", "bloom/")
def test_the_bits_of_apache(entry):
    value, answer = entry["value"], entry["value"]["answer"]
    bloom = BloomFilter(value["rate"], value["expected"])
    assert bloom.bits_max == answer["bits"]
    bits = bytearray(bloom.bits_max // 8)
    for text, positions in zip(value["texts"], answer["positions"], strict=True):
        assert list(bloom.positions(text)) == positions
        bloom.set_bits(bits, positions)
    assert bits.hex() == answer["all"]


def test_the_defaults_make_14_bytes():
    bloom = BloomFilter(20, 32)
    assert bloom.bits_max == 112
    assert len(bloom.positions("group#topic")) == 3


def test_what_is_in_matches_and_the_rest_mostly_not():
    bloom = BloomFilter(20, 32)
    bits = bytearray(14)
    within = [bloom.positions(f"group_{number}#topic") for number in range(32)]
    without = [bloom.positions(f"other_{number}#topic") for number in range(1000)]
    assert not any(bloom.matches(bits, positions) for positions in within)
    for positions in within:
        bloom.set_bits(bits, positions)
    assert all(bloom.matches(bytes(bits), positions) for positions in within)
    assert 100 < sum(bloom.matches(bits, positions) for positions in without) < 350


def test_bits_of_another_size_rule_nothing_out():
    bloom = BloomFilter(20, 32)
    assert bloom.matches(b"", bloom.positions("x"))
    assert bloom.matches(bytes(15), bloom.positions("x"))
    with pytest.raises(AssertionError):
        bloom.set_bits(bytearray(15), (1,))


def test_half_a_character_is_a_question_mark():
    bloom = BloomFilter(20, 32)
    assert bloom.positions("a\ud83d") == bloom.positions("a?")


def test_the_hash_of_nothing():
    assert murmur3(b"") == 0
