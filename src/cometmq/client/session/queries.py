"""Questions about queues that any client may ask of a broker."""

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
    """Asked of the master that has the queue, whose route is fetched if need be.

    Queues are as the wire has them.
    """

    session: Session

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of the queue gets."""
        return await self._offset(RequestCode.GET_MAX_OFFSET, queue, _header(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """The lowest offset whose message is still there."""
        return await self._offset(RequestCode.GET_MIN_OFFSET, queue, _header(queue))

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the message that was stored nearest to this time; 0 of an empty queue."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
        return await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, header)

    async def earliest_stored_ms(self, queue: MessageQueue) -> int:
        """When the oldest message of the queue was stored; -1 if there is none."""
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        response = await self.ask_master(queue, code, _header(queue))
        return read_header(response, StoreTimeReplyHeader).timestamp

    async def master_of(self, queue: MessageQueue) -> str:
        """The address of the broker that has the queue; NoRoute if nobody does."""
        if self.session.routes.address_of(queue.broker_name) is None:
            await self.session.routes.fetch(queue.topic)
        return self.session.master_of(queue.broker_name)

    async def ask_master(self, queue: MessageQueue, code: RequestCode, header: Header) -> Command:
        """Its answer, if it grants what is asked; once more, if it has moved meanwhile."""
        return await self._ask(queue, code, header, self.session.master_of)

    async def ask_any(self, queue: MessageQueue, code: RequestCode, header: Header) -> Command:
        """As `ask_master`; of a slave, while the name servers know no master."""
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
