"""Jobs on small topics and stores: their results and files."""

import csv
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from spark.jobs_model import Events, closed_windows, is_picture
from spark.rows import NEEDS
from spark.sender import numbered
from spark.test_source import load, numbers

pytest.importorskip("pyspark", reason=NEEDS)
import pyarrow as pa
from pyspark.errors import StreamingQueryException

from cometmq.errors import BadSetting
from cometmq.spark.jobs.archive import archive
from cometmq.spark.jobs.dedup import dedup
from cometmq.spark.jobs.replay import Pace, replay
from cometmq.spark.jobs.scan import scan
from cometmq.spark.jobs.sources import finish
from cometmq.spark.jobs.windows import windows


def source_of(cluster, topic, **more):
    return {"nameServer": cluster.namesrv.address, "subscribe": topic, **more}


def of_report(found):
    (path,) = [path for path in found.files if path.suffix == ".csv"]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def pictures(found):
    return [path for path in found.files if path.suffix == ".png"]


def test_archive_resumes_from_checkpoint(spark, cluster, sender, tmp_path):
    sender.create("kept", 2)
    sender.batch("kept", 0, list(numbered(300)))
    first = archive(spark, source_of(cluster, "kept"), tmp_path)
    assert [row[1:] for row in first.rows] == [("kept", 300, 300 * 128)]
    sender.batch("kept", 1, list(numbered(50, first=300)))
    again = archive(spark, source_of(cluster, "kept"), tmp_path)
    assert sum(row[2] for row in again.rows) == 350
    assert sum(int(row["messages"]) for row in of_report(again)) == 350
    assert all(map(is_picture, pictures(again)))
    table = spark.read.parquet(str(tmp_path))
    assert sorted(int(row.body[:10]) for row in table.collect()) == list(range(350))


def test_archive_of_empty_topic(spark, cluster, sender, tmp_path):
    sender.create("silent", 1)
    found = archive(spark, source_of(cluster, "silent"), tmp_path)
    assert found.rows == []
    assert is_picture(pictures(found)[0])


def test_replay_sends_each_message_once_in_order(spark, cluster, sender, tmp_path):
    sender.create("played", 3)
    sender.create("other", 1)
    sender.create("again", 3)
    lake, out = tmp_path / "lake", tmp_path / "replay"
    server = {"nameServer": cluster.namesrv.address}
    for number in range(30):  # one by one, so that store times reflect the order
        body, properties = next(iter(numbered(1, first=number)))
        sender.batch("played", number % 3, [(body, properties)])
    sender.batch("other", 0, list(numbered(5, first=900)))
    archive(spark, source_of(cluster, "played,other"), lake)
    first = replay(spark, lake, server, "again", out, topics=("played",), rate=1000)
    assert sum(row[2] for row in first.rows) == 30
    rows = load(cluster, subscribe="again")
    assert numbers(rows) == list(range(30)), "each message once, none of the other topic"
    by_queue = {queue: [row for row in rows if row["queueId"] == queue] for queue in range(3)}
    for queue, found in by_queue.items():
        found.sort(key=lambda row: row["queueOffset"])
        assert [int(row["body"][:10]) for row in found] == list(range(queue, 30, 3))
    (some,) = [row for row in rows if int(row["body"][:10]) == 7]
    assert (some["tags"], some["keys"], dict(some["properties"])["n"]) == ("tag1", ["k7"], "7")

    sender.batch("played", 0, list(numbered(4, first=30)))
    archive(spark, source_of(cluster, "played,other"), lake)
    more = replay(spark, lake, server, "again", out, topics=("played",), rate=1000)
    assert sum(row[2] for row in more.rows) == 4, "the replay resumes"
    assert numbers(load(cluster, subscribe="again")) == list(range(34))
    assert is_picture(pictures(more)[0])


def test_replay_of_a_time_range(spark, cluster, sender, tmp_path):
    sender.create("timed", 1)
    sender.create("stretch", 1)
    sender.batch("timed", 0, list(numbered(10)))
    time.sleep(0.02)  # ensures different store times
    middle_ms = int(time.time() * 1000)
    time.sleep(0.02)
    sender.batch("timed", 0, list(numbered(6, first=10)))
    archive(spark, source_of(cluster, "timed"), tmp_path / "lake")
    server = {"nameServer": cluster.namesrv.address}
    for name, limits in (("late", {"start_ms": middle_ms}), ("early", {"end_ms": middle_ms})):
        replay(spark, tmp_path / "lake", server, "stretch", tmp_path / name, **limits)
    assert numbers(load(cluster, subscribe="stretch")) == list(range(16))


def test_pace_sorts_by_time_and_limits_the_rate():
    rows = pa.record_batch(
        {
            "storeTimestamp": [3, 1, 2],
            "queueOffset": [0, 0, 0],
            **{name: ["c", "a", "b"] for name in ("body", "tags", "keys", "properties", "queueId")},
        }
    )
    begun = time.monotonic()
    found = [row for batch in Pace(10)(iter([rows])) for row in batch["body"].to_pylist()]
    assert found == ["a", "b", "c"]
    assert time.monotonic() - begun >= 0.2, "the third message follows the first after 0.2 s"
    assert list(Pace(10)(iter([]))) == []


def test_scan_counts_messages_of_a_store(spark, cluster, sender, tmp_path):
    sender.create("counted", 2)
    for queue in range(2):
        sender.batch("counted", queue, list(numbered(100)))
    store = {"path": str(cluster.broker.folder / "store"), "by": "log"}
    found = scan(spark, store, tmp_path)
    (row,) = [row for row in found.rows if row[0] == "counted"]
    assert row[1:6] == (2, 200, 200 * 128, 0, 0)
    assert "counted" in {line["topic"] for line in of_report(found)}
    assert is_picture(pictures(found)[0])


def test_scan_reports_damaged_bodies_and_gaps(spark, cluster, sender, tmp_path):
    sender.create("hurt", 1)
    sender.batch("hurt", 0, [(b"x%08d" % number + b"#" * 64, {}) for number in range(10)])
    log = next(iter(sorted((cluster.broker.folder / "store" / "commitlog").iterdir())))
    copy = tmp_path / "copy" / "commitlog"
    copy.mkdir(parents=True)
    data = bytearray(log.read_bytes())
    body_at = data.index(b"x%08d" % 3)
    data[body_at + 20] ^= 1
    gone_at = data.index(b"x%08d" % 7) - 88  # the head of a record
    data[gone_at + 4] ^= 0xFF  # the magic: the record becomes invalid
    (copy / log.name).write_bytes(data)
    found = scan(spark, {"path": str(copy.parent), "by": "log"}, tmp_path / "out", verify=True)
    (row,) = [row for row in found.rows if row[0] == "hurt"]
    assert row[1:6] == (1, 8, 8 * 73, 1, 1)
    assert is_picture(pictures(found)[0])


def test_window_counts_with_late_data_match_model(spark, cluster, sender, tmp_path):
    sender.create("clicks", 1)
    # The second of each event in order of arrival, in micro-batches of four.
    batches = [[1, 4, 11, 12], [3, 21, 25, 2], [40, 5, 38, 41], [70, 33, 72, 6]]
    model = closed_windows([batches], window_s=10, watermark_s=15)
    assert model[0] == 5, "the last event is too late"
    assert 70 not in model, "its window is not closed"
    events = Events(sender)
    for second in (second for batch in batches for second in batch):
        events.send("clicks", second)
    source = source_of(cluster, "clicks", maxOffsetsPerTrigger="4")
    lengths = {"window_ms": 10_000, "watermark_ms": 15_000}
    found = windows(spark, source, tmp_path / "a", time="bornTimestamp", **lengths)
    assert {int(start.timestamp()): count for _, start, count in found.rows} == model
    assert {row[0] for row in found.rows} == {"clicks"}
    assert is_picture(pictures(found)[0])
    expression = "timestamp_seconds(cast(cast(body as string) as long))"
    other = windows(spark, source, tmp_path / "b", time=expression, **lengths)
    assert other.rows == found.rows

    more = [[140, 55, 41, 7]]  # in a later run; two events are too late
    for second in more[0]:
        events.send("clicks", second)
    model = closed_windows([batches, more], window_s=10, watermark_s=15)
    found = windows(spark, source, tmp_path / "a", time="bornTimestamp", **lengths)
    assert {int(start.timestamp()): count for _, start, count in found.rows} == model


def test_invalid_time_expression_is_named(spark, cluster, sender, tmp_path):
    sender.create("bad-time", 1)
    with pytest.raises(BadSetting, match="option --time is 'nothing'"):
        windows(spark, source_of(cluster, "bad-time"), tmp_path, time="nothing")


def test_dedup_keeps_the_first_of_each_key(spark, cluster, sender, tmp_path):
    sender.create("doubled", 1)
    sender.create("single", 1)
    sent = [(b"%d" % number, {"KEYS": f"k{number % 7}"}) for number in range(20)]
    sent += [(b"20", {}), (b"21", {})]  # without a key: both are kept
    sender.batch("doubled", 0, sent)
    source = source_of(cluster, "doubled")
    found = dedup(spark, source, tmp_path / "a", by="keys")
    assert found.rows == [(1, 22, 9, 13, 0)]
    keys = Counter(
        row["keys"][0] if row["keys"] else None
        for row in spark.read.parquet(str(tmp_path / "a")).collect()
    )
    assert keys == Counter({None: 2} | {f"k{number}": 1 for number in range(7)})

    sender.batch("doubled", 0, [(b"30", {"KEYS": "k1"}), (b"31", {"KEYS": "k9"})])
    again = dedup(spark, source, tmp_path / "a", by="keys")
    assert again.rows == [(1, 22, 9, 13, 0), (2, 2, 1, 1, 0)], (
        "keys of the previous run are remembered"
    )
    assert is_picture(pictures(again)[0])
    assert not again.alarm
    dedup(spark, source, tmp_path / "b", by="keys", to_topic="single")
    dedup(spark, source, tmp_path / "b", by="keys", to_topic="single")
    rows = load(cluster, subscribe="single")
    assert Counter(" ".join(row["keys"]) for row in rows) == Counter(
        {"": 2, "k9": 1} | {f"k{number}": 1 for number in range(7)}
    )


def test_dedup_reports_late_messages(spark, cluster, sender, tmp_path):
    for topic, first in (("early", 0), ("later", 20)):
        sender.create(topic, 1)
        sender.batch(topic, 0, list(numbered(20, first=first)))
        time.sleep(0.5)
    limits = {"by": "keys", "within_ms": 100}
    found = dedup(spark, source_of(cluster, "later"), tmp_path, **limits)
    assert (found.rows, found.alarm) == ([(1, 20, 20, 0, 0)], "")
    found = dedup(spark, source_of(cluster, "early,later"), tmp_path, **limits)
    assert found.rows == [(1, 20, 20, 0, 0), (2, 20, 0, 0, 20)]
    assert found.alarm.startswith("20 messages arrived later than --within allows")
    found = dedup(spark, source_of(cluster, "early,later"), tmp_path, **limits)
    assert not found.alarm, "late messages are reported once"


def test_times_are_reported_in_utc(spark, cluster, sender, tmp_path):
    sender.create("zoned", 1)
    Events(sender).send("zoned", 86_400)
    store = {"path": str(cluster.broker.folder / "store"), "by": "log"}
    found = scan(spark, store, tmp_path)
    (row,) = [row for row in found.rows if row[0] == "zoned"]
    assert abs((datetime.now(UTC) - row[-1]).total_seconds()) < 3600


class Busy:
    """A writer whose first starts fail. The progress of each start is its number."""

    def __init__(self, failures, reason):
        self._failures = failures
        self._reason = reason
        self.starts = 0
        self.recentProgress = []

    def option(self, *_):
        return self

    def trigger(self, **_):
        return self

    def start(self):
        self.starts += 1
        self.recentProgress = [self.starts]
        return self

    def stop(self):
        pass

    def awaitTermination(self):
        if self.starts <= self._failures:
            raise StreamingQueryException(self._reason)


def test_slow_worker_start_is_retried(tmp_path):
    reason = "[STREAM_FAILED] Query terminated: Python worker failed to connect back. SQLSTATE"
    assert finish(Busy(2, reason), tmp_path) == [1, 2, 3]
    for never in (Busy(3, reason), Busy(1, "something else")):
        with pytest.raises(StreamingQueryException):
            finish(never, tmp_path)
    assert never.starts == 1, "other errors are not retried"
