"""The brokers of all clusters, with their rates and load."""

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
    """A master or slave of a broker. Rates are those of the last ten seconds."""

    cluster_name: str
    broker_name: str
    broker_id: int
    addr: str
    version: str | None = None
    in_tps: float | None = None
    in_load: str | None = None  # queued requests, and the wait of the first one
    out_tps: float | None = None
    out_load: str | None = None
    page_cache_wait_ms: int | None = None
    hour: float | None = None  # age of the oldest message
    space: float | None = None  # used share of the disk
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """Did the broker not answer?"""
        return self.error is not None


class NodeTotals(Row, frozen=True):
    """The messages that a broker stored and delivered."""

    cluster_name: str
    broker_name: str
    in_total_yesterday: int | None = None
    out_total_yesterday: int | None = None
    in_total_today: int | None = None
    out_total_today: int | None = None
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """Did the broker not answer?"""
        return self.error is not None


Nodes = list[Node] | list[NodeTotals]


async def nodes(
    admin: AdminSession,
    *,
    more: bool = False,
    interval_s: int | None = None,
    rounds: int | None = None,
) -> AsyncIterator[Nodes]:
    """All brokers of all clusters; repeatedly if an interval is given."""
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
        values = await brokers.runtime(admin, address)
    except (PeerError, WorldError) as error:
        return Node(cluster, name, number, address, error=str(error))
    earliest_ms = int(_number(values, "earliestMessageTimeStamp"))
    hours = (admin.clock.wall_ms() - earliest_ms) / _HOUR_MS if earliest_ms > 0 else 0.0
    return Node(
        cluster,
        name,
        number,
        address,
        values.get("brokerVersionDesc"),
        _number(values, "putTps"),
        _load(values, "send"),
        _number(values, "getTransferedTps"),
        _load(values, "pull"),
        int(_number(values, "pageCacheLockTimeMills")),
        round(hours, 2),
        _number(values, "commitLogDiskRatio"),
    )


async def _totals(
    admin: AdminSession, cluster: str, name: str, number: int, address: str
) -> NodeTotals:
    try:
        values = await brokers.runtime(admin, address)
    except (PeerError, WorldError) as error:
        return NodeTotals(cluster, name, error=str(error))
    put = [_number(values, f"msgPutTotal{day}") for day in _DAYS]
    got = [_number(values, f"msgGetTotal{day}") for day in _DAYS]
    return NodeTotals(
        cluster,
        name,
        int(put[1] - put[0]),
        int(got[1] - got[0]),
        int(put[2] - put[1]),
        int(got[2] - got[1]),
    )


_DAYS = ("YesterdayMorning", "TodayMorning", "TodayNow")


def _number(values: dict[str, str], key: str) -> float:
    """The first number of a value; 0 if it has none."""
    words = values.get(key, "").split()
    try:
        return float(words[0]) if words else 0.0
    except ValueError:
        return 0.0


def _load(values: dict[str, str], pool: str) -> str:
    size = int(_number(values, f"{pool}ThreadPoolQueueSize"))
    wait_ms = int(_number(values, f"{pool}ThreadPoolQueueHeadWaitTimeMills"))
    return f"{size},{wait_ms}ms"


async def minute_and_day(
    admin: AdminSession, address: str, name: str, key: str
) -> tuple[float, int]:
    """A statistic of a broker: its current rate and its sum of a day; zeros if it is unknown."""
    header = ViewStatsHeader(stats_name=name, stats_key=key)
    try:
        response = await admin.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
    except PeerError:
        return 0.0, 0  # no value was counted for this key yet
    found = loads(response.body, BrokerStats)
    longest = _longest(found)
    return (found.stats_minute or StatsItem()).tps, longest.sum


def _longest(found: BrokerStats) -> StatsItem:
    """The longest period that has a sum: a broker may run for less than a day."""
    for each in (found.stats_day, found.stats_hour, found.stats_minute):
        if each is not None and each.sum:
            return each
    return StatsItem()
