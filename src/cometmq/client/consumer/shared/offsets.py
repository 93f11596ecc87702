"""Consumer offsets: stored by the broker for a group, or in a local file when broadcasting."""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from cometmq.client.consumer.shared.offset_file import FOLDER, OffsetFile, offsets_path
from cometmq.client.consumer.shared.offset_table import OffsetTable
from cometmq.client.session.connections import failure_level
from cometmq.client.session.queries import Queries
from cometmq.client.session.session import Session
from cometmq.disk import RealDisk
from cometmq.errors import PeerError, Refused, WorldError
from cometmq.protocol.bodies.heartbeat import MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.offset import OffsetReplyHeader, QueryOffsetHeader, UpdateOffsetHeader
from cometmq.seams import Disk

log = logging.getLogger(__name__)

_SEND_AGAIN_MS = 30_000  # a broker that was killed may have lost the last commits


class Offsets(Protocol):
    """By queue, the offset to consume next: advanced in memory, stored at intervals."""

    async def load(self) -> None:
        """Load all stored offsets, if they are in a file."""

    async def kept(self, queue: MessageQueue) -> int | None:
        """The stored offset; None if none was ever stored."""

    def known(self, queue: MessageQueue) -> int | None:
        """The offset in memory; None if this member has consumed nothing of the queue."""

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Set the offset in memory; with `only_up`, only if it is higher."""

    async def keep(self, queues: Iterable[MessageQueue]) -> None:
        """Store the offsets of these queues. Failures are logged, and repeated the next time."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store this offset now. Raises PeerError or WorldError if that fails."""

    async def leave(self, queue: MessageQueue) -> None:
        """Store the offset of a queue that is given up, and forget it."""

    def forget(self, queue: MessageQueue) -> None:
        """Forget the offset: another member may have consumed the queue meanwhile."""


class BrokerOffsets:
    """Offsets of a group, stored by the brokers of the queues."""

    def __init__(self, session: Session, group: str) -> None:
        self._clock = session.clock
        self._queries = Queries(session)
        self._group = group
        self._offsets = OffsetTable()
        self._kept: dict[MessageQueue, tuple[int, int]] = {}  # last commit: offset, monotonic ms
        self._leads: dict[tuple[str, str], asyncio.Event] = {}  # by topic and broker

    async def load(self) -> None:
        """Nothing to do: each offset is queried when its queue is assigned."""

    async def kept(self, queue: MessageQueue) -> int | None:
        """Query the broker."""
        header = QueryOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        try:
            response = await self._queries.ask_any(queue, code, header)
        except Refused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return read_header(response, OffsetReplyHeader).offset

    def known(self, queue: MessageQueue) -> int | None:
        """As it stands in memory."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """In memory."""
        self._offsets.advance(queue, offset, only_up=only_up)

    async def keep(self, queues: Iterable[MessageQueue]) -> None:
        """Commit offsets that have changed, and the others every 30 seconds."""
        await asyncio.gather(*(self._keep(queue) for queue in queues))

    async def leave(self, queue: MessageQueue) -> None:
        """Commit the offset, and forget it."""
        await self._keep(queue)
        self.forget(queue)

    def forget(self, queue: MessageQueue) -> None:
        """In memory."""
        self._offsets.pop(queue, None)
        self._kept.pop(queue, None)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit this offset now."""
        header = UpdateOffsetHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        place = queue.topic, queue.broker_name
        lead = self._leads.get(place)
        if lead is None:
            await self._lead(place, queue, header)
        else:
            await lead.wait()
            await self._tell(queue, header)
        self._kept[queue] = offset, self._clock.monotonic_ms()

    async def _lead(
        self, place: tuple[str, str], queue: MessageQueue, header: UpdateOffsetHeader
    ) -> None:
        """Send the first of several concurrent commits alone.

        Apache's broker loses one of two concurrent commits of a group that is new to a topic, as
        all groups are after the broker was killed early.
        """
        lead = self._leads[place] = asyncio.Event()
        try:
            await self._tell(queue, header)
        finally:
            del self._leads[place]
            lead.set()

    async def _tell(self, queue: MessageQueue, header: UpdateOffsetHeader) -> None:
        await self._queries.ask_any(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def _keep(self, queue: MessageQueue) -> None:
        offset = self._offsets.get(queue)
        kept, kept_ms = self._kept.get(queue, (None, 0))
        is_fresh = self._clock.monotonic_ms() - kept_ms < _SEND_AGAIN_MS
        if offset is None or (offset == kept and is_fresh):
            return
        try:
            await self.commit(queue, offset)
        except (PeerError, WorldError) as error:
            level = failure_level(error)
            log.log(level, "offset %d of %s is not committed yet: %s", offset, queue, error)


class LocalOffsets:
    """Offsets of a broadcasting consumer, stored in a file."""

    def __init__(self, file: OffsetFile, disk: Disk) -> None:
        self._file = file
        self._disk = disk
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """Load the file. Raises BadState if it is damaged."""
        await asyncio.wrap_future(self._disk.begin(self._file.load))

    async def kept(self, queue: MessageQueue) -> int | None:
        """The offset in the file."""
        return self._file.get(queue)

    def known(self, queue: MessageQueue) -> int | None:
        """As it stands in memory."""
        return self._file.get(queue)

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """In memory."""
        self._file.advance(queue, offset, only_up=only_up)

    async def keep(self, queues: Iterable[MessageQueue]) -> None:
        """Write the file if an offset has changed."""
        try:
            await self._save(list(queues))
        except OSError as error:
            log.warning("offsets are not stored yet: %s", error)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Write the file. Raises WorldError if that fails."""
        self._file.advance(queue, offset)
        try:
            await self._save([queue])
        except OSError as error:
            raise WorldError(f"offset {offset} of {queue} is not stored: {error}") from error

    async def leave(self, queue: MessageQueue) -> None:
        """Write the file: the next process with this file continues there."""
        await self.keep([queue])

    def forget(self, queue: MessageQueue) -> None:
        """Nothing to do: no other process uses this file."""

    async def _save(self, queues: list[MessageQueue]) -> None:
        async with self._saving:
            await asyncio.wrap_future(self._disk.begin(lambda: self._file.save(queues)))


def offsets_for(session: Session, group: str, model: MessageModel, folder: Path | None) -> Offsets:
    """The offsets of a member of this group; `folder` is for files, None for Java's."""
    if model is MessageModel.CLUSTERING:
        return BrokerOffsets(session, group)
    disk = RealDisk()
    path = offsets_path(folder or Path.home() / FOLDER, session.client_id, group)
    return LocalOffsets(OffsetFile(disk, path), disk)
