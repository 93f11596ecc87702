"""Queries by key: candidates from the index, checked against the records in the log."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice

from cometmq.errors import BadState
from cometmq.protocol.records.message import StoredMessage
from cometmq.store.index.index import Index
from cometmq.store.index.tag_and_keys import marks_of


class KeySearch:
    """Finds the messages of one store that have a key."""

    def __init__(
        self, index: Index | None, record: Callable[[int], StoredMessage | None], answers_max: int
    ) -> None:
        self._index = index
        self._record = record
        self.answers_max = answers_max  # a query never returns more

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int | None
    ) -> list[StoredMessage]:
        """Matching messages, newest first. Costs 0.5 us per index entry in the key's slot."""
        matches = self._matches(topic, key, begin_ms, end_ms)
        return list(islice((one for one in matches if one is not None), self._limit(count_max)))

    async def search(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int | None
    ) -> list[StoredMessage]:
        """The same as `query`, but it yields to the loop while it walks a long chain."""
        limit = self._limit(count_max)
        found: list[StoredMessage] = []
        for message in self._matches(topic, key, begin_ms, end_ms):
            if message is None:
                await asyncio.sleep(0)
            else:
                found.append(message)
                if len(found) == limit:
                    break
        return found

    def _limit(self, count_max: int | None) -> int:
        return self.answers_max if count_max is None else min(count_max, self.answers_max)

    def _matches(
        self, topic: str, key: str, begin_ms: int, end_ms: int
    ) -> Iterator[StoredMessage | None]:
        """Matching messages, and None after each long stretch without one.

        Hashes collide and index times are in seconds, so the record decides.
        """
        if self._index is None:
            raise BadState("messageIndexEnable is false: messages cannot be found by key")
        for offset in self._index.query(topic, key, begin_ms, end_ms):
            message = None if offset is None else self._record(offset)
            if offset is None or (
                message is not None
                and message.topic == topic
                and begin_ms <= message.stored_ms <= end_ms
                and key in marks_of(message.properties_text).keys
            ):
                yield message
