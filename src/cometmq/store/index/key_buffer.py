"""Keys of messages that are not yet in the index, held until there are many of them.

A thousand messages in one call take a third of what they take one by one. What is held is in no
file yet: a crash costs nothing, because recovery indexes everything that is in the log after the
last checkpoint, and a checkpoint is written only after the buffer.
"""

from array import array
from collections.abc import Sequence

from cometmq.store.index.bulk_hash import bulk_hashes, repeated

Entries = tuple["array[int]", "array[int]", "array[int]"]  # hashes, places, stored ms


class KeyBuffer:
    """Topic, keys, place in the log and stored time of each message, by columns."""

    __slots__ = ("keys", "places", "times_ms", "topics")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.keys: list[Sequence[str]] = []
        self.places: list[int] = []
        self.times_ms: list[int] = []

    def add(
        self,
        topics: Sequence[str],
        keys: Sequence[Sequence[str]],
        places: Sequence[int],
        stored_ms: int,
    ) -> None:
        """Messages that were stored in the same call; places grow."""
        self.topics += topics
        self.keys += keys
        self.places += places
        self.times_ms += [stored_ms] * len(places)

    def entries(self) -> Entries:
        """Empty the buffer; an index entry for each key."""
        counts = list(map(len, self.keys))
        hashes = bulk_hashes(self.topics, self.keys)
        entries = hashes, repeated(self.places, counts), repeated(self.times_ms, counts)
        for column in (self.topics, self.keys, self.places, self.times_ms):
            column.clear()
        return entries
