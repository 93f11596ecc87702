"""Keys of messages on their way into the index, held until there are many of them.

With numpy, a thousand messages at once take a third of what they take one by one. What is held is
in no file yet: a crash costs nothing more, since recovery puts the keys of all that is in the log
after the last checkpoint, and a checkpoint comes after what it vouches for.
"""

from array import array
from collections.abc import Sequence
from itertools import chain, repeat

from cometmq.store.index.bulk_hash import bulk_hashes

Entries = tuple["array[int]", "array[int]", "array[int]"]  # of each: hash, place, stored ms


class HeldKeys:
    """Of each message its topic, its keys, its place in the log and when it was stored."""

    __slots__ = ("keys", "places", "times_ms", "topics")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.keys: list[Sequence[str]] = []
        self.places: list[int] = []
        self.times_ms: list[int] = []

    def add(self, topic: str, keys: Sequence[str], place: int, stored_ms: int) -> None:
        """One more; places grow."""
        self.topics.append(topic)
        self.keys.append(keys)
        self.places.append(place)
        self.times_ms.append(stored_ms)

    def add_all(
        self,
        topics: Sequence[str],
        keys: Sequence[Sequence[str]],
        places: Sequence[int],
        stored_ms: int,
    ) -> None:
        """Several of one moment, by columns."""
        self.topics += topics
        self.keys += keys
        self.places += places
        self.times_ms += repeat(stored_ms, len(places))

    def taken(self) -> Entries:
        """As entries of the index; nothing is held any more."""
        counts = list(map(len, self.keys))
        places = chain.from_iterable(map(repeat, self.places, counts))
        times_ms = chain.from_iterable(map(repeat, self.times_ms, counts))
        hashes = bulk_hashes(self.topics, self.keys)
        entries = hashes, array("q", places), array("q", times_ms)
        for column in (self.topics, self.keys, self.places, self.times_ms):
            column.clear()
        return entries
