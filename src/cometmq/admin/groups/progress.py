"""Consumer lag and message rates of groups and topics."""

from collections.abc import AsyncIterator

from cometmq.admin import topic as topics
from cometmq.admin.cluster import minute_and_day
from cometmq.admin.groups import members
from cometmq.admin.rows import Row, Time, time_or_none
from cometmq.admin.session import AdminSession
from cometmq.errors import NoRoute, PeerError, Refused, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.stats import ConsumedOffset, ConsumeStats
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.consumer import ConsumeStatsHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX

_ROUND_S = 60


class QueueLag(Row, frozen=True):
    """The lag of a group in one queue."""

    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    diff: int
    last_time: Time | None


class OwnedQueueLag(Row, frozen=True):
    """The lag of a group in one queue, and the address of the member that consumes it."""

    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    client_ip: str | None
    diff: int
    last_time: Time | None


class GroupProgress(Row, frozen=True):
    """The lag of a group in all queues."""

    queues: list[QueueLag] | list[OwnedQueueLag]
    consume_tps: float
    diff_total: int


class GroupSummary(Row, frozen=True):
    """A group in one line, or the error if not all of its brokers answer."""

    group: str
    count: int | None = None
    version: str | None = None
    type: str | None = None
    model: str | None = None
    tps: int | None = None
    diff_total: int | None = None
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """Is the lag unknown?"""
        return self.error is not None


class TopicSummary(Row, frozen=True):
    """The rates of a topic and of a group that consumes it."""

    topic: str
    consumer_group: str | None
    accumulation: int
    in_tps: float
    out_tps: float | None
    in_msg_24_hour: int
    out_msg_24_hour: int | None


class Undone(Row, frozen=True):
    """The backlog of a group in a topic, or the error if it is unknown."""

    group: str
    topic: str | None = None
    members: int | None = None
    undone: int | None = None
    undone_of_one_queue: int | None = None
    delay_ms: int | None = None
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """Is the backlog unknown?"""
        return self.error is not None


async def consumed(
    admin: AdminSession, group: str, topic: str | None = None, at: list[str] | None = None
) -> ConsumeStats:
    """The offsets of a group, from all of its brokers."""
    header = ConsumeStatsHeader(consumer_group=group, topic=topic)
    answers = await admin.all(
        admin.ask(address, RequestCode.GET_CONSUME_STATS, header)
        for address in (at or await members.masters_of_group(admin, group))
    )
    found = [loads(answer.body, ConsumeStats) for answer in answers]
    table: dict[MessageQueue, ConsumedOffset] = {}
    for each in found:
        table.update(each.offset_table)
    return ConsumeStats(consume_tps=sum(each.consume_tps for each in found), offset_table=table)


async def of_groups(
    admin: AdminSession, *, group: str | None = None, client_ip: bool = False
) -> GroupProgress | list[GroupSummary]:
    """The lag of one group by queue, or of all groups, one line each."""
    if group is None:
        return await _summaries(admin)
    stats = await consumed(admin, group)
    if not stats.offset_table:
        raise Refused(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"group {group} has no offsets: no broker knows it, or it has consumed nothing yet",
        )
    queues: list[QueueLag] | list[OwnedQueueLag]
    if client_ip:
        owners = await _owners(admin, group)
        queues = [
            OwnedQueueLag(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                place.broker_offset,
                place.consumer_offset,
                owners.get(queue),
                place.broker_offset - place.consumer_offset,
                time_or_none(place.last_timestamp),
            )
            for queue, place in sorted(stats.offset_table.items())
        ]
    else:
        queues = [
            QueueLag(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                place.broker_offset,
                place.consumer_offset,
                place.broker_offset - place.consumer_offset,
                time_or_none(place.last_timestamp),
            )
            for queue, place in sorted(stats.offset_table.items())
        ]
    return GroupProgress(queues, stats.consume_tps, sum(each.diff for each in queues))


async def group_names(admin: AdminSession) -> list[str]:
    """The groups with a retry topic: every group that ever had a member."""
    return [
        each.removeprefix(RETRY_PREFIX)
        for each in await topics.names(admin)
        if each.startswith(RETRY_PREFIX)
    ]


async def _summaries(admin: AdminSession) -> list[GroupSummary]:
    async def one(group: str) -> GroupSummary:
        try:
            stats = await consumed(admin, group)
            found = await members.connection(admin, group)
        except (PeerError, WorldError) as error:
            return GroupSummary(group, error=str(error))
        behind = sum(e.broker_offset - e.consumer_offset for e in stats.offset_table.values())
        if found is None:
            return GroupSummary(group, 0, tps=int(stats.consume_tps), diff_total=behind)
        _, connection = found
        return GroupSummary(
            group,
            len(connection.connection_set),
            members.version_name(min(each.version for each in connection.connection_set)),
            members.pull_or_push(connection),
            connection.message_model and connection.message_model.value,
            int(stats.consume_tps),
            behind,
        )

    rows = await admin.all(map(one, await group_names(admin)))
    return sorted(rows, key=lambda row: (not row.is_failure, -(row.diff_total or 0), row.group))


async def _owners(admin: AdminSession, group: str) -> dict[MessageQueue, str]:
    """The address of the member that consumes each queue. Skips members that do not answer."""
    online = await members.connection(admin, group)
    if online is None:
        return {}
    address, found = online
    owners: dict[MessageQueue, str] = {}
    for each in found.connection_set:
        try:
            info = await members.running(admin, address, group, each.client_id)
        except PeerError:
            continue
        owners |= dict.fromkeys(info.mq_table, each.client_id.partition("@")[0])
    return owners


async def rates(
    admin: AdminSession, *, active_only: bool = False, topic: str | None = None
) -> list[TopicSummary]:
    """The message rates by topic and group."""
    names = [
        each
        for each in await topics.names(admin)
        if not each.startswith((RETRY_PREFIX, DLQ_PREFIX))
    ]
    if topic:
        if topic not in names:
            raise NoRoute(f"unknown topic {topic}")
        names = [topic]
    found = await admin.all(_rates_of(admin, each) for each in names)
    rows = [row for rows in found for row in rows]
    return [row for row in rows if not active_only or row.in_msg_24_hour or row.out_msg_24_hour]


async def _rates_of(admin: AdminSession, topic: str) -> list[TopicSummary]:
    masters = await topics.masters_of(admin, topic)
    put = [await minute_and_day(admin, each, "TOPIC_PUT_NUMS", topic) for each in masters]
    in_tps, in_day = sum(tps for tps, _ in put), sum(day for _, day in put)
    rows = []
    for group in await topics.groups_of(admin, topic):
        got = [
            await minute_and_day(admin, each, "GROUP_GET_NUMS", f"{topic}@{group}")
            for each in masters
        ]
        stats = await consumed(admin, group, topic, masters)
        behind = sum(e.broker_offset - e.consumer_offset for e in stats.offset_table.values())
        rows.append(
            TopicSummary(
                topic,
                group,
                max(behind, 0),
                in_tps,
                sum(tps for tps, _ in got),
                in_day,
                sum(day for _, day in got),
            )
        )
    return rows or [TopicSummary(topic, None, 0, in_tps, None, in_day, None)]


async def monitor(
    admin: AdminSession, *, interval_s: int = _ROUND_S, rounds: int | None = None
) -> AsyncIterator[list[Undone]]:
    """The backlog of all groups, repeatedly."""
    async for _ in admin.rounds(interval_s, rounds):
        found = await admin.all(_undone(admin, each) for each in await group_names(admin))
        yield sorted(
            (row for rows in found for row in rows),
            key=lambda row: (not row.is_failure, -(row.undone or 0), row.group, row.topic or ""),
        )


async def _undone(admin: AdminSession, group: str) -> list[Undone]:
    try:
        stats = await consumed(admin, group)
        online = await members.connection(admin, group)
    except (PeerError, WorldError) as error:
        return [Undone(group, error=str(error))]
    count = len(online[1].connection_set) if online else 0
    by_topic: dict[str, list[ConsumedOffset]] = {}
    for queue, place in stats.offset_table.items():
        by_topic.setdefault(queue.topic, []).append(place)
    now_ms = admin.clock.wall_ms()
    return [
        Undone(
            group,
            topic,
            count,
            sum(each.broker_offset - each.consumer_offset for each in places),
            max(each.broker_offset - each.consumer_offset for each in places),
            max(
                (
                    now_ms - each.last_timestamp
                    for each in places
                    if each.last_timestamp and each.broker_offset > each.consumer_offset
                ),
                default=0,
            ),
        )
        for topic, places in sorted(by_topic.items())
    ]
