"""The slots of an index file, made again from its entries: each holds the newest of its chain.

Entries are linked to older ones only, so those that are kept need no change. With numpy, 20 million
take half a second; without it, 0.2 us each.
"""

import struct
from array import array
from sys import byteorder

ENTRY_SIZE = 20
_HASH = struct.Struct(">i16x")
assert _HASH.size == ENTRY_SIZE


def slots_of(entries: memoryview, slot_count: int) -> bytes:
    """The slots, as a file has them, for entries that begin with the unused one."""
    try:
        import numpy
    except ImportError:
        return _slots_by_hand(entries, slot_count)
    hashes = numpy.frombuffer(entries, dtype=">i4").reshape(-1, ENTRY_SIZE // 4)[1:, 0]
    slots = numpy.zeros(slot_count, dtype=">i4")
    slots[hashes % slot_count] = numpy.arange(1, len(hashes) + 1)  # of equal places, the last stays
    return slots.tobytes()


def slots_free(slots: bytes) -> int:
    """How many hold nothing."""
    numbers = array("i", slots)
    return numbers.count(0)


def _slots_by_hand(entries: memoryview, slot_count: int) -> bytes:
    slots = array("i", bytes(4 * slot_count))
    for number, (key_hash,) in enumerate(_HASH.iter_unpack(entries[ENTRY_SIZE:]), 1):
        slots[key_hash % slot_count] = number
    if byteorder == "little":
        slots.byteswap()
    return slots.tobytes()
