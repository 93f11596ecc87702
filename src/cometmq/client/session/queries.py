"""Requests about queues, sent to the broker that has the queue."""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.client.session.session import Session
from cometmq.errors import Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.headers.offset import (
    OffsetReplyHeader,
    QueueHeader,
    SearchOffsetHeader,
    StoreTimeReplyHeader,
)


@dataclass(frozen=True, slots=True)
class Queries:
    """Requests to the master of a queue, whose route is fetched if it is unknown.

    Topics of queues have their namespace.
    """

    session: Session

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of the queue gets."""
        return await self._offset(RequestCode.GET_MAX_OFFSET, queue, _header(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest offset whose message still exists."""
        return await self._offset(RequestCode.GET_MIN_OFFSET, queue, _header(queue))

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the message stored nearest to a time; 0 for an empty queue."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
        return await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, header)

    async def earliest_stored_ms(self, queue: MessageQueue) -> int:
        """Return when the oldest message was stored, in ms since 1970; -1 for an empty queue."""
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        response = await self.ask_master(queue, code, _header(queue))
        return read_header(response, StoreTimeReplyHeader).timestamp

    async def master_of(self, queue: MessageQueue) -> str:
        """Return the address of the queue's master. Raises NoRoute if it is unknown."""
        if self.session.routes.address_of(queue.broker_name) is None:
            await self.session.routes.fetch(queue.topic)
        return self.session.master_of(queue.broker_name)

    async def ask_master(self, queue: MessageQueue, code: RequestCode, header: Header) -> Command:
        """Send a request to the queue's master; retry once if the broker has moved."""
        return await self._ask(queue, code, header, self.session.master_of)

    async def ask_any(self, queue: MessageQueue, code: RequestCode, header: Header) -> Command:
        """Send a request like `ask_master`, to a slave while there is no master."""
        return await self._ask(queue, code, header, self._any_of)

    async def _ask(
        self, queue: MessageQueue, code: RequestCode, header: Header, of: Callable[[str], str]
    ) -> Command:
        if self.session.routes.address_of(queue.broker_name) is None:
            await self.session.routes.fetch(queue.topic)
        address = of(queue.broker_name)
        try:
            return await self.session.ask(address, code, header)
        except Unreachable:
            await self.session.routes.fetch(queue.topic)
            moved_to = of(queue.broker_name)
            if moved_to == address:
                raise
        return await self.session.ask(moved_to, code, header)

    def _any_of(self, broker_name: str) -> str:
        address = self.session.routes.any_address_of(broker_name)
        return self.session.master_of(broker_name) if address is None else self.session.vip(address)

    async def _offset(self, code: RequestCode, queue: MessageQueue, header: Header) -> int:
        return read_header(await self.ask_master(queue, code, header), OffsetReplyHeader).offset


def _header(queue: MessageQueue) -> QueueHeader:
    return QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
