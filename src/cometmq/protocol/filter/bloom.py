"""The bloom filter of the groups whose SQL92 condition matches a message.

When a message is stored, each condition of its topic is evaluated once, and the bits of matching
groups are set in the extension of the consume queue. A pull skips messages that lack a bit of its
group. Bit n is bit n % 8 of byte n // 8, counted from the lowest.
"""

import math
from collections.abc import Sequence

_MASK = 2**64 - 1
_FACTOR_1, _FACTOR_2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK = 16


class BloomFilter:
    """A filter for `expected` texts, with at most `error_rate_percent` false positives."""

    __slots__ = ("bits_max", "count")

    def __init__(self, error_rate_percent: int, expected: int) -> None:
        assert 1 <= error_rate_percent < 100, "a rate in percent"
        assert expected >= 1, "of something"
        rate = error_rate_percent / 100.0
        self.count = math.ceil(_log(0.5, rate))
        bits = math.ceil(expected * _log(2, 1 / rate) * _log(2, math.e))
        self.bits_max = (bits + 7) // 8 * 8

    def positions(self, text: str) -> tuple[int, ...]:
        """The bits of a text (`group#topic`); a bit can occur twice."""
        # A lone surrogate becomes a question mark, as in Java.
        value = murmur3(text.encode("utf-8", "replace"))
        low, high = value & 0xFFFFFFFF, value >> 32
        return tuple(
            _folded(low + number * high) % self.bits_max for number in range(1, self.count + 1)
        )

    def set_bits(self, bits: bytearray, positions: Sequence[int]) -> None:
        """Set the bits of a text."""
        assert len(bits) * 8 == self.bits_max, "bits of this filter"
        for position in positions:
            bits[position >> 3] |= 1 << (position & 7)

    def matches(self, bits: bytes | bytearray | memoryview, positions: Sequence[int]) -> bool:
        """False if the text is certainly missing; True if the bits have another size."""
        if len(bits) * 8 != self.bits_max:
            return True
        return all(bits[position >> 3] >> (position & 7) & 1 for position in positions)


def _log(base: float, value: float) -> float:
    return math.log(value) / math.log(base)


def _folded(value: int) -> int:
    """The low 32 bits as a signed number, inverted if it is negative."""
    value &= 0xFFFFFFFF
    return value if value < 1 << 31 else value ^ 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """The first 64 bits of MurmurHash3 x64 128, with seed 0."""
    first = second = 0
    whole = len(data) - len(data) % _BLOCK
    for at in range(0, whole, _BLOCK):
        first ^= _mixed_1(int.from_bytes(data[at : at + 8], "little"))
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mixed_2(int.from_bytes(data[at + 8 : at + 16], "little"))
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    first ^= _mixed_1(int.from_bytes(data[whole : whole + 8], "little"))
    second ^= _mixed_2(int.from_bytes(data[whole + 8 :], "little"))
    first ^= len(data)
    second ^= len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    return _finished(first) + _finished(second) & _MASK


def _mixed_1(word: int) -> int:
    return _rotated(word * _FACTOR_1 & _MASK, 31) * _FACTOR_2 & _MASK


def _mixed_2(word: int) -> int:
    return _rotated(word * _FACTOR_2 & _MASK, 33) * _FACTOR_1 & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
