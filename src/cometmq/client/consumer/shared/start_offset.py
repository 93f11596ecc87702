"""The offset at which a member starts to consume a queue."""

import logging
from dataclasses import dataclass

from cometmq.client.config import ConsumerConfig
from cometmq.client.consumer.shared.offsets import Offsets, offsets_for
from cometmq.client.session.connections import failure_level
from cometmq.client.session.queries import Queries
from cometmq.client.session.session import Session
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import RETRY_PREFIX

log = logging.getLogger(__name__)

_AT_FIRST = frozenset({ConsumeFrom.FIRST_OFFSET, ConsumeFrom.MIN_OFFSET})


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """The committed offset of the group; for a new group, what `consume_from` says."""

    config: ConsumerConfig
    offsets: Offsets
    queries: Queries

    async def of(self, queue: MessageQueue) -> int:
        """The first offset to pull. Raises PeerError or WorldError if no broker answers."""
        committed = await self.offsets.kept(queue)
        if committed is not None and committed >= 0:
            return committed
        is_retry = queue.topic.startswith(RETRY_PREFIX)  # failed messages: all of them are wanted
        if self.config.consume_from in _AT_FIRST:
            return 0
        if self.config.consume_from is ConsumeFrom.TIMESTAMP:
            if is_retry:
                return await self.queries.max_offset(queue)
            now_ms = self.queries.session.clock.wall_ms()
            return await self.queries.offset_at(queue, self.config.start_ms(now_ms))
        return 0 if is_retry else await self.queries.max_offset(queue)

    async def try_of(self, queue: MessageQueue) -> int | None:
        """The first offset to pull; None, logged, if the broker does not answer."""
        try:
            return await self.of(queue)
        except (PeerError, WorldError) as error:
            level = failure_level(error)
            log.log(level, "cannot find the start offset of %s, trying again: %s", queue, error)
            return None


def start_offsets_for(session: Session, group: str, config: ConsumerConfig) -> StartOffsets:
    """The start offsets of a member of this group (as on the wire)."""
    offsets = offsets_for(session, group, config.message_model, config.offset_folder)
    return StartOffsets(config, offsets, Queries(session))
