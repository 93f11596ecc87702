"""One file of the key index: a hash table from keys to the physical offsets of messages.

    | header 40 | slot 4 ... | entry 20 ... |

    header  | begin, ms 8 | end, ms 8 | begin offset 8 | end offset 8 | slots used 4 | count 4 |
    slot    | number of the newest entry of this slot, 0 if none |
    entry   | key hash 4 | physical offset 8 | s since begin 4 | number of the entry before it 4 |

A key's slot is its hash modulo the number of slots; its entries are a chain from the newest to the
oldest, which it shares with the other keys of the slot. Numbers start at 1, and `count` is the next
one: the place of entry 0 is never used. A file that was never written to has a count of 0.

Many entries are written in one call: slots, entries, then the header. After a kill or a power cut
in between, slots may be ahead of the header: see `is_torn`. The message of `end offset` may lack
some of its keys then, so it may be put again.
"""

import struct
from array import array
from collections.abc import Callable, Iterator
from sys import byteorder

from cometmq.seams import Region
from cometmq.store.index.index_slots import chained, slots_free, slots_of

HEADER = struct.Struct(
    ">"
    "q"  #  0 begin, ms: when the message of the first entry was stored
    "q"  #  8 end, ms: of the last
    "q"  # 16 begin offset: where the message of the first entry is in the log
    "q"  # 24 end offset: of the last
    "I"  # 32 slots used
    "I"  # 36 count
)
SLOT = struct.Struct(">I")
ENTRY = struct.Struct(
    ">"
    "I"  #  0 key hash
    "q"  #  4 physical offset
    "I"  # 12 seconds since begin
    "I"  # 16 number of the entry before it in the slot
)
assert (HEADER.size, SLOT.size, ENTRY.size) == (40, 4, 20)
_CLOCK_STEP_MS = 60_000  # a clock set back by more than this hides messages from queries by time
ENTRIES_A_TURN = 2_000  # of the loop: 1 ms

_NEWEST = struct.Struct(">qII")  # the part of the header that every message changes: end offset on
_NEWEST_AT = 24
_TIMES = struct.Struct(">qqq")  # the part before it, that changes with the millisecond
assert _TIMES.size == _NEWEST_AT and _NEWEST_AT + _NEWEST.size == HEADER.size
_unpack_slot = SLOT.unpack_from

# Has the message at this offset of the log a key of this hash?
HasKey = Callable[[int, int], bool]


def believe(physical_offset: int, key_hash: int) -> bool:
    """Where nobody can be asked."""
    return True


def file_size(slots: int, entries: int) -> int:
    """Of a file for so many slots and entries, the unused one included."""
    return HEADER.size + slots * SLOT.size + entries * ENTRY.size


class IndexFile:
    """A mapped file. Its header is kept here too, where it is cheaper to read."""

    __slots__ = (
        "_entries",
        "_entries_at",
        "_memory",
        "_safe_ms",
        "_slots",
        "_slots_used",
        "_synced_count",
        "begin_ms",
        "begin_offset",
        "count",
        "end_ms",
        "end_offset",
        "region",
    )

    def __init__(self, region: Region, slots: int, entries: int) -> None:
        assert len(region.memory) == file_size(slots, entries)
        header: tuple[int, ...] = HEADER.unpack_from(region.memory)
        self.begin_ms, self.end_ms, self.begin_offset, self.end_offset = header[:4]
        self._slots_used = header[4]
        self.count = header[5] or 1
        self.region = region
        self._memory = region.memory
        self._slots = slots
        self._entries = entries
        self._entries_at = HEADER.size + slots * SLOT.size
        self._synced_count = 0
        self._safe_ms = 0

    @property
    def room(self) -> int:
        """How many entries may yet be put."""
        return self._entries - self.count

    # Writing

    def put(self, hashes: "array[int]", places: "array[int]", times_ms: "array[int]") -> None:
        """Entries in the order of their messages in the log; there must be room for all of them."""
        first, count = self.count, len(hashes)
        assert 0 < count <= self.room
        # Before the first slot: Apache keeps a file that a kill left with slots ahead of its count,
        # unless its end is later than the time in the checkpoint.
        if first == 1:
            self.begin_ms, self.begin_offset = times_ms[0], places[0]
        self._put_end(times_ms[0])
        slots = self._memory[HEADER.size : self._entries_at]
        packed, slots_taken = chained(slots, first, hashes, places, times_ms, self.begin_ms)
        at = self._entries_at + first * ENTRY.size
        self._memory[at : at + len(packed)] = packed
        self._put_end(times_ms[-1])
        self.count = first + count
        self.end_offset = places[-1]
        self._slots_used += slots_taken
        _NEWEST.pack_into(self._memory, _NEWEST_AT, self.end_offset, self._slots_used, self.count)

    def _put_end(self, stored_ms: int) -> None:
        self.end_ms = max(stored_ms, self._safe_ms + 1)
        _TIMES.pack_into(self._memory, 0, self.begin_ms, self.end_ms, self.begin_offset)

    def is_dirty(self) -> bool:
        """If anything was put since the file was settled."""
        return self.count != self._synced_count

    def settle(self, safe_ms: int, synced: bool = True) -> None:
        """What is in it gets synced now, if it is not yet, and a checkpoint will say `safe_ms`.

        The header's end will be later than that as soon as anything is put, even if it was stored
        in the same millisecond or by a clock set back: `load` goes by the end.
        """
        self._synced_count = self.count if synced else 0
        self._safe_ms = safe_ms

    # Reading

    def query(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Offsets of messages stored from `begin_ms` to `end_ms`, or a second off, newest first.

        None each time that `ENTRIES_A_TURN` were looked at: a chain may be as long as the file, and
        whoever asks on a loop lets others have their turn. The file may be closed meanwhile.
        """
        if begin_ms > self.end_ms + _CLOCK_STEP_MS or end_ms < self.begin_ms - _CLOCK_STEP_MS:
            return
        memory, entries_at, file_begin_ms = self._memory, self._entries_at, self.begin_ms
        ends_before, last, steps = self.count, -1, 0
        (number,) = _unpack_slot(memory, HEADER.size + key_hash % self._slots * SLOT.size)
        # Numbers fall along a chain; one that does not is damage, and could make a circle.
        while 0 < number < ends_before:
            entry_hash, physical_offset, seconds, before = ENTRY.unpack_from(
                memory, entries_at + number * ENTRY.size
            )
            if number == 1:
                # Its message gave the file its begin. In the original, the first entry of all
                # files but the first counts its seconds from the end of the file before.
                seconds = 0
            from_ms = file_begin_ms + seconds * 1000
            until_ms = from_ms + 999
            if until_ms + _CLOCK_STEP_MS < begin_ms:
                return
            # With 0 seconds it may have been stored before the begin, if the clock was set back.
            in_time = begin_ms <= until_ms and (from_ms <= end_ms or seconds == 0)
            if entry_hash == key_hash and in_time and physical_offset != last:
                last = physical_offset
                yield physical_offset
            ends_before, number = number, before
            steps += 1
            if steps % ENTRIES_A_TURN == 0:
                yield None

    # Trust

    def is_possible(self) -> bool:
        """If the header can be that of a file of this size."""
        return bool(
            self.count <= self._entries
            and self._slots_used <= self.count  # not `_slots`: the original never checks it
            and 0 <= self.begin_offset <= self.end_offset
            and self.begin_ms >= 0
            and self.end_ms >= 0
        )

    def is_torn(self) -> bool:
        """If a power cut took the header back to before some of the slots. 0.1 s at full size."""
        if self.room == 0:
            return False  # no slot can be ahead
        slots = array("I", bytes(self._memory[HEADER.size : self._entries_at]))
        assert slots.itemsize == SLOT.size
        if byteorder == "little":
            slots.byteswap()
        return bool(max(slots) >= self.count)

    def count_below(self, physical_offset: int, has_key: HasKey = believe) -> int:
        """How many entries, with the unused one, are of messages before an offset of the log.

        By bisection: the others are of later messages. Those that a power cut took are zeros, or
        what stood there before, or lack a part, where one sector ends in them: their offset may
        then be any, but their message knows nothing of their key.
        """
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            if self._is_below(middle, physical_offset, has_key):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_below(self, number: int, physical_offset: int, has_key: HasKey) -> bool:
        key_hash, offset, seconds, _ = self._entry(number)
        is_there = key_hash or offset or seconds or number == 1
        return bool(
            is_there
            and self._entry(number - 1)[1] <= offset < physical_offset
            and has_key(offset, key_hash)
        )

    def cut(self, count: int) -> None:
        """Keep so many entries, the unused one included, and make the slots again from them."""
        assert 1 < count <= self.count
        _, self.end_offset, seconds, _ = self._entry(count - 1)
        self.end_ms = self.begin_ms + seconds * 1000
        # Or it would stand where a power cut keeps a new entry from the disk.
        gone = self._entries_at + count * ENTRY.size, self._entries_at + self.count * ENTRY.size
        self._memory[slice(*gone)] = bytes(gone[1] - gone[0])
        self.count = count
        kept = self._memory[self._entries_at : self._entries_at + count * ENTRY.size]
        slots = slots_of(kept, self._slots)
        self._memory[HEADER.size : self._entries_at] = slots
        self._slots_used = self._slots - slots_free(slots)
        _TIMES.pack_into(self._memory, 0, self.begin_ms, self.end_ms, self.begin_offset)
        _NEWEST.pack_into(self._memory, _NEWEST_AT, self.end_offset, self._slots_used, count)
        self._synced_count = 0

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        at = self._entries_at + number * ENTRY.size
        entry: tuple[int, int, int, int] = ENTRY.unpack_from(self._memory, at)
        return entry

    def close(self) -> None:
        """Unmap it."""
        self._memory = memoryview(b"")
        self.region.close()
