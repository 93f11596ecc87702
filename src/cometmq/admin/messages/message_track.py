"""The state of a message in each group that consumes its topic."""

from cometmq.admin.groups import members, progress
from cometmq.admin.rows import Row
from cometmq.admin.session import AdminSession
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.heartbeat import ConsumeType, MessageModel, Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.tags import TAG, wanted_tags
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import TAGS


class Track(Row, frozen=True):
    """The state of a message in one group."""

    consumer_group: str
    track_type: str
    error: str | None = None


async def track(
    admin: AdminSession, message: StoredMessage, queue: MessageQueue | None, group: str
) -> Track:
    """The state in one group. `queue` is None if the broker of the message is not registered."""
    if queue is None:
        return Track(
            group, "UNKNOWN", f"no broker is registered with the address {message.store_host}"
        )
    try:
        return Track(group, await _state(admin, message, queue, group))
    except (PeerError, WorldError) as error:
        return Track(group, "UNKNOWN", str(error))


async def _state(
    admin: AdminSession, message: StoredMessage, queue: MessageQueue, group: str
) -> str:
    online = await members.connection(admin, group)
    if online is None:
        return "NOT_ONLINE"
    _, connection = online
    if connection.consume_type is ConsumeType.ACTIVELY:
        return "PULL"
    if connection.message_model is MessageModel.BROADCASTING:
        return "CONSUME_BROADCASTING"
    stats = await progress.consumed(admin, group, message.topic)
    place = stats.offset_table.get(queue)
    if place is None or place.consumer_offset <= message.queue_offset:
        return "NOT_CONSUME_YET"
    wanted = connection.subscription_table.get(message.topic)
    is_filtered = wanted is not None and not _is_wanted(message, wanted)
    return "CONSUMED_BUT_FILTERED" if is_filtered else "CONSUMED"


def _is_wanted(message: StoredMessage, wanted: Subscription) -> bool:
    """Do the tags match? The result of an SQL expression is not available."""
    tags = wanted_tags(wanted.sub_string) if wanted.expression_type == TAG else None
    return tags is None or message.properties.get(TAGS) in tags
