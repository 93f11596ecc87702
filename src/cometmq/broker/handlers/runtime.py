"""Requests about the broker itself: settings, runtime information, statistics."""

from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.schedule import Schedule
from cometmq.broker.parts import BrokerContext
from cometmq.broker.statistics.consumer_lag import FallBehind
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.storage import Storage
from cometmq.broker.tables.clients import Clients
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import DataVersion, KeyValues
from cometmq.protocol.codes import VERSION, VERSION_NAME, ResponseCode
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.headers.query import BrokerConfigReplyHeader, ViewStatsHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.java.values import double_text
from cometmq.remoting.dispatch import Call, Reply
from cometmq.settings.settings import as_properties

_NAMES_SHOWN_MAX = 100
_NO_POOL = 2**31 - 1  # free buffers of a pool that does not exist here
# Nothing here waits for a thread, or for a dispatcher behind the log; and a pull that waits for a
# message is no load.
_ALWAYS_ZERO = (
    "dispatchBehindBytes",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueHeadWaitTimeMills",
)


@dataclass(frozen=True, slots=True)
class RuntimeHandlers:
    """Settings, runtime information and statistics of the broker."""

    context: BrokerContext
    clients: Clients
    stats: Statistics
    behind: FallBehind
    storage: Storage
    schedule: Schedule

    async def update_config(self, call: Call, ask: NoHeader) -> Reply:
        await self.context.settings.update(call.command.body)
        return Reply()

    def config(self, call: Call, ask: NoHeader) -> Reply:
        version = DataVersion(
            counter=self.context.settings.changes, timestamp=self.context.started_ms
        )
        return Reply(
            header=BrokerConfigReplyHeader(version=dumps(version).decode()),
            body=as_properties(*self.context.settings.all).encode(),
        )

    def view_stats(self, call: Call, ask: ViewStatsHeader) -> Reply:
        name, key = ask.stats_name, ask.stats_key
        found = self.stats.view(name, key) or self.behind.view(name, key)
        if found is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return Reply(body=dumps(found))

    def info(self, call: Call, ask: NoHeader) -> Reply:
        table = {
            "bootTimestamp": str(self.context.started_ms),
            "runtime": _duration(call.received_ms - self.context.started_ms),
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_NAME,
            "startAcceptSendRequestTimeStamp": str(
                self.context.settings.now(BrokerConfig).start_accept_send_request_time_stamp
            ),
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
            # Only while it is busy: otherwise an idle broker would look busy.
            "pageCacheLockTimeMills": str(
                self.storage.page_cache.took_ms
                if self.storage.page_cache.is_busy(call.received_ms)
                else 0
            ),
            **dict.fromkeys(_ALWAYS_ZERO, "0"),
            **self._counted(),
            **self._stored(),
            **self._queued(),
            **self._differing(),
            **{
                f"scheduleMessageOffset_{level}": f"{offset},{end}"
                for level, (offset, end) in self.schedule.progress.items()
            },
        }
        return Reply(body=dumps(KeyValues(table=dict(sorted(table.items())))))

    def _counted(self) -> dict[str, str]:
        stats = self.stats
        puts, put, got = stats.puts.total, stats.messages_put, stats.messages_got
        return {
            "putMessageTimesTotal": str(puts.count),
            "putMessageSizeTotal": str(puts.size),
            "putMessageAverageSize": double_text(puts.size / puts.count if puts.count else 0.0),
            "putMessageFailedTimes": str(stats.failed_puts),
            "putMessageEntireTimeMax": str(stats.took.ms_max),
            "putMessageDistributeTime": stats.took.distribution(),
            "putLatency99": f"{stats.took.percentile(0.99):.2f}",
            "putLatency999": f"{stats.took.percentile(0.999):.2f}",
            "msgPutTotalYesterdayMorning": str(put.yesterday_morning),
            "msgPutTotalTodayMorning": str(put.today_morning),
            "msgPutTotalTodayNow": str(put.now),
            "msgGetTotalYesterdayMorning": str(got.yesterday_morning),
            "msgGetTotalTodayMorning": str(got.today_morning),
            "msgGetTotalTodayNow": str(got.now),
            **stats.rates(),
        }

    def _stored(self) -> dict[str, str]:
        facts = self.storage.facts
        start, end = facts.store.log_bounds
        log_ratio, queue_ratio = (double_text(round(each, 2)) for each in facts.used_ratios())
        total, free = map(_readable, facts.capacity())
        return {
            "commitLogMinOffset": str(start),
            "commitLogMaxOffset": str(end),
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{facts.files.commit_log}": log_ratio,
            "consumeQueueDiskRatio": queue_ratio,
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
            "remainHowManyDataToFlush": _readable(facts.unflushed_size()),
            "earliestMessageTimeStamp": str(facts.earliest_ms()),
            **_if_any("consumeQueueFilesSetAside", facts.store.queue_files_set_aside),
            **_if_any("consumeQueueRebuilds", facts.store.rebuilds),
            **_if_any("commitLogDamaged", facts.store.damaged),
        }

    def _differing(self) -> dict[str, str]:
        """Ours, and there only if members of a group subscribe differently: each loses some."""
        consumers = self.clients.consumers
        groups = sorted(name for name, group in consumers.items() if not group.agrees)
        shown, more = groups[:_NAMES_SHOWN_MAX], len(groups) - _NAMES_SHOWN_MAX
        if more > 0:
            shown.append(f"and {more} more")
        return {"groupsSubscribingDifferently": ", ".join(shown)} if shown else {}

    def _queued(self) -> dict[str, str]:
        config, waiting = self.context.settings.now(BrokerConfig), self.context.lanes.in_flight
        shown = {
            "sendThreadPoolQueueSize": waiting("send"),
            "sendThreadPoolQueueCapacity": config.send_thread_pool_queue_capacity,
            "pullThreadPoolQueueCapacity": config.pull_thread_pool_queue_capacity,
            "queryThreadPoolQueueSize": waiting("query"),
            "queryThreadPoolQueueCapacity": config.query_thread_pool_queue_capacity,
            "EndTransactionQueueSize": waiting("transaction"),
            "EndTransactionThreadPoolQueueCapacity": config.end_transaction_pool_queue_capacity,
        }
        return {key: str(count) for key, count in shown.items()}


def _if_any(name: str, count: int) -> dict[str, str]:
    return {name: str(count)} if count else {}


def _duration(passed_ms: int) -> str:
    minutes, seconds = divmod(max(passed_ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _readable(size: int) -> str:
    """`206 B`, `1.5 KiB`, `252.0 GiB`."""
    if size < 1024:
        return f"{size} B"
    value, unit = size / 1024, 0
    while value >= 1024:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {'KMGTPE'[unit]}iB"
