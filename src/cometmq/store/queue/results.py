"""What a read of a queue found."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec


class GetStatus(Enum):
    """Why a read ended as it did."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    # Never told, neither here nor by the original, where a look makes the queue that it looks for:
    # one that is not there is NO_MESSAGE_IN_QUEUE. It stands here as one of the original's words.
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    # Ours alone: the units are damaged and are being rebuilt from the log; read again from the
    # same offset. The store announces the queue when they are rebuilt.
    REBUILDING = "REBUILDING"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Records as views of the log, neighbours joined; `next_offset` is where to read on."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    views: tuple[memoryview, ...] = ()
    count: int = 0
    from_slave: bool = False  # the next read is better asked of a slave: it is far behind


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Where a put message is. `end` is the offset that must be durable for it to be."""

    physical_offset: int
    queue_offset: int
    size: int
    end: int


class StoredMessages(msgspec.Struct, frozen=True):
    """Where several are that stand side by side, by columns."""

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
    """What is known of a unit."""

    GOOD = "the record says that it belongs there"
    GONE = "the record left the log"
    DAMAGED = "the unit is right, or says that there is no record; the record is damaged"
    WRONG = "the unit is not of this place of the queue, or nothing shows that it is"
    STRAY = "it points to no place of the log"

    @property
    def is_wrong(self) -> bool:
        """The unit is to be rebuilt."""
        return self is UnitVerdict.WRONG or self is UnitVerdict.STRAY


class Unit(NamedTuple):
    """What a queue holds of a message: its place in the log, its size, its code."""

    physical_offset: int
    size: int
    code: int
