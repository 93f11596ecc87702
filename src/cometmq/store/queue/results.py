"""Results of reads and puts."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec


class GetStatus(Enum):
    """The outcome of a read, with the names of Apache RocketMQ."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    # Never returned, neither here nor by Apache, where a read creates a missing queue and returns
    # NO_MESSAGE_IN_QUEUE. Listed because it is one of Apache's names.
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    # Not in Apache: the units are damaged and are being rebuilt from the log. Read again from the
    # same offset; the store announces the queue when they are rebuilt.
    REBUILDING = "REBUILDING"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Records as views of the log, adjacent ones joined. The next read starts at `next_offset`."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    views: tuple[memoryview, ...] = ()
    count: int = 0
    from_slave: bool = False  # far behind: a slave should serve the next read


class Stored(msgspec.Struct, frozen=True, gc=False):
    """The place of a stored message. It is durable when the log is durable up to `end`."""

    physical_offset: int
    queue_offset: int
    size: int
    end: int


class StoredMessages(msgspec.Struct, frozen=True):
    """The places of several adjacent messages, by columns."""

    physical_offsets: Sequence[int]
    queue_offsets: Sequence[int]
    sizes: Sequence[int]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, at: int) -> Stored:
        offset, size = self.physical_offsets[at], self.sizes[at]
        return Stored(offset, self.queue_offsets[at], size, offset + size)

    def __iter__(self) -> Iterator[Stored]:
        return map(self.__getitem__, range(len(self)))


class UnitVerdict(Enum):
    """The result of comparing a unit with the log."""

    GOOD = "the record names this queue offset"
    GONE = "the record left the log"
    DAMAGED = "the unit is right or marks a missing record; the record is damaged"
    WRONG = "the record belongs to another queue offset, or cannot be identified"
    STRAY = "it does not point into the log"

    @property
    def is_wrong(self) -> bool:
        """The unit must be rebuilt."""
        return self is UnitVerdict.WRONG or self is UnitVerdict.STRAY


class Unit(NamedTuple):
    """The entry of a message in a queue: its place in the log, its size, its code."""

    physical_offset: int
    size: int
    code: int
