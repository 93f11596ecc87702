"""Monitoring jobs (traces, dead letters, lost messages, lag), compared with simple models."""

import csv
import time
from collections import Counter

import pytest

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.offset import UpdateOffsetHeader
from cometmq.protocol.headers.topic import CreateTopicHeader
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import ConsumedTrace, SentTrace, TakenTrace, encode_trace
from spark.jobs_model import Events, is_picture
from spark.rows import NEEDS
from spark.sender import numbered

pytest.importorskip("pyspark", reason=NEEDS)
from cometmq.errors import BadSetting, NoRoute
from cometmq.spark.jobs.archive import archive
from cometmq.spark.jobs.dlq import dlq
from cometmq.spark.jobs.lag import lag
from cometmq.spark.jobs.reconcile import Consumed, reconcile
from cometmq.spark.jobs.trace import trace


def server_of(cluster):
    return {"nameServer": cluster.namesrv.address}


def pictures(found):
    return [path for path in found.files if path.suffix == ".png"]


def percentile(values, share):
    """Like Spark's: linear interpolation between the two nearest ranks."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (ordered[high] - ordered[low]) * (place - low), 1)


def test_durations_of_traced_calls_by_group(spark, cluster, sender, tmp_path):
    sent = {"shop": [number % 17 for number in range(60)], "bank": [5, 900, 40_000]}
    begun_ms = 1_750_000_000_000
    texts = [
        encode_trace(
            SentTrace(
                time_ms=begun_ms + 60_000 * number, region_id="r", group=group, topic="t",
                message_id=f"{group}{number}", cost_ms=cost, success=cost < 1000,
            )
        )
        for group, costs in sent.items() for number, cost in enumerate(costs)
    ]  # fmt: skip
    consumed = {"billing": [number * number for number in range(40)], "audit": [7, 8]}
    for group, costs in consumed.items():
        for number, cost in enumerate(costs):
            name = f"{group}{number}"
            known = {"request_id": f"request {name}", "message_id": name}
            taken = TakenTrace(time_ms=begun_ms, region_id="r", group=group, **known)
            ended = {"time_ms": begun_ms, "group": group} if group == "audit" else {}
            done = ConsumedTrace(cost_ms=cost, success=number != 3, **known, **ended)
            texts += [encode_trace(taken), encode_trace(done)]
    texts.append("Nonsense\x01x\x02")
    for start in range(0, len(texts), 20):
        sender.one(TRACE_TOPIC, 0, "".join(texts[start : start + 20]).encode())

    found = trace(spark, {**server_of(cluster), "subscribe": TRACE_TOPIC}, tmp_path)
    wanted = [
        (
            kind, group, len(costs), sum(failed(kind, *each) for each in enumerate(costs)),
            *(percentile(costs, share) for share in (0.5, 0.95, 0.99)), max(costs),
        )
        for kind, table in (("consume", consumed), ("send", sent))
        for group, costs in sorted(table.items())
    ]  # fmt: skip
    assert found.rows == [*wanted, ("unreadable", "?", 1, 0, None, None, None, None)]
    assert len(pictures(found)) == 2
    assert all(map(is_picture, pictures(found)))


def failed(kind, number, cost):
    return cost >= 1000 if kind == "send" else number == 3


def test_dead_letters_and_retries_are_grouped(spark, cluster, sender, tmp_path):
    for name in ("%DLQ%billing", "%RETRY%billing", "%DLQ%audit"):
        sender.create(name, 1)
    model = Counter()
    events = Events(sender)
    for number in range(30):
        kind = "dead" if number % 3 else "retry"
        topic, tag, times = f"orders{number % 2}", f"tag{number % 5}", number % 4
        properties = f"RETRY_TOPIC\x01{topic}\x02TAGS\x01{tag}"
        place = ("%DLQ%" if kind == "dead" else "%RETRY%") + "billing"
        events.send(place, number + 1, properties=properties, attempts=times)
        model[kind, "billing", topic, tag, times] += 1
    events.send("%DLQ%audit", 1, attempts=16)
    model["dead", "audit", "?", "", 16] += 1
    found = dlq(spark, server_of(cluster), tmp_path)
    assert Counter({row[:5]: row[5] for row in found.rows}) == model
    only = dlq(spark, server_of(cluster), tmp_path, ("audit",))
    assert [row[:6] for row in only.rows] == [("dead", "audit", "?", "", 16, 1)]
    assert is_picture(pictures(found)[0])
    with pytest.raises(NoRoute, match=r"of the groups nobody exists at 127\.0\.0\.1"):
        dlq(spark, server_of(cluster), tmp_path, ("nobody",))


def test_unreadable_dead_letters_are_counted_by_offsets(spark, cluster, sender, tmp_path):
    sender.create("%DLQ%closed", 1)
    for number in range(4):
        Events(sender).send("%DLQ%closed", number + 1)
    header = CreateTopicHeader(
        topic="%DLQ%closed", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1,
        perm=2, topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    sender.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    found = dlq(spark, server_of(cluster), tmp_path, ("closed",))
    assert [row[:6] for row in found.rows] == [("dead", "closed", "? (not readable)", "?", None, 4)]


def test_reconcile_with_traces_of_a_group(spark, cluster, sender, tmp_path):
    sender.create("paid", 2)
    sent = sender.batch("paid", 0, list(numbered(40)))
    ids = [properties["UNIQ_KEY"] for _, _, properties in sent]
    now_ms = int(time.time() * 1000)
    states = {0: "lost", 1: "late", 2: "double", 3: "lost", 4: "lost"}
    texts = []
    for number, name in enumerate(ids):
        state = states.get(number, "consumed")
        if state == "lost" and number != 3:
            continue
        for turn in range(2 if state == "double" else 1):
            texts.append(
                encode_trace(
                    ConsumedTrace(
                        request_id=f"{name}.{turn}", message_id=name, success=number != 3,
                        time_ms=now_ms + (600_000 if state == "late" else turn), group="cashier",
                    )
                )
            )  # fmt: skip
    stranger = ConsumedTrace(request_id="x", message_id=ids[4], time_ms=now_ms, group="others")
    texts.append(encode_trace(stranger))
    sender.one(TRACE_TOPIC, 0, "".join(texts).encode())
    consumed = Consumed(group="cashier", trace={**server_of(cluster), "subscribe": TRACE_TOPIC})
    found = reconcile(
        spark, {**server_of(cluster), "subscribe": "paid"}, consumed, tmp_path,
        by="id", late_ms=60_000, now_ms=now_ms + 120_000,
    )  # fmt: skip
    assert list(found.columns) == ["topic", "consumed", "late", "double", "waiting", "lost"]
    assert found.rows == [["paid", 35, 1, 1, 0, 3]]
    assert found.alarm.startswith("3 messages are lost")
    rows = spark.read.parquet(str(tmp_path / "keys")).collect()
    assert {ids.index(row.key): row.state for row in rows} == states
    assert is_picture(pictures(found)[0])
    young = reconcile(
        spark, {**server_of(cluster), "subscribe": "paid"}, consumed, tmp_path,
        by="id", late_ms=60_000, now_ms=now_ms,
    )  # fmt: skip
    assert young.rows == [["paid", 35, 1, 1, 3, 0]], "not older than --late"
    assert not young.alarm


def test_reconcile_with_another_topic_and_an_archive(spark, cluster, sender, tmp_path):
    sender.create("asked", 1)
    sender.create("answered", 1)
    entries = list(numbered(12))
    sender.batch("asked", 0, entries)
    sender.batch("answered", 0, [*entries[:5], *entries[6:], entries[7]])
    asked = {**server_of(cluster), "subscribe": "asked"}
    limits = {"late_ms": 600_000, "now_ms": int(time.time() * 1000) + 10**6}
    topic = Consumed(topic={**server_of(cluster), "subscribe": "answered"})
    by_keys = reconcile(spark, asked, topic, tmp_path / "a", by="keys", **limits)
    assert by_keys.rows == [["asked", 10, 0, 1, 0, 1]]
    by_property = reconcile(spark, asked, topic, tmp_path / "b", by="property:n", **limits)
    assert by_property.rows == by_keys.rows
    archive(spark, asked, tmp_path / "lake")
    lake = Consumed(lake=tmp_path / "lake")
    whole = reconcile(spark, asked, lake, tmp_path / "c", by="id", **limits)
    assert whole.rows == [["asked", 12, 0, 0, 0, 0]]
    assert not whole.alarm
    both = {**server_of(cluster), "subscribe": "answered,asked"}
    with pytest.raises(BadSetting, match="with --key keys, a message consumed from one"):
        reconcile(spark, both, topic, tmp_path / "d", by="keys", **limits)
    by_id = reconcile(spark, both, lake, tmp_path / "e", by="id", **limits)
    assert by_id.rows == [["answered", 0, 0, 0, 0, 12], whole.rows[0]]


def test_lag_of_groups_over_time(spark, cluster, sender, tmp_path):
    sender.create("work", 2)
    sender.batch("work", 0, list(numbered(30)))
    sender.batch("work", 1, list(numbered(10)))

    def consumed(offset):
        header = UpdateOffsetHeader(
            consumer_group="workers", topic="work", queue_id=0, commit_offset=offset
        )
        sender.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    consumed(10)
    first = lag(spark, server_of(cluster), tmp_path, ["workers"], 35)
    assert behind(first) == {("work", 0): 20, ("work", 1): 10}, (
        "a queue without an offset counts all messages"
    )
    assert not first.alarm
    consumed(28)
    sender.batch("work", 0, list(numbered(50, first=30)))
    again = lag(spark, server_of(cluster), tmp_path, ["workers"], 35)
    assert behind(again) == {("work", 0): 52, ("work", 1): 10}
    assert again.alarm == "workers lags by 62 messages"
    with (tmp_path / "samples.csv").open(newline="") as file:
        assert [int(row["behind"]) for row in csv.DictReader(file)] == [20, 10, 52, 10]
    assert is_picture(pictures(again)[0])
    with pytest.raises(NoRoute, match="no broker has offsets of group nobody"):
        lag(spark, server_of(cluster), tmp_path, ["nobody"])


def behind(found):
    return {(row[2], row[4]): row[7] for row in found.rows}
