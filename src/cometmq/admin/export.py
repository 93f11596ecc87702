"""Exports to files: topics and groups, broker settings, message rates."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from cometmq.admin import broker as brokers
from cometmq.admin import topic as topics
from cometmq.admin.cluster import minute_and_day
from cometmq.admin.groups import group as groups
from cometmq.admin.rows import NOT_DONE, SUCCESS, Change
from cometmq.admin.session import AdminSession
from cometmq.disk import RealDisk
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.route import MASTER_ID, TopicList
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import (
    BUILT_IN_GROUPS,
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    is_system_group,
)

FOLDER = str(Path(tempfile.gettempdir()) / "rocketmq" / "export")  # the default of Apache's tool
_KEPT_SETTINGS = (
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)

_SPECIAL = (RETRY_PREFIX, DLQ_PREFIX)

Table = dict[str, Any]


async def metadata(
    admin: AdminSession,
    *,
    cluster: str | None = None,
    broker: str | None = None,
    folder: str = FOLDER,
    only_topics: bool = False,
    only_groups: bool = False,
    special: bool = False,
) -> list[Change]:
    """Export user topics and groups; retry and dead-letter topics only with `special`."""
    found_topics: Table = {}
    found_groups: Table = {}
    for address in await admin.masters(broker, cluster):
        system = await _system_topics(admin, address)
        for name, topic in (await topics.configs(admin, address)).items():
            if name not in system and (special or not name.startswith(_SPECIAL)):
                _add(found_topics, name, msgspec.to_builtins(topic))
        for name, group in (await groups.configs(admin, address)).items():
            if name not in BUILT_IN_GROUPS and not is_system_group(name):
                found_groups.setdefault(name, msgspec.to_builtins(group))
    tables = {"topicConfigTable": found_topics, "subscriptionGroupTable": found_groups}
    file = "metadata.json"
    if only_topics != only_groups:
        del tables["subscriptionGroupTable" if only_topics else "topicConfigTable"]
        file = "topic.json" if only_topics else "subscriptionGroup.json"
    return [_write(admin, folder, file, {"exportTime": admin.clock.wall_ms()} | tables)]


def _add(table: Table, name: str, topic: Table) -> None:
    """Add a topic. Queues at several brokers are added up, as in Apache's tool."""
    known = table.setdefault(name, topic)
    if known is not topic:
        for count in ("readQueueNums", "writeQueueNums"):
            known[count] += topic[count]


async def _system_topics(admin: AdminSession, address: str) -> set[str]:
    answer = await admin.ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return set(loads(answer.body, TopicList).topic_list)


async def settings(admin: AdminSession, *, cluster: str, folder: str = FOLDER) -> list[Change]:
    """Export the main settings of each broker, and the size of the cluster."""
    nodes = [
        brokers_of
        for brokers_of in (await admin.cluster()).broker_addr_table.values()
        if brokers_of.cluster == cluster
    ]
    masters = await admin.masters(None, cluster)
    found_settings = await admin.all(brokers.settings_of(admin, each) for each in masters)
    found: Table = {
        "clusterScale": {
            "namesrvSize": len(admin.name_servers),
            "masterBrokerSize": sum(MASTER_ID in each.broker_addrs for each in nodes),
            "slaveBrokerSize": sum(
                number != MASTER_ID for each in nodes for number in each.broker_addrs
            ),
        },
        "brokerConfigs": {
            each.get("brokerName", address): {
                key: each[key] for key in _KEPT_SETTINGS if key in each
            }
            for address, each in zip(masters, found_settings, strict=True)
        },
    }
    return [_write(admin, folder, "configs.json", found)]


async def metrics(admin: AdminSession, *, cluster: str, folder: str = FOLDER) -> list[Change]:
    """Export message rates and daily totals of the brokers of a cluster."""
    masters = await admin.masters(None, cluster)
    reports = dict(
        zip(
            [await admin.name_at(each) for each in masters],
            await admin.all(_report(admin, each, cluster) for each in masters),
            strict=True,
        )
    )
    quotas = [each["runtimeQuota"] for each in reports.values()]
    found = {
        "evaluateReport": reports,
        "totalData": {
            "totalTps": {
                f"total{key[0].upper()}{key[1:]}": sum(each["tps"][key] for each in quotas)
                for key in _RATES
            },
            "totalOneDayNum": {
                key: sum(each["oneDayNum"][key] for each in quotas) for key in _DAYS
            },
        },
    }
    return [_write(admin, folder, "metrics.json", found)]


_RATES = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
_DAYS = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")


async def _report(admin: AdminSession, address: str, cluster: str) -> Table:
    stats = await brokers.runtime(admin, address)
    system = await _system_topics(admin, address)
    names = [name for name in await topics.configs(admin, address) if name not in system]
    known = [
        name
        for name in await groups.configs(admin, address)
        if name not in BUILT_IN_GROUPS and not is_system_group(name)
    ]
    counted = [
        await minute_and_day(admin, address, statistic, key)
        for statistic, key in (
            ("BROKER_PUT_NUMS", cluster),
            ("BROKER_GET_NUMS", cluster),
            ("TOPIC_PUT_NUMS", HALF_TOPIC),
            ("TOPIC_PUT_NUMS", SCHEDULE_TOPIC),
        )
    ]
    return {
        "runtimeVersion": {"rocketmqVersion": stats.get("brokerVersionDesc")},
        "runtimeQuota": {
            "diskRatio": {
                key: stats.get(key) for key in ("commitLogDiskRatio", "consumeQueueDiskRatio")
            },
            "topicSize": len([name for name in names if not name.startswith(_SPECIAL)]),
            "groupSize": len(known),
            "tps": {key: tps for key, (tps, _) in zip(_RATES, counted, strict=True)},
            "oneDayNum": {key: day for key, (_, day) in zip(_DAYS, counted, strict=True)},
            "messageAverageSize": stats.get("putMessageAverageSize"),
        },
    }


def _write(admin: AdminSession, folder: str, name: str, found: Table) -> Change:
    path = Path(folder) / name
    what = f"write {name}"
    if admin.config.dry_run:
        return Change(str(path), what, NOT_DONE)
    content = msgspec.json.format(msgspec.json.encode(found), indent=2)
    try:
        RealDisk().replace(path, content + b"\n")
    except OSError as error:
        raise BadSetting(f"{path} cannot be written: {error.strerror}") from error
    return Change(str(path), what, SUCCESS)
