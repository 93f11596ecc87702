"""Connected producers and consumers, and the internal state of consumers."""

from collections.abc import Iterable

from cometmq.admin import topic as topics
from cometmq.admin.rows import Row, Time, time_or_none
from cometmq.admin.session import AdminSession
from cometmq.errors import NoRoute, PeerError, Refused
from cometmq.protocol.bodies.consumer import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProducerConnection,
    ProducerTable,
)
from cometmq.protocol.bodies.heartbeat import ConsumeType, MessageModel
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.client import ConsumerGroupHeader, ProducerGroupHeader
from cometmq.protocol.headers.consumer import RunningInfoHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import retry_topic

_RUNNING_MS = 12_000  # a broker waits ten seconds for the consumer
_NOT_SHARED = "Not shared: each member of a broadcasting group has all queues"
_FIRST_OF_4 = 212  # number of V4_0_0_SNAPSHOT; V4_0_0 is the next, and so on, two per version


class Member(Row, frozen=True):
    """A client that is connected to a broker."""

    client_id: str
    client_addr: str
    language: str
    version: str


class SubscriptionRow(Row, frozen=True):
    """A subscription of a group."""

    topic: str
    sub_expression: str


class GroupConnection(Row, frozen=True):
    """The members of a consumer group, and their subscriptions."""

    connections: list[Member]
    subscriptions: list[SubscriptionRow]
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None


class ProducerRow(Row, frozen=True):
    """A producer that is connected to a broker."""

    producer_group: str
    client_id: str
    remote_ip: str
    language: str
    version: str
    last_update: Time | None


class MemberState(Row, frozen=True):
    """A member of a group and its queues, or the error of its request."""

    index: int
    client_id: str
    version: str
    queues: int | None
    error: str | None = None


class GroupState(Row, frozen=True):
    """The state of all members of a group."""

    members: list[MemberState]
    subscriptions: str
    rebalance: str

    @property
    def is_failure(self) -> bool:
        """Did a member not answer?"""
        return any(member.error for member in self.members)


class QueueState(Row, frozen=True):
    """The state of a queue inside a consumer."""

    topic: str
    broker_name: str
    queue_id: int
    consumer_offset: int
    cached: int
    cached_mib: int
    locked: bool
    dropped: bool
    last_pull: Time | None
    last_consume: Time | None


class TopicRates(Row, frozen=True):
    """Rates and response times of a topic inside a consumer."""

    topic: str
    pull_rt: float
    pull_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed_last_hour: int


class Inside(Row, frozen=True):
    """The internal state of one consumer."""

    properties: dict[str, str]
    subscriptions: list[SubscriptionRow]
    queues: list[QueueState]
    rates: list[TopicRates]
    stacks: str | None


def pull_or_push(found: ConsumerConnection) -> str | None:
    """The name of the consume type of a group; None if it is unknown."""
    names = {ConsumeType.ACTIVELY: "PULL", ConsumeType.PASSIVELY: "PUSH", None: None}
    return names[found.consume_type]


def version_name(number: int) -> str:
    """The name of a version number: V4_9_7 for 407."""
    if number < _FIRST_OF_4:
        return f"V3({number})"
    release = (number - _FIRST_OF_4) // 2
    name = f"V{4 + release // 100}_{release // 10 % 10}_{release % 10}"
    return name if number % 2 else f"{name}_SNAPSHOT"


async def masters_of_group(admin: AdminSession, group: str) -> list[str]:
    """The masters that have the retry topic of a group; all masters if no broker has it."""
    try:
        return await topics.masters_of(admin, retry_topic(group))
    except NoRoute:
        return await admin.masters(None, None)


async def connection_at(admin: AdminSession, address: str, group: str) -> ConsumerConnection | None:
    """The members of a group at one broker, or None."""
    header = ConsumerGroupHeader(consumer_group=group)
    try:
        response = await admin.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
    except Refused as refused:
        if refused.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        return None
    return loads(response.body, ConsumerConnection)


async def connection(
    admin: AdminSession, group: str, broker: str | None = None
) -> tuple[str, ConsumerConnection] | None:
    """The first broker to which members are connected, and these members."""
    for address in [broker] if broker else await masters_of_group(admin, group):
        found = await connection_at(admin, address, group)
        if found is not None and found.connection_set:
            return address, found
    return None


async def consumers(
    admin: AdminSession, *, group: str, broker: str | None = None
) -> GroupConnection:
    """The members of a consumer group and their subscriptions."""
    _, found = await _online(admin, group, broker)
    return GroupConnection(
        _members(found.connection_set),
        _subscriptions(
            (topic, each.sub_string) for topic, each in found.subscription_table.items()
        ),
        found.consume_type and found.consume_type.value,
        found.message_model and found.message_model.value,
        found.consume_from_where and found.consume_from_where.value,
    )


async def producers(admin: AdminSession, *, group: str, topic: str) -> list[Member]:
    """The members of a producer group at the brokers of a topic."""
    header = ProducerGroupHeader(producer_group=group)
    found: dict[str, Connection] = {}
    for address in await topics.masters_of(admin, topic):
        try:
            response = await admin.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        except Refused as refused:
            if refused.code != ResponseCode.SYSTEM_ERROR:
                raise
            continue  # the code of brokers for an unknown group
        for each in loads(response.body, ProducerConnection).connection_set:
            found[each.client_id] = each
    if not found:
        raise _offline(f"producer group {group} has no member at the brokers of topic {topic}")
    return _members(list(found.values()))


async def producers_at(admin: AdminSession, *, broker: str) -> list[ProducerRow]:
    """All producers that are connected to one broker."""
    response = await admin.ask(broker, RequestCode.GET_ALL_PRODUCER_INFO)
    return [
        ProducerRow(
            group,
            each.client_id,
            each.remote_ip.removeprefix("/"),
            each.language,
            version_name(each.version),
            time_or_none(each.last_update_timestamp),
        )
        for group, members in sorted(loads(response.body, ProducerTable).data.items())
        for each in members
    ]


async def running(
    admin: AdminSession, address: str, group: str, client_id: str, *, stacks: bool = False
) -> ConsumerRunningInfo:
    """The state of a member, requested through its broker."""
    header = RunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=stacks)
    response = await admin.ask(
        address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout_ms=_RUNNING_MS
    )
    return loads(response.body, ConsumerRunningInfo)


async def status(
    admin: AdminSession,
    *,
    group: str,
    client_id: str | None = None,
    broker: str | None = None,
    stacks: bool = False,
) -> GroupState | Inside:
    """The state of one consumer, or of all members of a group and whether they agree."""
    address, found = await _online(admin, group, broker)
    if client_id:
        return _inside(await running(admin, address, group, client_id, stacks=stacks))

    async def one(index: int, each: Connection) -> tuple[MemberState, ConsumerRunningInfo | None]:
        version = version_name(each.version)
        try:
            info = await running(admin, address, group, each.client_id)
        except PeerError as error:
            return MemberState(index, each.client_id, version, None, str(error)), None
        return MemberState(index, each.client_id, version, len(info.mq_table)), info

    ordered = sorted(found.connection_set, key=lambda each: each.client_id)
    answers = await admin.all(one(index, each) for index, each in enumerate(ordered, 1))
    infos = [info for _, info in answers if info is not None]
    is_shared = found.message_model is not MessageModel.BROADCASTING
    return GroupState(
        [member for member, _ in answers],
        _qualified(_agreement(infos), infos, found),
        _qualified(_shares(infos) if is_shared else _NOT_SHARED, infos, found),
    )


def _qualified(verdict: str, infos: list[ConsumerRunningInfo], found: ConsumerConnection) -> str:
    members = len(found.connection_set)
    if not infos:
        return "Unknown: no member answers"
    if len(infos) < members:
        return f"{verdict}, of the {len(infos)} of {members} members that answer"
    return verdict


def _agreement(infos: list[ConsumerRunningInfo]) -> str:
    wanted = {
        tuple(sorted((each.topic, each.sub_string) for each in info.subscription_set))
        for info in infos
    }
    if len(wanted) > 1:
        return "Members differ: all must subscribe to the same topics and tags"
    return "Same subscription in the same group of consumer"


def _shares(infos: list[ConsumerRunningInfo]) -> str:
    owners: dict[object, int] = {}
    for info in infos:
        for queue, state in info.mq_table.items():
            if not state.dropped:
                owners[queue] = owners.get(queue, 0) + 1
    twice = [str(queue) for queue, count in owners.items() if count > 1]
    return f"Queues with two owners: {', '.join(sorted(twice))}" if twice else "Rebalance OK"


def _inside(info: ConsumerRunningInfo) -> Inside:
    return Inside(
        dict(sorted(info.properties.items())),
        _subscriptions((each.topic, each.sub_string) for each in info.subscription_set),
        [
            QueueState(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                state.commit_offset,
                state.cached_msg_count,
                state.cached_mib,
                state.locked,
                state.dropped,
                time_or_none(state.last_pull_timestamp),
                time_or_none(state.last_consume_timestamp),
            )
            for queue, state in sorted(info.mq_table.items())
        ],
        [
            TopicRates(
                topic,
                each.pull_rt,
                each.pull_tps,
                each.consume_rt,
                each.consume_ok_tps,
                each.consume_failed_tps,
                each.consume_failed_msgs,
            )
            for topic, each in sorted(info.status_table.items())
        ],
        info.jstack,
    )


async def _online(
    admin: AdminSession, group: str, broker: str | None = None
) -> tuple[str, ConsumerConnection]:
    found = await connection(admin, group, broker)
    if found is None:
        raise _offline(f"consumer group {group} is offline: none of its members is connected")
    return found


def _offline(reason: str) -> Refused:
    return Refused(ResponseCode.CONSUMER_NOT_ONLINE, reason)


def _members(connections: list[Connection]) -> list[Member]:
    return [
        Member(each.client_id, each.client_addr, each.language, version_name(each.version))
        for each in sorted(connections, key=lambda each: each.client_id)
    ]


def _subscriptions(wanted: Iterable[tuple[str, str]]) -> list[SubscriptionRow]:
    return [SubscriptionRow(topic, expression) for topic, expression in sorted(wanted)]
