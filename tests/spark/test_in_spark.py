"""The formats in a real Spark: batches, streams, checkpoints, windows and errors."""

import os
import time
from collections import Counter

import pytest

from cometmq.protocol.bodies.queues import MessageQueue
from spark.rows import NEEDS
from spark.sender import numbered
from spark.test_source import load, numbers, own, wait_for
from spark.test_trouble import clean

pytest.importorskip("pyspark", reason=NEEDS)
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions

from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access
from cometmq.spark.read.progress import GroupOffsets
from spark.streams import finished, running_query

ROWS = int(os.environ.get("COMETMQ_SPARK_ROWS", "16000")) // 8 * 8


def reader(spark, cluster, **options):
    made = spark.read.format("rocketmq").option("nameServer", cluster.namesrv.address)
    return made.options(**options).load()


def stream(spark, cluster, **options):
    made = spark.readStream.format("rocketmq").option("nameServer", cluster.namesrv.address)
    return made.options(**options).load()


def copied(rows, folder, **options):
    """Return a writer that copies the rows to a folder."""
    writer = rows.writeStream.format("parquet").option("path", str(folder / "lake"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**options)


def test_batch_read_and_write_round_trip(spark, cluster, sender):
    sender.create("there", 3)
    sender.create("back", 2)
    for queue in range(3):
        sender.batch("there", queue, list(numbered(400, first=queue * 400)))
    table = reader(spark, cluster, subscribe="there", minPartitions=5)
    assert table.count() == 1200
    assert table.where("tags = 'tag1'").count() == 400
    first = table.orderBy("body").first()
    assert first["properties"]["n"] == "0"
    assert first["keys"] == ["k0"]
    out = table.select("body", "tags", "keys", "properties")
    writer = out.write.format("rocketmq").option("nameServer", cluster.namesrv.address)
    writer.option("topic", "back").mode("append").save()
    there, back = load(cluster, subscribe="there"), load(cluster, subscribe="back")
    assert numbers(back) == numbers(there) == list(range(1200))
    by_number = {int(row["body"][:10]): row for row in back}
    assert dict(by_number[7]["properties"])["n"] == "7"
    assert by_number[7]["tags"] == "tag1"


def test_rows_of_many_topics_and_queues_equal_sent_messages(spark, cluster, sender):
    wanted = {}
    begun_ms = time.time() * 1000
    topics = {"many-a": 1, "many-b": 3, "many-c": 4}
    for topic, queues in topics.items():
        sender.create(topic, queues)
        count = ROWS // 8
        for queue in range(queues):
            sent = sender.batch(topic, queue, list(numbered(count, first=queue * count)), size=1000)
            for offset, (_, body, properties) in enumerate(sent):
                wanted[topic, queue, offset] = body, properties
    found = reader(spark, cluster, subscribe=",".join(topics), minPartitions=12).toArrow()
    assert found.num_rows == len(wanted) == ROWS
    columns = ["topic", "queueId", "queueOffset", "body", "properties", "storeTimestamp"]
    for row in zip(*(found[name].to_pylist() for name in columns), strict=True):
        body, properties = wanted.pop(row[:3])
        assert (row[3], own(row[4])) == (body, properties)
        assert begun_ms - 1000 <= row[5].timestamp() * 1000 <= time.time() * 1000 + 1000
    assert not wanted


def test_stream_resumes_from_checkpoint(spark, cluster, sender, tmp_path):
    sender.create("flow", 2)
    sender.batch("flow", 0, list(numbered(250)))

    def run():
        rows = stream(
            spark, cluster, subscribe="flow", startingOffsets="earliest", maxOffsetsPerTrigger=100
        )
        query = finished(copied(rows, tmp_path, availableNow=True))
        return [p.numInputRows for p in query.recentProgress if p.numInputRows]

    assert run() == [100, 100, 50]
    sender.batch("flow", 1, list(numbered(30, first=250)))
    assert run() == [30]
    lake = spark.read.parquet(str(tmp_path / "lake"))
    assert sorted(int(row.body[:10]) for row in lake.collect()) == list(range(280))


def test_listener_commits_offsets_of_a_stream(spark, cluster, sender, tmp_path):
    sender.create("shown", 1)
    sender.batch("shown", 0, list(numbered(50)))
    listener = GroupOffsets(cluster.namesrv.address, "watchers")
    spark.streams.addListener(listener)
    try:
        rows = stream(spark, cluster, subscribe="shown", startingOffsets="earliest")
        writer = rows.writeStream.format("noop").trigger(availableNow=True)
        finished(writer.option("checkpointLocation", str(tmp_path)))
        servers = Cluster((cluster.namesrv.address,), Access())
        queue = MessageQueue("shown", "broker-a", 0)
        # Includes the last batch, for which Spark does not call `commit` of the source.
        assert wait_for(lambda: servers.consumer_offset("watchers", queue) or None) == 50
        assert listener.lag == 0
    finally:
        spark.streams.removeListener(listener)


def test_window_counts_with_late_data_match_model(spark, cluster, sender, tmp_path):
    sender.create("clicks", 1)
    # The second of each event in order of arrival, in micro-batches of four.
    batches = [[1, 4, 11, 12], [3, 21, 25, 2], [40, 5, 38, 41], [70, 33, 72, 6]]
    model, passed, passed_before = Counter(), 0, 0
    for batch in batches:
        for second in batch:
            if (
                second // 10 * 10 + 10 > passed_before
            ):  # Spark applies the watermark of the previous batch
                model[second // 10 * 10] += 1
        passed_before, passed = passed, max(passed, max(batch) - 15)
    assert model[0] == 5, "the last event is too late"
    sender.batch("clicks", 0, [(str(second).encode(), {}) for batch in batches for second in batch])
    events = stream(
        spark, cluster, subscribe="clicks", startingOffsets="earliest", maxOffsetsPerTrigger=4
    ).selectExpr("timestamp_seconds(cast(cast(body as string) as long)) as at")
    windows = functions.window("at", "10 seconds")
    counts = events.withWatermark("at", "15 seconds").groupBy(windows).count()
    writer = counts.writeStream.format("memory").queryName("windows").outputMode("append")
    finished(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
    found = {
        int(row.window.start.timestamp()): row["count"]
        for row in spark.sql("select * from windows").collect()
    }
    closed = {start: count for start, count in model.items() if start + 10 <= passed}
    assert found == closed


def test_running_stream_reads_new_queues_and_topics(spark, cluster, sender, tmp_path):
    sender.create("run-a", 1)
    sender.batch("run-a", 0, list(numbered(10)))
    rows = stream(spark, cluster, subscribePattern="run-.", startingOffsets="earliest")
    query = running_query(copied(rows, tmp_path, processingTime="100 milliseconds"))
    try:
        sender.create("run-a", 2)
        sender.create("run-b", 1)
        sender.batch("run-a", 1, list(numbered(10, first=10)))
        sender.batch("run-b", 0, list(numbered(10, first=20)))

        def read():
            query.processAllAvailable()
            found = spark.read.parquet(str(tmp_path / "lake")).collect()
            return found if len(found) >= 30 else None

        assert sorted(int(row.body[:10]) for row in wait_for(read)) == list(range(30))
    finally:
        query.stop()


def test_stream_from_timestamp_with_tags_or_sql(spark, cluster, sender, tmp_path):
    sender.create("later", 2)
    sender.batch("later", 0, list(numbered(9)))
    time.sleep(0.05)
    moment = int(time.time() * 1000)
    time.sleep(0.05)
    for queue in range(2):
        sender.batch("later", queue, list(numbered(9, first=9 + 9 * queue)))
    choices = {"tags": ("tag1", range(10, 27, 3)), "sql92": ("n >= 20", range(20, 27))}
    for option, (expression, wanted) in choices.items():
        rows = stream(
            spark, cluster, subscribe="later", startingTimestamp=moment, **{option: expression}
        )
        finished(copied(rows, tmp_path / option, availableNow=True))
        found = spark.read.parquet(str(tmp_path / option / "lake")).collect()
        assert sorted(int(row.body[:10]) for row in found) == list(wanted)


def test_resumed_query_detects_deleted_messages(spark, cluster, sender, tmp_path):
    sender.create("gone", 1)
    sender.batch("gone", 0, list(numbered(10)))

    def run(**options):
        rows = stream(spark, cluster, subscribe="gone", startingOffsets="earliest", **options)
        finished(copied(rows, tmp_path, availableNow=True))

    run()
    count = 40_000  # more than two files of the log
    sender.batch("gone", 0, list(numbered(count - 10, size=256, first=10)))
    clean(cluster, sender)
    servers = Cluster((cluster.namesrv.address,), Access())
    queue = MessageQueue("gone", "broker-a", 0)
    wait_for(lambda: servers.min_offset(queue) or None)
    with pytest.raises(StreamingQueryException, match=r"gone/broker-a/0 10 to .*failOnDataLoss"):
        run()
    before = servers.min_offset(queue)
    run(failOnDataLoss="false")
    found = sorted(
        int(row.body[:10]) for row in spark.read.parquet(str(tmp_path / "lake")).collect()
    )
    first = found[10]
    assert found == [*range(10), *range(first, count)]
    # The broker deletes one file at a time and may not be finished.
    assert before <= first <= servers.min_offset(queue)


WRONG = [
    ({"subscribe": "nobody"}, "topic nobody is unknown"),
    ({"subscribe": "errors", "nameServer": "127.0.0.1:1"}, r"127\.0\.0\.1:1.*nameServer"),
    ({"subscribe": "errors", "maxOfsetsPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_read_errors_reach_the_user(spark, cluster, tmp_path, options, words):
    with pytest.raises(Exception, match=words):
        reader(spark, cluster, **options).count()
    with pytest.raises(Exception, match=words):
        rows = stream(spark, cluster, **options)
        finished(copied(rows, tmp_path, availableNow=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "nobody"}, "topic nobody is unknown"),
        ({"topic": "errors", "nameServer": "127.0.0.1:1"}, r"127\.0\.0\.1:1.*nameServer"),
        ({"topic": "errors", "delivry": "exactly-once"}, "did you mean delivery"),
        ({"topic": "errors", "delivery": "twice"}, "option delivery is 'twice'"),
    ],
)
def test_write_errors_reach_the_user(spark, cluster, sender, tmp_path, options, words):
    sender.create("errors", 1)
    sender.batch("errors", 0, list(numbered(3)))
    options = {"nameServer": cluster.namesrv.address} | options
    table = spark.range(3).selectExpr("cast(id as string) as body")
    with pytest.raises(Exception, match=words):
        table.write.format("rocketmq").options(**options).mode("append").save()
    rows = stream(spark, cluster, subscribe="errors", startingOffsets="earliest", columns="body")
    writer = rows.writeStream.format("rocketmq").options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=words):
        finished(writer.trigger(availableNow=True))


def test_exactly_once_rejects_adaptive_partitioning(spark, cluster, sender, tmp_path):
    sender.create("cut-from", 1)
    sender.create("cut-to", 1)
    sender.batch("cut-from", 0, list(numbered(3)))
    rows = stream(spark, cluster, subscribe="cut-from", startingOffsets="earliest", columns="body")
    writer = rows.writeStream.format("rocketmq").option("nameServer", cluster.namesrv.address)
    writer = writer.option("topic", "cut-to").option("checkpointLocation", str(tmp_path))
    writer = writer.trigger(availableNow=True).option("delivery", "exactly-once")
    setting = "spark.sql.adaptive.streaming.stateless.enabled"
    before = spark.conf.get(setting)
    spark.conf.unset(setting)
    try:
        with pytest.raises(Exception, match=f"needs the setting {setting}=false"):
            finished(writer)
        assert not load(cluster, subscribe="cut-to")
    finally:
        spark.conf.set(setting, before)
    finished(writer)
    wait_for(lambda: True if len(load(cluster, subscribe="cut-to")) == 3 else None)
