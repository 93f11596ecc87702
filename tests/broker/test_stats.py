"""Counters, and what is told of them: sums, rates, days."""

import asyncio

from cometmq.broker.statistics.rates import Items
from cometmq.broker.statistics.stats import SAMPLE_MS, Statistics
from cometmq.store.queue.results import Found, GetStatus
from cometmq.testing.clock import ManualClock

HOUR_MS = 3_600_000


class Watch:
    """Statistics whose time passes by `wait`, with a sample each second as in a broker."""

    def __init__(self):
        self.clock = ManualClock()
        self.stats = Statistics(self.clock, "C")

    def wait(self, seconds):
        async def passed():
            for _ in range(seconds):
                await self.clock.advance(SAMPLE_MS)
                await self.stats.sample()

        asyncio.run(passed())

    def wait_hours(self, hours):
        """With a sample each hour only: it is enough for what is told of a day."""

        async def passed():
            for _ in range(hours):
                await self.clock.advance(HOUR_MS)
                await self.stats.sample()

        asyncio.run(passed())

    def shown(self, name, key):
        found = self.stats.view(name, key)
        return None if found is None else found.stats_minute.sum


def found(count, *records):
    return Found(
        status=GetStatus.FOUND, next_offset=0, min_offset=0, max_offset=0, count=count,
        views=tuple(map(memoryview, records)),
    )  # fmt: skip


def test_each_name_has_its_key():
    watch = Watch()
    watch.stats.put("T", 0, 1, 100)
    watch.stats.put("T", 1, 4, 500)
    watch.stats.put("Other", 0, 1, 7)
    watch.stats.got("G", "T", 1, 3, 300)
    watch.stats.got("G", "T", 0, 2, 200)
    watch.stats.got("H", "T", 0, 1, 50)
    watch.stats.sent_back("G", "T")
    watch.stats.sent_back("G", "T")
    for queue_id, count in ((0, 1), (1, 2), (1, 2)):
        watch.stats.got_from_disk("G", "T", queue_id, found(count, b"four", b"and five"))
    watch.stats.got_from_disk("H", "T", 0, found(1, b"x"))
    assert {
        (name, key): watch.shown(name, key)
        for name, key in (
            ("TOPIC_PUT_NUMS", "T"), ("TOPIC_PUT_SIZE", "T"),
            ("QUEUE_PUT_NUMS", "T@1"), ("QUEUE_PUT_SIZE", "T@0"),
            ("GROUP_GET_NUMS", "T@G"), ("GROUP_GET_SIZE", "T@G"),
            ("QUEUE_GET_NUMS", "T@1@G"), ("QUEUE_GET_SIZE", "T@0@H"),
            ("SNDBCK_PUT_NUMS", "T@G"), ("BROKER_PUT_NUMS", "C"), ("BROKER_GET_NUMS", "C"),
            ("GROUP_GET_FROM_DISK_NUMS", "T@G"), ("GROUP_GET_FROM_DISK_SIZE", "T@G"),
            ("BROKER_GET_FROM_DISK_NUMS", "C"), ("BROKER_GET_FROM_DISK_SIZE", "C"),
        )
    } == {
        ("TOPIC_PUT_NUMS", "T"): 5, ("TOPIC_PUT_SIZE", "T"): 600,
        ("QUEUE_PUT_NUMS", "T@1"): 4, ("QUEUE_PUT_SIZE", "T@0"): 100,
        ("GROUP_GET_NUMS", "T@G"): 5, ("GROUP_GET_SIZE", "T@G"): 500,
        ("QUEUE_GET_NUMS", "T@1@G"): 3, ("QUEUE_GET_SIZE", "T@0@H"): 50,
        ("SNDBCK_PUT_NUMS", "T@G"): 2, ("BROKER_PUT_NUMS", "C"): 6, ("BROKER_GET_NUMS", "C"): 6,
        ("GROUP_GET_FROM_DISK_NUMS", "T@G"): 5, ("GROUP_GET_FROM_DISK_SIZE", "T@G"): 36,
        ("BROKER_GET_FROM_DISK_NUMS", "C"): 6, ("BROKER_GET_FROM_DISK_SIZE", "C"): 37,
    }  # fmt: skip


def test_what_was_never_counted_is_not_there():
    watch = Watch()
    watch.stats.put("T", 0, 1, 100)
    for name, key in (
        ("TOPIC_PUT_NUMS", "U"),
        ("QUEUE_PUT_NUMS", "T@1"),
        ("QUEUE_PUT_NUMS", "T@x"),
        ("QUEUE_PUT_NUMS", "T"),
        ("GROUP_GET_NUMS", "T@G"),
        ("BROKER_PUT_NUMS", "another cluster"),
        ("SNDBCK_PUT_SIZE", "T@G"),
        ("COMMERCIAL_SEND_TIMES", "T"),
        ("GROUP_GET_LATENCY", "0@T@G"),
        ("GROUP_GET_FROM_DISK_NUMS", "T@G"),
        ("", ""),
    ):
        assert watch.stats.view(name, key) is None, (name, key)


def test_windows_of_a_minute_hour_and_day_drop_older_samples():
    watch = Watch()
    watch.stats.put("T", 0, 60, 6000)
    sums = []
    for seconds in (0, 5, 55, 20, 3600, 600):
        watch.wait(seconds)
        found = watch.stats.view("TOPIC_PUT_NUMS", "T")
        sums.append((found.stats_minute.sum, found.stats_hour.sum, found.stats_day.sum))
    assert sums == [(60, 60, 60)] * 3 + [(0, 60, 60), (0, 60, 60), (0, 0, 60)]


def test_rates_of_an_item_are_over_the_time_that_passed():
    watch = Watch()
    watch.stats.put("T", 0, 30, 3000)
    watch.stats.put("T", 1, 20, 2000)
    minute = watch.stats.view("TOPIC_PUT_NUMS", "T").stats_minute
    assert (minute.sum, minute.tps, minute.avgpt) == (50, 5.0, 25.0)
    size = watch.stats.view("TOPIC_PUT_SIZE", "T").stats_minute
    assert (size.sum, size.tps, size.avgpt) == (5000, 500.0, 2500.0)
    watch.stats.got("G", "T", 0, 40, 1)
    assert watch.stats.consume_tps("G", "T") == 4.0
    assert watch.stats.consume_tps("nobody", "T") == 0.0


def test_rates_of_the_broker_over_three_times():
    watch = Watch()
    watch.wait(700)
    watch.stats.put("T", 0, 600, 1)
    watch.stats.got("G", "T", 0, 60, 1)
    watch.stats.missed()
    watch.wait(5)
    rates = watch.stats.rates()
    assert rates["putTps"] == "60.0 10.0 1.0"
    assert rates["getTransferedTps"] == "6.0 1.0 0.1"
    assert rates["getFoundTps"] == rates["getMissTps"]
    assert rates["getTotalTps"].startswith("0.2 ")
    watch.wait(30)
    assert watch.stats.rates()["putTps"] == "0.0 10.0 1.0"


def test_a_young_broker_tells_three_rates_too():
    watch = Watch()
    watch.wait(2)
    watch.stats.put("T", 0, 10, 1)
    assert watch.stats.rates()["putTps"] == "5.0 5.0 5.0"


def test_days_turn_at_midnight():
    watch = Watch()
    watch.stats.put("T", 0, 5, 1)
    watch.wait_hours(24)
    watch.stats.put("T", 0, 3, 1)
    watch.stats.got("G", "T", 0, 2, 1)
    put, got = watch.stats.messages_put, watch.stats.messages_got
    assert (put.yesterday_morning, put.today_morning, put.now) == (0, 5, 8)
    assert (got.yesterday_morning, got.today_morning, got.now) == (0, 0, 2)
    watch.wait_hours(24)
    put = watch.stats.messages_put
    assert (put.yesterday_morning, put.today_morning, put.now) == (5, 8, 8)


def test_counters_idle_for_a_day_are_dropped_but_stay_in_the_total():
    watch = Watch()
    watch.stats.put("idle", 0, 5, 1)
    watch.stats.put("busy", 0, 1, 1)
    for _ in range(26):
        watch.stats.put("busy", 0, 1, 1)
        watch.wait_hours(1)
    assert watch.stats.view("TOPIC_PUT_NUMS", "idle") is None
    assert watch.stats.view("TOPIC_PUT_NUMS", "busy").stats_day.sum == 24
    assert watch.stats.messages_put.now == 32
    assert list(watch.stats.puts.by_name) == ["busy"]


def test_past_the_limit_only_the_total_grows():
    items = Items(count_max=2)
    for name in ("a", "b", "c", "d"):
        items.add(name, 0).count += 1
    assert sorted(items.by_name) == ["a", "b"]
    assert items.total.count == 4


def test_put_times():
    watch = Watch()
    for took_ms, times in ((0, 980), (-5, 10), (7, 8), (400, 1), (99_000, 1)):
        for _ in range(times):
            watch.stats.put_took(took_ms)
    took = watch.stats.took
    assert took.ms_max == 99_000
    shown = took.distribution()
    assert shown.startswith("[<=0ms]:990 [0~10ms]:8 [10~50ms]:0 ")
    assert "[200~500ms]:1 " in shown
    assert shown.endswith("[5~10s]:0 [10s~]:1 ")
    assert len(shown.split()) == 13
    assert (took.percentile(0.99), took.percentile(0.999), took.percentile(1)) == (0, 400, 10_000)
    watch.wait(61)
    assert took.percentile(1) == 10_000, "of the last minute"
    watch.wait(61)
    assert (took.percentile(1), took.ms_max) == (0, 99_000)
