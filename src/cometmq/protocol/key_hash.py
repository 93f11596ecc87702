"""The hash by which a message is found by key: of `topic#key`, as Java hashes it.

Java's hash is a polynomial in 31 over the characters. Its value for a text is that of the front,
times a power of 31, plus that of the rest: so the front, `topic#`, is hashed once per topic. For
the rest, `int(digits, 31)` sums the polynomial in C. A character code is no digit, but it is two,
31 x high + low, and the sums of both are the sum of all. 0.5 us for a key of 8 characters and
0.7 us for one of 32, where a loop takes 0.6 and 1.9 (bench/store.py).
"""

from collections.abc import Iterable

from cometmq.protocol import java

_MASK = 0xFFFFFFFF
_DIGITS = b"0123456789abcdefghijklmnopqrstu"  # of base 31, as `int` reads them
assert len(_DIGITS) == 31
_LOW = bytes(_DIGITS[code % 31] for code in range(256))
_HIGH = bytes(_DIGITS[code // 31] for code in range(256))

_LENGTH_END = 128  # keys from this length on are hashed in parts
_TOPICS_MAX = 1024  # whose front is remembered

# A unique key is 32 characters, 0 to 9 and A to F. Their codes less that of "0" are digits of base
# 31 as they stand: one sum does, which saves 0.3 us.
_UNIQUE_LENGTH = 32
_NOT_UNIQUE = ord("!")
_UNIQUE = bytes(
    _DIGITS[code - ord("0")] if 0 <= code - ord("0") < 31 else _NOT_UNIQUE for code in range(256)
)
_UNIQUE_REST = ord("0") * sum(31**power for power in range(_UNIQUE_LENGTH))


def key_hash(topic: str, key: str) -> int:
    """0 to 2^31 - 1."""
    return key_hashes(topic, (key,))[0]


def key_hashes(topic: str, keys: Iterable[str]) -> list[int]:
    """Of each key of one message; one call, because calls are a good part of the cost."""
    fronts, unique_front = _fronts[topic]
    hashes = []
    for key in keys:
        length = len(key)
        if not 0 < length < _LENGTH_END or not key.isascii():
            value = _sum_slowly(fronts[0], topic, key)
        else:
            codes = key.encode()
            if length == _UNIQUE_LENGTH and _NOT_UNIQUE not in (digits := codes.translate(_UNIQUE)):
                value = unique_front + int(digits, 31) & _MASK
            else:  # not a call of `_polynomial`: 0.1 us
                high, low = codes.translate(_HIGH), codes.translate(_LOW)
                value = fronts[length] + 31 * int(high, 31) + int(low, 31) & _MASK
        # The absolute value of a signed number, and 0 for -2^31, which has none in Java.
        hashes.append(value if value < 0x80000000 else -value & 0x7FFFFFFF)
    return hashes


def _polynomial(codes: bytes) -> int:
    return 31 * int(codes.translate(_HIGH), 31) + int(codes.translate(_LOW), 31)


def _sum_slowly(value: int, topic: str, key: str) -> int:
    """By parts of a bounded length if it is ASCII, else unit by unit."""
    if not key.isascii():
        return java.hash_code(f"{topic}#{key}") & _MASK
    for start in range(0, len(key), _LENGTH_END):
        codes = key[start : start + _LENGTH_END].encode()
        value = (value * 31 ** len(codes) + _polynomial(codes)) & _MASK
    return value


class _Fronts(dict[str, tuple[list[int], int]]):
    """By topic: what `topic#` adds to the sum of a key, by the key's length; of a unique key."""

    def __missing__(self, topic: str) -> tuple[list[int], int]:
        if len(self) >= _TOPICS_MAX:
            self.clear()
        state = java.hash_code(topic + "#") & _MASK
        fronts = [state * 31**length & _MASK for length in range(_LENGTH_END)]
        self[topic] = fronts, (fronts[_UNIQUE_LENGTH] + _UNIQUE_REST) & _MASK
        return self[topic]


_fronts = _Fronts()
