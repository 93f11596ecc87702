"""Entries of a consume queue as stored on disk."""

from cometmq.admin import topic as topics
from cometmq.admin.rows import Row
from cometmq.admin.session import AdminSession
from cometmq.protocol.bodies.stats import QueueUnit, QueueUnits
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.query import QueryConsumeQueueHeader
from cometmq.protocol.java.fastjson import loads

_UNITS_MAX = 10


class ShownUnit(Row, frozen=True):
    """One entry of a consume queue, as shown."""

    index: int
    physical_offset: int
    physical_size: int
    tags_code: int
    matches: bool | None
    message: str | None


class Units(Row, frozen=True):
    """Entries of a consume queue, with the filter of a group."""

    entries: list[ShownUnit]
    subscription: str | None
    filter: str | None
    min: int
    max: int


async def entries(
    admin: AdminSession,
    *,
    topic: str,
    queue_id: int,
    index: int,
    count: int = _UNITS_MAX,
    broker: str | None = None,
    group: str | None = None,
) -> Units:
    """Entries of a consume queue as stored on disk."""
    address = broker or (await topics.masters_of(admin, topic))[0]
    header = QueryConsumeQueueHeader(
        topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group
    )
    found = loads(
        (await admin.ask(address, RequestCode.QUERY_CONSUME_QUEUE, header)).body, QueueUnits
    )
    return Units(
        [
            _unit(index + at, each, group is not None)
            for at, each in enumerate(found.queue_data or [])
        ],
        found.subscription_data.sub_string if found.subscription_data else None,
        found.filter_data,
        found.min_queue_index,
        found.max_queue_index,
    )


def _unit(index: int, unit: QueueUnit, is_filtered: bool) -> ShownUnit:
    matches = unit.evaluated if is_filtered else None
    return ShownUnit(
        index, unit.physic_offset, unit.physic_size, unit.tags_code, matches, unit.message
    )
