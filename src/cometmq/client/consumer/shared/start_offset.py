"""Where a consumer begins with a queue: where its group was, or where a new group begins."""

from cometmq.client.config import ConsumerConfig
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.session.queries import Queries
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import RETRY_PREFIX

_AT_FIRST = frozenset({ConsumeFrom.FIRST_OFFSET, ConsumeFrom.MIN_OFFSET})


async def start_offset(
    queue: MessageQueue, config: ConsumerConfig, offsets: Offsets, queries: Queries
) -> int:
    """The offset to pull first. It raises what the broker or the world does: then try later."""
    kept = await offsets.kept(queue)
    if kept is not None and kept >= 0:
        return kept
    is_retry = queue.topic.startswith(RETRY_PREFIX)  # what waits there was failed, and is wanted
    if config.consume_from in _AT_FIRST:
        return 0
    if config.consume_from is ConsumeFrom.TIMESTAMP:
        if is_retry:
            return await queries.max_offset(queue)
        return await queries.offset_at(queue, config.start_ms(queries.session.clock.wall_ms()))
    return 0 if is_retry else await queries.max_offset(queue)
