"""Statistics of a broker, under RocketMQ's names.

A send or a pull adds to plain counters, and no more: rates are told from samples, which are taken
once a second of the whole broker and every ten of each queue. What was idle for a day is forgotten.
"""

from datetime import date, datetime

import msgspec

from cometmq.broker.statistics.put_latency import LatencyHistogram
from cometmq.broker.statistics.rates import DAY, HOUR, MINUTE, PERIODS, Item, Items, Rate, summed
from cometmq.protocol.bodies import stats as bodies
from cometmq.seams import Clock
from cometmq.store.log.new_message import NewMessages
from cometmq.store.queue.results import Found, StoredMessages

SAMPLE_MS = 1_000  # how often `sample` is to be called
_SEPARATOR = "@"  # no topic or group has it


class Total(msgspec.Struct, frozen=True):
    """A count since the start, and what it was at the last midnight and at the one before."""

    now: int
    today_morning: int
    yesterday_morning: int


class Statistics:
    """What goes in and out. `cluster` is the key of what is counted of the broker as a whole."""

    def __init__(self, clock: Clock, cluster: str) -> None:
        self._clock = clock
        self._cluster = cluster
        self.puts = Items()  # by topic and queue
        self.gets = Items()  # by topic@group and queue
        self.deliveries = Items()  # as gets, of the schedule topic: no consumer had them
        self.disk_gets = Items()  # those of them that were too far behind to be in memory
        self.returns = Items()  # by topic@group
        self._items = (self.puts, self.gets, self.deliveries, self.disk_gets, self.returns)
        self.misses = 0
        self.failed_puts = 0
        now_ms = clock.monotonic_ms()
        self.took = LatencyHistogram(now_ms)
        self.put_took = self.took.add  # takes the duration of a put in ms
        self._due_ms = [now_ms + period.every_ms for period in PERIODS]
        self._rates = {name: Rate(now_ms) for name in self._totals()}
        self._today = self._date()
        self._put_mornings = self._get_mornings = (0, 0)
        # A send and a pull look here: an attribute less on their way.
        self._put_queues = self.puts.by_name
        self._get_queues = self.gets.by_name

    # What sends and pulls call

    def put(self, topic: str, queue_id: int, count: int, size: int) -> None:
        """Count stored messages and their bytes."""
        queues = self._put_queues.get(topic)
        item = queues.get(queue_id) if queues is not None else None
        if item is None:
            item = self.puts.add(topic, queue_id)
        item.count += count
        item.size += size
        item.times += 1

    def put_each(self, messages: NewMessages, stored: StoredMessages) -> None:
        """As `put` of each, with its topic and queue."""
        put_queues = self._put_queues
        for topic, queue_id, size in zip(
            messages.topics, messages.queue_ids, stored.sizes, strict=True
        ):
            queues = put_queues.get(topic)
            item = queues.get(queue_id) if queues is not None else None
            if item is None:
                item = self.puts.add(topic, queue_id)
            item.count += 1
            item.size += size
            item.times += 1

    def got(self, group: str, topic: str, queue_id: int, count: int, size: int) -> None:
        """Count messages that were delivered to a group."""
        name = topic + _SEPARATOR + group
        queues = self._get_queues.get(name)
        item = queues.get(queue_id) if queues is not None else None
        if item is None:
            item = self.gets.add(name, queue_id)
        item.count += count
        item.size += size
        item.times += 1

    def delivered(self, group: str, topic: str, queue_id: int, size: int) -> None:
        """A delayed message left the topic in which it waited."""
        _count(self.deliveries, topic + _SEPARATOR + group, queue_id, 1, size)

    def got_from_disk(self, group: str, topic: str, queue_id: int, found: Found) -> None:
        """What a group is about to be given is too old to be in memory."""
        size = sum(map(len, found.views))
        _count(self.disk_gets, topic + _SEPARATOR + group, queue_id, found.count, size)

    def missed(self) -> None:
        """A pull found nothing."""
        self.misses += 1

    def put_failed(self) -> None:
        """The store refused a message."""
        self.failed_puts += 1

    def sent_back(self, group: str, topic: str) -> None:
        """A member of a group gave a message of a topic back."""
        name = topic + _SEPARATOR + group
        found = self.returns.find(name)
        item = found[0] if found else self.returns.add(name, 0)
        item.count += 1
        item.times += 1

    # What a timer calls

    async def sample(self) -> None:
        """Once a second: take what samples are due, and let the day turn."""
        now_ms = self._clock.monotonic_ms()
        for name, total in self._totals().items():
            self._rates[name].sample(now_ms, total)
        for period in PERIODS:
            if now_ms >= self._due_ms[period.at]:
                self._due_ms[period.at] = now_ms + period.every_ms
                for items in self._items:
                    items.sample(period, now_ms)
                    if period is DAY:
                        items.forget_idle()
        self.took.turn(now_ms)
        today = self._date()
        if today != self._today:
            self._today = today
            self._put_mornings = self.puts.total.count, self._put_mornings[0]
            self._get_mornings = self.gets.total.count, self._get_mornings[0]

    def _date(self) -> date:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000).astimezone().date()

    def _totals(self) -> dict[str, int]:
        """The rates of runtime information, by name."""
        gets = self.gets.total
        return {
            "putTps": self.puts.total.count,
            "getFoundTps": gets.times,
            "getMissTps": self.misses,
            "getTotalTps": gets.times + self.misses,
            "getTransferedTps": gets.count,
        }

    # What is shown

    @property
    def messages_put(self) -> Total:
        """How many were stored."""
        return Total(self.puts.total.count, *self._put_mornings)

    @property
    def messages_got(self) -> Total:
        """How many were given to consumers."""
        return Total(self.gets.total.count, *self._get_mornings)

    def rates(self) -> dict[str, str]:
        """Name to how many a second over 10, 60 and 600 s."""
        now_ms = self._clock.monotonic_ms()
        return {name: self._rates[name].text(now_ms, n) for name, n in self._totals().items()}

    def consume_tps(self, group: str, topic: str) -> float:
        """Messages a second that a group was given of a topic, over the last minute."""
        items = self.gets.find(topic + _SEPARATOR + group)
        return summed(items, MINUTE, self._clock.monotonic_ms()).tps if items else 0.0

    def view(self, name: str, key: str) -> bodies.BrokerStats | None:
        """A statistic by its name and key; None if nothing is counted under them."""
        items = self._items_of(name, key)
        if not items:
            return None
        now_ms = self._clock.monotonic_ms()
        of_size = name.endswith("_SIZE")
        day, hour, minute = (
            summed(items, period, now_ms, of_size=of_size) for period in (DAY, HOUR, MINUTE)
        )
        return bodies.BrokerStats(stats_day=day, stats_hour=hour, stats_minute=minute)

    def _items_of(self, name: str, key: str) -> list[Item]:
        kind, _, unit = name.rpartition("_")
        if unit not in ("NUMS", "SIZE"):
            return []
        match kind, key.split(_SEPARATOR):
            case "TOPIC_PUT", [topic]:
                return self.puts.find(topic)
            case "QUEUE_PUT", [topic, queue_id] if queue_id.isdecimal():
                return self.puts.find(topic, int(queue_id))
            case "GROUP_GET", [_, _]:
                return self.gets.find(key) + self.deliveries.find(key)
            case "QUEUE_GET", [topic, queue_id, group] if queue_id.isdecimal():
                both, at = topic + _SEPARATOR + group, int(queue_id)
                return self.gets.find(both, at) + self.deliveries.find(both, at)
            case "GROUP_GET_FROM_DISK", [_, _]:
                return self.disk_gets.find(key)
            case "BROKER_GET_FROM_DISK", [self._cluster]:
                return [self.disk_gets.total]
            case "SNDBCK_PUT", [_, _] if unit == "NUMS":
                return self.returns.find(key)
            case "BROKER_PUT", [self._cluster] if unit == "NUMS":
                return [self.puts.total]
            case "BROKER_GET", [self._cluster] if unit == "NUMS":
                return [self.gets.total]
        return []


def _count(items: Items, name: str, queue_id: int, count: int, size: int) -> None:
    """For what is counted seldom: sends and pulls do the same without a call."""
    queue = items.find(name, queue_id)
    item = queue[0] if queue else items.add(name, queue_id)
    item.count += count
    item.size += size
    item.times += 1
