"""Settings of consumer groups at brokers: create, change, delete, show."""

from cometmq.admin import topic as topics
from cometmq.admin.rows import Change
from cometmq.admin.session import AdminSession
from cometmq.errors import NoRoute
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.bodies.tables import GroupConfig, GroupConfigTable
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.group import DeleteGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.names import check_group, dlq_topic, retry_topic


async def update(
    admin: AdminSession,
    *,
    group: str,
    broker: str | None = None,
    cluster: str | None = None,
    enabled: bool = True,
    from_min: bool = False,
    broadcast: bool = False,
    retry_queues: int = 1,
    retries: int = 16,
    broker_id: int = MASTER_ID,
    slow_broker_id: int = 1,
    notify: bool = True,
) -> list[Change]:
    """Create a group, or change its settings."""
    check_group(group)
    config = GroupConfig(
        group_name=group,
        consume_enable=enabled,
        consume_from_min_enable=from_min,
        consume_broadcast_enable=broadcast,
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_broker_id,
        notify_consumer_ids_changed_enable=notify,
    )
    what = f"create group {group}, {retries} retries, consume {'on' if enabled else 'off'}"
    return await admin.all(
        admin.change(
            what, each, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, dumps(config)
        )
        for each in await admin.masters(broker, cluster)
    )


async def delete(
    admin: AdminSession,
    *,
    group: str,
    broker: str | None = None,
    cluster: str | None = None,
    remove_offset: bool = False,
) -> list[Change]:
    """Delete a group; with `cluster`, also its retry and dead-letter topics."""
    header = DeleteGroupHeader(group_name=group, remove_offset=remove_offset)
    what = f"delete group {group}" + (" and its offsets" if remove_offset else "")
    masters = await admin.masters(broker, cluster)
    changes = await admin.all(
        admin.change(what, each, RequestCode.DELETE_SUBSCRIPTIONGROUP, header) for each in masters
    )
    if cluster and not broker:
        for topic in (retry_topic(group), dlq_topic(group)):
            changes += await topics.delete_at(admin, masters, cluster, topic)
    return changes


async def configs(admin: AdminSession, address: str) -> dict[str, GroupConfig]:
    """The settings of all groups of one broker, by name."""
    response = await admin.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return loads(response.body, GroupConfigTable).subscription_group_table


async def settings(admin: AdminSession, *, group: str) -> dict[str, dict[str, object]]:
    """The settings of a group at each broker that has it."""
    import msgspec

    found = {}
    cluster = await admin.cluster()
    for name, broker in sorted(cluster.broker_addr_table.items()):
        if MASTER_ID in broker.broker_addrs:
            config = (await configs(admin, broker.broker_addrs[MASTER_ID])).get(group)
            if config is not None:
                found[f"{broker.cluster}:{name}"] = msgspec.to_builtins(config)
    if not found:
        raise NoRoute(
            f"group {group} is unknown to all brokers: create it, or start one of its consumers"
        )
    return found
