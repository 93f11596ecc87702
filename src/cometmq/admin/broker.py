"""Admin functions for brokers: statistics, settings, lag, cleanup."""

from cometmq.admin.rows import Change, Row, Time, time_or_none
from cometmq.admin.session import AdminSession
from cometmq.protocol.bodies.stats import ConsumeStatsList
from cometmq.protocol.bodies.tables import KeyValues
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.consumer import BrokerConsumeStatsHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.java.values import format_properties, parse_properties


class GroupLag(Row, frozen=True):
    """The lag of a group in one queue."""

    topic: str
    group: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    diff: int
    last_time: Time | None


class BrokerLag(Row, frozen=True):
    """The lag of all groups of a broker."""

    queues: list[GroupLag]
    diff_total: int


async def runtime(admin: AdminSession, address: str) -> dict[str, str]:
    """The runtime statistics of a broker."""
    response = await admin.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return dict(sorted(loads(response.body, KeyValues).table.items()))


async def status(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> dict[str, str] | dict[str, dict[str, str]]:
    """The runtime statistics of a broker, or of each broker of a cluster."""
    if broker:
        return await runtime(admin, broker)
    nodes = await admin.nodes(None, cluster)
    found = await admin.all(runtime(admin, each) for each in nodes)
    return dict(zip(nodes, found, strict=True))


async def settings_of(admin: AdminSession, address: str) -> dict[str, str]:
    """The settings of one broker."""
    response = await admin.ask(address, RequestCode.GET_BROKER_CONFIG)
    return dict(sorted(parse_properties(response.body.decode()).items()))


async def settings(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> dict[str, dict[str, str]]:
    """The settings of a broker, or of each broker of a cluster."""
    nodes = await admin.nodes(broker, cluster)
    found = await admin.all(settings_of(admin, each) for each in nodes)
    return dict(zip(nodes, found, strict=True))


async def update_settings(
    admin: AdminSession,
    *,
    key: str,
    value: str,
    broker: str | None = None,
    cluster: str | None = None,
) -> list[Change]:
    """Change a setting of a broker, or of all masters of a cluster."""
    body = format_properties({key: value}, escaped=True).encode()
    return await admin.all(
        admin.change(f"set {key} = {value}", each, RequestCode.UPDATE_BROKER_CONFIG, None, body)
        for each in await admin.masters(broker, cluster)
    )


async def lag(
    admin: AdminSession,
    *,
    broker: str,
    timeout_ms: int = 50_000,
    level: int = 0,
    order: bool = False,
) -> BrokerLag:
    """The lag of all groups of a broker, in queues with a lag of at least `level`.

    With `order`, only in ordered topics.
    """
    response = await admin.ask(
        broker,
        RequestCode.GET_BROKER_CONSUME_STATS,
        BrokerConsumeStatsHeader(is_order=order),
        timeout_ms=timeout_ms,
    )
    found = loads(response.body, ConsumeStatsList)
    rows = [
        GroupLag(
            queue.topic,
            group,
            queue.broker_name,
            queue.queue_id,
            place.broker_offset,
            place.consumer_offset,
            place.broker_offset - place.consumer_offset,
            time_or_none(place.last_timestamp),
        )
        for groups in found.consume_stats_list
        for group, topics in groups.items()
        for topic in topics
        for queue, place in sorted(topic.offset_table.items())
    ]
    shown = [row for row in rows if row.diff >= level]
    return BrokerLag(shown, sum(row.diff for row in rows))


async def clean_queues(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> list[Change]:
    """Delete consume queue files whose messages were deleted."""
    return await _clean(
        admin,
        "delete expired consume queues",
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        broker,
        cluster,
    )


async def clean_topics(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> list[Change]:
    """Delete consume queues of unknown topics."""
    return await _clean(
        admin, "delete queues of unknown topics", RequestCode.CLEAN_UNUSED_TOPIC, broker, cluster
    )


async def delete_expired(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> list[Change]:
    """Delete expired commit log files now."""
    return await _clean(
        admin, "delete expired log files", RequestCode.DELETE_EXPIRED_COMMITLOG, broker, cluster
    )


async def _clean(
    admin: AdminSession,
    what: str,
    code: RequestCode,
    broker: str | None = None,
    cluster: str | None = None,
) -> list[Change]:
    masters = await admin.masters(broker, cluster)
    return await admin.all(admin.change(what, each, code) for each in masters)
