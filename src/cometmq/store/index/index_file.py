"""One file of the key index: a hash table from keys to the physical offsets of messages.

    | header 40 | slot 4 ... | entry 20 ... |

    header  | begin, ms 8 | end, ms 8 | begin offset 8 | end offset 8 | slots used 4 | count 4 |
    slot    | number of the newest entry of this slot, 0 if none |
    entry   | key hash 4 | physical offset 8 | s since begin 4 | number of the entry before it 4 |

A key's slot is its hash modulo the number of slots; its entries are a chain from the newest to the
oldest, which it shares with the other keys of the slot. Numbers start at 1, and `count` is the next
one: the place of entry 0 is never used. A file that was never written to has a count of 0.

A message's entries are written first, then the header, then the slots. A process that is killed in
between leaves a file whose chains are whole; it may lack the message of `end offset`, which is why
that one may be put again. Of many messages the header is written last, and slots may be ahead of
it: as after a power cut, see `is_torn`.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from sys import byteorder

from cometmq.seams import Region
from cometmq.store.index.index_slots import SECONDS_MAX, chained, slots_free, slots_of

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
_PAIR = struct.Struct(">IqIIIqII")
assert _PAIR.size == 2 * ENTRY.size
_pack_newest = _NEWEST.pack_into
_pack_slot = SLOT.pack_into
_unpack_slot = SLOT.unpack_from
_pack_entry = ENTRY.pack_into
_pack_pair = _PAIR.pack_into

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
        "_moment_ms",
        "_safe_ms",
        "_seconds",
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
        self._moment_ms: int | None = None  # when the last message was stored, and
        self._seconds = 0  # since the begin: the next message is often of the same millisecond

    @property
    def room(self) -> int:
        """How many entries may yet be put."""
        return self._entries - self.count

    # Writing

    def put(self, hashes: Sequence[int], physical_offset: int, stored_ms: int) -> bool:
        """The keys of one message; False if there is no room for all of them.

        A message before `end_offset` is known already.
        """
        if physical_offset < self.end_offset:
            return True
        number = self.count
        key_count = len(hashes)
        if number + key_count > self._entries:
            return False
        if stored_ms != self._moment_ms:
            self._put_times(physical_offset, stored_ms)
        # As in `_put_each`, for one key or two, as most messages have: numbers for names, locals
        # for fields and one call for both entries save 0.5 us.
        memory = self._memory
        if key_count == 2:
            first, second = hashes
            slots = self._slots
            first_at = 40 + first % slots * 4
            second_at = 40 + second % slots * 4
            (before_first,) = _unpack_slot(memory, first_at)
            (before_second,) = _unpack_slot(memory, second_at)
            if first_at == second_at:
                before_second = number
            at = self._entries_at + number * 20
            seconds = self._seconds
            _pack_pair(
                memory,
                at,
                first,
                physical_offset,
                seconds,
                before_first,
                second,
                physical_offset,
                seconds,
                before_second,
            )
            if not before_first:
                self._slots_used += 1
            if not before_second:
                self._slots_used += 1
            self.count = count = number + 2
            self.end_offset = physical_offset
            _pack_newest(memory, 24, physical_offset, self._slots_used, count)
            _pack_slot(memory, first_at, number)
            _pack_slot(memory, second_at, number + 1)
        elif key_count == 1:
            (first,) = hashes
            first_at = 40 + first % self._slots * 4
            (before_first,) = _unpack_slot(memory, first_at)
            at = self._entries_at + number * 20
            _pack_entry(memory, at, first, physical_offset, self._seconds, before_first)
            if not before_first:
                self._slots_used += 1
            self.count = number + 1
            self.end_offset = physical_offset
            _pack_newest(memory, 24, physical_offset, self._slots_used, number + 1)
            _pack_slot(memory, first_at, number)
        else:
            self._put_each(hashes, physical_offset)
        return True

    def put_all(
        self, hashes: Sequence[Sequence[int]], places: Sequence[int], stored_ms: int
    ) -> bool:
        """The keys of several new messages of one moment; False if there is no room for all.

        The header comes last: a process that is killed before leaves slots that are ahead of it,
        which `is_torn` tells.
        """
        count = self.count + sum(map(len, hashes))
        if count > self._entries:
            return False
        if count == self.count:
            return True
        last = max(compress(places, hashes))  # that has a key
        if stored_ms != self._moment_ms:
            self._put_times(next(compress(places, hashes)), stored_ms)
        memory, slots, seconds = self._memory, self._slots, self._seconds
        number = self.count
        at = self._entries_at + number * 20
        for of_message, place in zip(hashes, places, strict=True):
            for key_hash in of_message:
                slot_at = 40 + key_hash % slots * 4
                (before,) = _unpack_slot(memory, slot_at)
                _pack_entry(memory, at, key_hash, place, seconds, before)
                _pack_slot(memory, slot_at, number)
                if not before:
                    self._slots_used += 1
                number += 1
                at += 20
        self.count = count
        self.end_offset = last
        _pack_newest(memory, 24, last, self._slots_used, count)
        return True

    def put_many(self, hashes: "array[int]", places: "array[int]", times_ms: "array[int]") -> int:
        """As `put` of many messages, given by entries; how many entries that were, from the first.

        0 also if it cannot be done in bulk.
        """
        known = bisect_left(places, self.end_offset)
        end = min(len(hashes), known + self.room)
        while end > known and end < len(hashes) and places[end] == places[end - 1]:
            end -= 1  # not a part of a message
        if end == known:
            return known
        # Before the first slot: the original keeps a file that a kill left with slots ahead of its
        # count, unless the end is later than a checkpoint says.
        self._put_times(places[known], times_ms[known])
        entries = chained(
            self._memory[HEADER.size : self._entries_at],
            self.count,
            hashes[known:end],
            places[known:end],
            times_ms[known:end],
            self.begin_ms,
        )
        if entries is None:
            return known
        packed, slots_taken = entries
        at = self._entries_at + self.count * ENTRY.size
        self._memory[at : at + len(packed)] = packed
        self.count += end - known
        self._put_times(places[end - 1], times_ms[end - 1])
        self._slots_used += slots_taken
        self.end_offset = places[end - 1]
        _pack_newest(self._memory, _NEWEST_AT, self.end_offset, self._slots_used, self.count)
        return end

    def _put_each(self, hashes: Sequence[int], physical_offset: int) -> None:
        memory = self._memory
        newest: dict[int, int] = {}  # number of an entry, by position of its slot
        for number, key_hash in enumerate(hashes, self.count):
            slot_at = HEADER.size + key_hash % self._slots * SLOT.size
            before = newest.get(slot_at) or _unpack_slot(memory, slot_at)[0]
            at = self._entries_at + number * ENTRY.size
            _pack_entry(memory, at, key_hash, physical_offset, self._seconds, before)
            self._slots_used += not before
            newest[slot_at] = number
        self.count += len(hashes)
        self.end_offset = physical_offset
        _pack_newest(memory, _NEWEST_AT, physical_offset, self._slots_used, self.count)
        for slot_at, number in newest.items():
            _pack_slot(memory, slot_at, number)

    def _put_times(self, physical_offset: int, stored_ms: int) -> None:
        if self.count == 1:
            self.begin_ms = stored_ms
            self.begin_offset = physical_offset
        self.end_ms = max(stored_ms, self._safe_ms + 1)
        self._moment_ms = stored_ms
        self._seconds = min(max(0, (stored_ms - self.begin_ms) // 1000), SECONDS_MAX)
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
        self._moment_ms = None

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
        _pack_newest(self._memory, _NEWEST_AT, self.end_offset, self._slots_used, count)
        self._synced_count = 0
        self._moment_ms = None

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        at = self._entries_at + number * ENTRY.size
        entry: tuple[int, int, int, int] = ENTRY.unpack_from(self._memory, at)
        return entry

    def close(self) -> None:
        """Unmap it."""
        self._memory = memoryview(b"")
        self.region.close()
