"""Clusters: their brokers, and how busy each is."""

from collections.abc import AsyncIterator

from cometmq.admin import broker as brokers
from cometmq.admin.rows import Row
from cometmq.admin.session import AdminSession
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.stats import BrokerStats, StatsItem
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.query import ViewStatsHeader
from cometmq.protocol.java.fastjson import loads

_HOUR_MS = 3_600_000


class Node(Row, frozen=True):
    """One process of a broker. Rates are of the last ten seconds."""

    cluster_name: str
    broker_name: str
    broker_id: int
    addr: str
    version: str | None = None
    in_tps: float | None = None
    in_load: str | None = None  # requests that wait, and how long the first one does
    out_tps: float | None = None
    out_load: str | None = None
    page_cache_wait_ms: int | None = None
    hour: float | None = None  # since the oldest message
    space: float | None = None  # share of the disk that is used
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """It did not answer."""
        return self.error is not None


class NodeTotals(Row, frozen=True):
    """How many messages one process took and gave."""

    cluster_name: str
    broker_name: str
    in_total_yesterday: int | None = None
    out_total_yesterday: int | None = None
    in_total_today: int | None = None
    out_total_today: int | None = None
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """It did not answer."""
        return self.error is not None


Nodes = list[Node] | list[NodeTotals]


async def nodes(
    admin: AdminSession,
    *,
    more: bool = False,
    interval_s: int | None = None,
    rounds: int | None = None,
) -> AsyncIterator[Nodes]:
    """All brokers of all clusters; again and again, if there is an interval."""
    async for _ in admin.rounds(interval_s, rounds):
        yield await _nodes_now(admin, more)


async def _nodes_now(admin: AdminSession, more: bool) -> Nodes:
    found = await admin.cluster()
    places = [
        (cluster, name, number, address)
        for cluster, names in sorted(found.cluster_addr_table.items())
        for name in sorted(names)
        if name in found.broker_addr_table
        for number, address in sorted(found.broker_addr_table[name].broker_addrs.items())
    ]
    if more:
        return await admin.all(_totals(admin, *place) for place in places)
    return await admin.all(_node(admin, *place) for place in places)


async def _node(admin: AdminSession, cluster: str, name: str, number: int, address: str) -> Node:
    try:
        told = await brokers.runtime(admin, address)
    except (PeerError, WorldError) as error:
        return Node(cluster, name, number, address, error=str(error))
    earliest_ms = int(_number(told, "earliestMessageTimeStamp"))
    hours = (admin.clock.wall_ms() - earliest_ms) / _HOUR_MS if earliest_ms > 0 else 0.0
    return Node(
        cluster,
        name,
        number,
        address,
        told.get("brokerVersionDesc"),
        _number(told, "putTps"),
        _load(told, "send"),
        _number(told, "getTransferedTps"),
        _load(told, "pull"),
        int(_number(told, "pageCacheLockTimeMills")),
        round(hours, 2),
        _number(told, "commitLogDiskRatio"),
    )


async def _totals(
    admin: AdminSession, cluster: str, name: str, number: int, address: str
) -> NodeTotals:
    try:
        told = await brokers.runtime(admin, address)
    except (PeerError, WorldError) as error:
        return NodeTotals(cluster, name, error=str(error))
    put = [_number(told, f"msgPutTotal{day}") for day in _DAYS]
    got = [_number(told, f"msgGetTotal{day}") for day in _DAYS]
    return NodeTotals(
        cluster,
        name,
        int(put[1] - put[0]),
        int(got[1] - got[0]),
        int(put[2] - put[1]),
        int(got[2] - got[1]),
    )


_DAYS = ("YesterdayMorning", "TodayMorning", "TodayNow")


def _number(told: dict[str, str], key: str) -> float:
    """The first number of a value; 0 if there is none."""
    words = told.get(key, "").split()
    try:
        return float(words[0]) if words else 0.0
    except ValueError:
        return 0.0


def _load(told: dict[str, str], pool: str) -> str:
    size = int(_number(told, f"{pool}ThreadPoolQueueSize"))
    wait_ms = int(_number(told, f"{pool}ThreadPoolQueueHeadWaitTimeMills"))
    return f"{size},{wait_ms}ms"


async def minute_and_day(
    admin: AdminSession, address: str, name: str, key: str
) -> tuple[float, int]:
    """A statistic of a broker: its rate now, and its sum of a day; zeros if there is none yet."""
    header = ViewStatsHeader(stats_name=name, stats_key=key)
    try:
        response = await admin.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
    except PeerError:
        return 0.0, 0  # nothing was counted under this key
    found = loads(response.body, BrokerStats)
    longest = _longest(found)
    return (found.stats_minute or StatsItem()).tps, longest.sum


def _longest(found: BrokerStats) -> StatsItem:
    """A broker that is up for less than a day counts what there is."""
    for each in (found.stats_day, found.stats_hour, found.stats_minute):
        if each is not None and each.sum:
            return each
    return StatsItem()
