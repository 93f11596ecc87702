"""Admin functions for topics: create, change, delete, list, routes, queue offsets."""

import msgspec

from cometmq.admin import kv
from cometmq.admin.rows import Change, Row, Time, time_or_none
from cometmq.admin.session import AdminSession
from cometmq.errors import BadSetting, NoRoute, PeerError, Refused, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID, GroupList, TopicList, TopicRoute
from cometmq.protocol.bodies.stats import TopicOffset, TopicStats
from cometmq.protocol.bodies.tables import TopicConfig, TopicConfigTable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import Perm, TopicFlag
from cometmq.protocol.headers.namesrv import ClusterHeader, DeleteTopicHeader
from cometmq.protocol.headers.topic import CreateTopicHeader, TopicHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import DEFAULT_TOPIC, DLQ_PREFIX, RETRY_PREFIX, check_topic

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


class RouteRow(Row, frozen=True):
    """The queues and permission of a topic at one broker."""

    cluster_name: str
    broker_name: str
    broker_addrs: dict[int, str]
    read_queues: int
    write_queues: int
    perm: int


class QueueStatus(Row, frozen=True):
    """The first and last offset of a queue."""

    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_updated: Time | None


class ClusterTopic(Row, frozen=True):
    """A topic and a group that consumes it."""

    cluster_name: str
    topic: str
    consumer_group: str | None = None


async def update(
    admin: AdminSession,
    *,
    topic: str,
    broker: str | None = None,
    cluster: str | None = None,
    read_queues: int = 8,
    write_queues: int = 8,
    perm: int = int(Perm.READ | Perm.WRITE),
    order: bool = False,
    unit: bool = False,
    unit_sub: bool = False,
) -> list[Change]:
    """Create a topic, or change its settings."""
    check_topic(topic)
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=read_queues,
        write_queue_nums=write_queues,
        perm=perm,
        order=order,
        topic_sys_flag=TopicFlag.UNIT * unit | TopicFlag.UNIT_SUB * unit_sub,
    )
    masters = await admin.masters(broker, cluster)
    changes = await admin.all(put(admin, master, config) for master in masters)
    if order:
        brokers = [await admin.name_at(master) for master in masters]
        changes += await set_order(
            admin, topic, dict.fromkeys(brokers, write_queues), keep_others=broker is not None
        )
    return changes


async def put(admin: AdminSession, address: str, config: TopicConfig, what: str = "") -> Change:
    """Create or change a topic at one broker."""
    header = CreateTopicHeader(
        topic=config.topic_name,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
    )
    what = what or (
        f"create topic {config.topic_name}, queues: {config.read_queue_nums} to read,"
        f" {config.write_queue_nums} to write, perm {config.perm}"
    )
    return await admin.change(what, address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


async def update_permission(
    admin: AdminSession,
    *,
    topic: str,
    perm: int,
    broker: str | None = None,
    cluster: str | None = None,
) -> list[Change]:
    """Change the permission of a topic; all other settings stay."""

    async def one(master: str) -> Change | None:
        config = (await configs(admin, master)).get(topic)
        if config is None:
            return None
        what = f"update perm of topic {topic} from {config.perm} to {perm}"
        return await put(admin, master, msgspec.structs.replace(config, perm=perm), what)

    masters = await admin.masters(broker, cluster)
    changes = [each for each in await admin.all(map(one, masters)) if each is not None]
    if not changes:
        raise NoRoute(f"topic {topic} is unknown to {', '.join(masters) or 'all brokers'}")
    return changes


async def delete(admin: AdminSession, *, topic: str, cluster: str) -> list[Change]:
    """Delete a topic of a cluster from its brokers and the name servers."""
    masters = await admin.masters(None, cluster)
    changes = await delete_at(admin, masters, cluster, topic)
    ordered = await _order_of(admin, topic)
    if ordered is not None:
        changes += await kv.delete(admin, namespace=ORDER_NAMESPACE, key=topic)
    return changes


async def delete_at(
    admin: AdminSession, masters: list[str], cluster: str, topic: str
) -> list[Change]:
    """Delete a topic from these brokers, then from the name servers."""
    what = f"delete topic {topic}"
    changes = await admin.all(
        admin.change(what, each, RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
        for each in masters
    )
    header = DeleteTopicHeader(topic=topic, cluster_name=cluster)
    return changes + await admin.change_servers(what, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


async def route(
    admin: AdminSession, *, topic: str, as_list: bool = False
) -> list[RouteRow] | dict[str, object]:
    """The route of a topic: its brokers and their queues."""
    found = await admin.route(topic)
    if as_list:
        return _route_rows(found)
    described: dict[str, object] = msgspec.to_builtins(found, str_keys=True)
    return {name: value for name, value in described.items() if value is not None}


def _route_rows(found: TopicRoute) -> list[RouteRow]:
    brokers = {each.broker_name: each for each in found.broker_datas}
    return [
        RouteRow(
            brokers[each.broker_name].cluster if each.broker_name in brokers else "",
            each.broker_name,
            brokers[each.broker_name].broker_addrs if each.broker_name in brokers else {},
            each.read_queue_nums,
            each.write_queue_nums,
            each.perm,
        )
        for each in sorted(found.queue_datas, key=lambda each: each.broker_name)
    ]


async def status(admin: AdminSession, *, topic: str) -> list[QueueStatus]:
    """The first and last offset of each queue."""
    return [
        QueueStatus(
            queue.broker_name,
            queue.queue_id,
            bounds.min_offset,
            bounds.max_offset,
            time_or_none(bounds.last_update_timestamp),
        )
        for queue, bounds in sorted((await offsets(admin, topic)).items())
    ]


async def offsets(admin: AdminSession, topic: str) -> dict[MessageQueue, TopicOffset]:
    """The first and last offset of each queue, from all brokers of the topic."""
    header = TopicHeader(topic=topic)
    answers = await admin.all(
        admin.ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)
        for address in await masters_of(admin, topic)
    )
    return {
        queue: bounds
        for answer in answers
        for queue, bounds in loads(answer.body, TopicStats).offset_table.items()
    }


async def masters_of(admin: AdminSession, topic: str) -> list[str]:
    """For each broker of a topic the address of its master, or of a slave if it has no master."""
    found = await admin.route(topic)
    return [
        nodes.get(MASTER_ID) or nodes[min(nodes)]
        for each in sorted(found.broker_datas, key=lambda each: each.broker_name)
        if (nodes := each.broker_addrs)
    ]


async def clusters(admin: AdminSession, *, topic: str) -> list[str]:
    """The names of the clusters that have a topic."""
    return sorted({each.cluster for each in (await admin.route(topic)).broker_datas})


async def every(
    admin: AdminSession, *, with_groups: bool = False
) -> list[str] | list[ClusterTopic]:
    """The names of all topics; or topics with their clusters and consumer groups."""
    return await _with_groups(admin) if with_groups else await names(admin)


async def names(admin: AdminSession) -> list[str]:
    """The names of all topics."""
    response = await admin.ask_any_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return sorted(loads(response.body, TopicList).topic_list)


async def _with_groups(admin: AdminSession) -> list[ClusterTopic]:
    found: list[ClusterTopic] = []
    for cluster in sorted((await admin.cluster()).cluster_addr_table):
        topics = await _of_cluster(admin, cluster)
        consumers = await admin.all(groups_of(admin, each) for each in topics)
        for topic, groups in zip(topics, consumers, strict=True):
            found += [ClusterTopic(cluster, topic, each) for each in groups]
            found += [] if groups else [ClusterTopic(cluster, topic)]
    return found


async def _of_cluster(admin: AdminSession, cluster: str) -> list[str]:
    header = ClusterHeader(cluster=cluster)
    response = await admin.ask_any_server(RequestCode.GET_TOPICS_BY_CLUSTER, header)
    return sorted(
        each
        for each in loads(response.body, TopicList).topic_list
        if not each.startswith((RETRY_PREFIX, DLQ_PREFIX))
    )


async def groups_of(admin: AdminSession, topic: str) -> list[str]:
    """The groups that consume a topic. Brokers that cannot be reached are skipped."""
    found: set[str] = set()
    try:
        masters = await masters_of(admin, topic)
    except NoRoute:
        return []  # the topic was deleted in the meantime
    for address in masters:
        try:
            response = await admin.ask(
                address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic)
            )
        except (PeerError, WorldError):
            continue
        found |= set(loads(response.body, GroupList).group_list)
    return sorted(found)


async def configs(admin: AdminSession, address: str) -> dict[str, TopicConfig]:
    """The settings of all topics of one broker, by name."""
    response = await admin.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    return loads(response.body, TopicConfigTable).topic_config_table


async def order(
    admin: AdminSession, *, topic: str, method: str, value: str | None = None
) -> list[Change] | dict[str, str]:
    """Set, get or delete the queue counts of an ordered topic, stopped brokers included."""
    if method == "put":
        if not value:
            raise BadSetting("put needs -v brokerName:queues;brokerName:queues")
        return await kv.update(admin, namespace=ORDER_NAMESPACE, key=topic, value=value)
    if method == "delete":
        return await kv.delete(admin, namespace=ORDER_NAMESPACE, key=topic)
    found = await _order_of(admin, topic)
    if found is None:
        raise Refused(ResponseCode.QUERY_NOT_FOUND, f"topic {topic} has no order configuration")
    return {topic: found}


async def set_order(
    admin: AdminSession, topic: str, queues: dict[str, int], *, keep_others: bool
) -> list[Change]:
    """Publish the queue count of each broker, which holds also while a broker is down."""
    entries = {name: str(count) for name, count in queues.items()}
    if keep_others:
        known = await _order_of(admin, topic) or ""
        others = (each.partition(":") for each in known.split(";") if ":" in each)
        entries = {name: count for name, _, count in others} | entries
    value = ";".join(f"{name}:{entries[name]}" for name in sorted(entries))
    return await kv.update(admin, namespace=ORDER_NAMESPACE, key=topic, value=value)


async def _order_of(admin: AdminSession, topic: str) -> str | None:
    return await kv.get(admin, ORDER_NAMESPACE, topic)
