"""Reads of a queue through a filter.

A costly filter compares much for each message, so its reads are cut into slices of a few
milliseconds. The slices of all pulls take turns, one per turn of the loop.
"""

import asyncio

from cometmq.broker.filtering.filters import Wanted
from cometmq.protocol.headers.pull import PullHeader
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.reader import UNITS_SCANNED_MAX
from cometmq.store.queue.results import Found, GetStatus


class FilteredReads:
    """Reads what a pull asks for, from an offset on."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._turns = asyncio.Lock()

    def read(self, ask: PullHeader, offset: int, wanted: Wanted) -> Found:
        """One read, or one slice if the filter is costly."""
        return self._store.get(
            ask.topic,
            ask.queue_id,
            offset,
            ask.max_msg_nums,
            wanted.tag,
            wanted.record,
            wanted.units_a_turn,
        )

    async def read_in_turn(self, ask: PullHeader, offset: int, wanted: Wanted) -> Found:
        """As `read`; a slice of a costly filter waits for its turn."""
        if not wanted.is_costly:
            return self.read(ask, offset, wanted)
        async with self._turns:
            await asyncio.sleep(0)
            return self.read(ask, offset, wanted)

    async def read_slices(self, ask: PullHeader, wanted: Wanted) -> Found:
        """Scan as many messages through a costly filter as a single read of a cheap one scans."""
        offset, end = ask.queue_offset, ask.queue_offset + UNITS_SCANNED_MAX
        found = await self.read_in_turn(ask, offset, wanted)
        while found.status is GetStatus.NO_MATCHED_MESSAGE and found.next_offset < end:
            assert found.next_offset > offset, "a slice scans at least one unit"
            offset = found.next_offset
            later = await self.read_in_turn(ask, offset, wanted)
            if later.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
                break  # the end of the queue: the scanned messages are the answer
            found = later
        return found

    async def skip_unwanted(
        self, ask: PullHeader, offset: int, wanted: Wanted
    ) -> tuple[Found, int]:
        """Read on past messages that do not match; the last read, and the offset it started at."""
        found = await self.read_in_turn(ask, offset, wanted)
        while found.status is GetStatus.NO_MATCHED_MESSAGE:
            offset = found.next_offset
            await asyncio.sleep(0)  # there may be many unwanted messages
            found = await self.read_in_turn(ask, offset, wanted)
        return found, offset
