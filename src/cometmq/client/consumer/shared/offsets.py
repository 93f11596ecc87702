"""Consumed offsets: kept by the broker for a group, or in a local file for a broadcast reader."""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from cometmq.client.consumer.shared.offset_file import FOLDER, OffsetFile, offsets_path
from cometmq.client.consumer.shared.offset_table import OffsetTable
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

_TELL_AGAIN_MS = 30_000  # a broker that is killed may have lost what it was told last


class Offsets(Protocol):
    """What is to be consumed next, by queue. Advanced in memory, kept from time to time."""

    async def load(self) -> None:
        """Read what was kept, if that is to be done at once."""

    async def kept(self, queue: MessageQueue) -> int | None:
        """As it was last kept; None if it never was."""

    def known(self, queue: MessageQueue) -> int | None:
        """As it stands in memory; None if this member has consumed nothing of it."""

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """This one is to be consumed next; with `only_up`, unless a higher one is."""

    async def keep(self, queues: Iterable[MessageQueue]) -> None:
        """Have those of these queues kept. What fails is logged, and kept the next time."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Have this one kept now; it raises if that fails."""

    async def leave(self, queue: MessageQueue) -> None:
        """The queue is another's from now on: keep its offset, and forget it."""

    def forget(self, queue: MessageQueue) -> None:
        """The queue may have been another's for a while: what is known of it is old."""


class BrokerOffsets:
    """Of a group, whose members share queues: kept by the broker that has the queue."""

    def __init__(self, session: Session, group: str) -> None:
        self._clock = session.clock
        self._queries = Queries(session)
        self._group = group
        self._offsets = OffsetTable()
        self._kept: dict[MessageQueue, tuple[int, int]] = {}  # what, and when, monotonic ms
        self._leads: dict[tuple[str, str], asyncio.Event] = {}  # by topic and broker

    async def load(self) -> None:
        """Each is asked for when its queue is given to us."""

    async def kept(self, queue: MessageQueue) -> int | None:
        """As the broker has it."""
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
        """Tell the brokers what has changed; what has not, from time to time."""
        await asyncio.gather(*(self._keep(queue) for queue in queues))

    async def leave(self, queue: MessageQueue) -> None:
        """Tell its broker, and forget it."""
        await self._keep(queue)
        self.forget(queue)

    def forget(self, queue: MessageQueue) -> None:
        """In memory."""
        self._offsets.pop(queue, None)
        self._kept.pop(queue, None)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Have the broker keep this one now; raises if it does not."""
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
        """Of those that are told together, one goes alone: of a group that is new to a topic, as
        all are to a broker that was killed early, Apache's loses one of two that come at once.
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
        is_fresh = self._clock.monotonic_ms() - kept_ms < _TELL_AGAIN_MS
        if offset is None or (offset == kept and is_fresh):
            return
        try:
            await self.commit(queue, offset)
        except (PeerError, WorldError) as error:
            log.warning("offset %d of %s is not kept yet: %s", offset, queue, error)


class LocalOffsets:
    """Of a broadcasting reader, who reads every queue alone: kept in a file."""

    def __init__(self, file: OffsetFile, disk: Disk) -> None:
        self._file = file
        self._disk = disk
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """The file; BadState if it is damaged."""
        await asyncio.wrap_future(self._disk.begin(self._file.load))

    async def kept(self, queue: MessageQueue) -> int | None:
        """As the file had it."""
        return self._file.get(queue)

    def known(self, queue: MessageQueue) -> int | None:
        """As it stands in memory."""
        return self._file.get(queue)

    def advance(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """In memory."""
        self._file.advance(queue, offset, only_up=only_up)

    async def keep(self, queues: Iterable[MessageQueue]) -> None:
        """Write the file, if something has changed."""
        try:
            await self._save(list(queues))
        except OSError as error:
            log.warning("offsets are not kept yet: %s", error)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Write the file; WorldError if that fails."""
        self._file.advance(queue, offset)
        try:
            await self._save([queue])
        except OSError as error:
            raise WorldError(f"offset {offset} of {queue} is not kept: {error}") from error

    async def leave(self, queue: MessageQueue) -> None:
        """It stays ours in the file: whoever has this file goes on from there."""
        await self.keep([queue])

    def forget(self, queue: MessageQueue) -> None:
        """Nothing: nobody else reads by this file."""

    async def _save(self, queues: list[MessageQueue]) -> None:
        async with self._saving:
            await asyncio.wrap_future(self._disk.begin(lambda: self._file.save(queues)))


def offsets_for(session: Session, group: str, model: MessageModel, folder: Path | None) -> Offsets:
    """Where a member of this group keeps them; the folder, None for Java's, is of files."""
    if model is MessageModel.CLUSTERING:
        return BrokerOffsets(session, group)
    disk = RealDisk()
    path = offsets_path(folder or Path.home() / FOLDER, session.client_id, group)
    return LocalOffsets(OffsetFile(disk, path), disk)
