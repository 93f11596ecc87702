"""Reading topics from cometmq and Apache brokers."""

import json
import pickle
import re
import socket
import time
from types import SimpleNamespace

import pytest

from cometmq.errors import PeerError, TimedOut, UserError, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from spark.rows import NEEDS
from spark.sender import numbered

pytest.importorskip("pyspark", reason=NEEDS)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access
from cometmq.spark.read.progress import GroupOffsets
from cometmq.spark.read.pull import DataLost, RangePull
from cometmq.spark.read.source import RocketMQSource


def parts_of(cluster, **options):
    source = RocketMQSource({"nameServer": cluster.namesrv.address} | options)
    reader = source.reader(None)
    return reader, reader.partitions()


def load(cluster, **options):
    """Return the rows of a read as workers produce them, without a JVM."""
    reader, parts = parts_of(cluster, **options)
    batches = [batch for part in parts for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def numbers(rows):
    return sorted(int(row["body"][:10]) for row in rows)


@pytest.fixture(scope="module")
def orders(cluster):
    """Two topics with 2000 messages each, with four queues and with one."""
    from spark.sender import Sender

    sender = Sender(cluster.broker.address)
    sent = {}
    for topic, queues in (("orders", 4), ("bills", 1)):
        sender.create(topic, queues)
        sent[topic] = []
        for queue in range(queues):
            count = 2000 // queues
            sent[topic] += sender.batch(topic, queue, list(numbered(count, first=queue * count)))
    sender.close()
    return sent


def test_batch_read_equals_sent_messages(cluster, orders):
    rows = load(cluster, subscribe="orders,bills")
    for topic, sent in orders.items():
        offsets, wanted = {}, []
        for queue, body, properties in sent:
            offset = offsets[queue] = offsets.get(queue, -1) + 1
            wanted.append((queue, offset, body, properties))
        found = [
            (row["queueId"], row["queueOffset"], row["body"], own(row["properties"]))
            for row in rows
            if row["topic"] == topic
        ]
        assert found == wanted
    (one,) = [
        row
        for row in rows
        if (row["topic"], row["queueId"], row["queueOffset"]) == ("orders", 2, 7)
    ]
    assert one["brokerName"] == "broker-a"
    assert one["tags"] == "tag2"
    assert one["keys"] == ["k1007"]
    assert one["msgId"] == dict(one["properties"])["UNIQ_KEY"]
    assert one["storeHost"] == cluster.broker.address
    assert one["bornHost"].startswith("127.0.0.1:")
    assert abs(one["storeTimestamp"].timestamp() - time.time()) < 600


def own(properties):
    """Remove the properties that brokers add to messages of a batch."""
    return {name: value for name, value in properties if name not in ("CLUSTER", "TRACE_ON")}


def test_offsets_columns_and_partitions(cluster, orders):
    start = json.dumps({"orders": {"broker-a": {"0": 490, "1": -1, "2": 10, "3": -2}}})
    end = json.dumps({"orders": {"broker-a": {"0": -1, "1": -1, "2": 20, "3": 5}}})
    table = load(
        cluster, subscribe="orders", startingOffsets=start, endingOffsets=end,
        columns="queueOffset,body",
    )  # fmt: skip
    assert list(table[0]) == ["queueOffset", "body"]
    assert numbers(table) == [*range(490, 500), *range(1010, 1020), *range(1500, 1505)]
    for unnamed, count in (('{"orders":{"broker-a":{"0":5}}}', 1505), ("{}", 2000)):
        assert len(load(cluster, subscribe="orders", endingOffsets=unnamed)) == count
    reader, parts = parts_of(cluster, subscribe="bills", minPartitions="7")
    assert len(parts) == 7
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 2000
    few = {"assign": '{"orders":{"broker-a":[3]}}', "maxRecordsPerPartition": "200"}
    assert len(parts_of(cluster, **few)[1]) == 3
    assert numbers(load(cluster, **few)) == list(range(1500, 2000))
    assert numbers(load(cluster, subscribePattern="b.lls")) == list(range(2000))


def test_tags_and_sql_filter_at_the_broker(cluster, orders):
    tags = load(cluster, subscribe="orders", tags="tag0 || tag2", columns="body")
    assert numbers(tags) == [n for n in range(2000) if n % 3 != 1]
    old = load(cluster, topic="orders", subExpression="tag1")
    assert numbers(old) == [n for n in range(2000) if n % 3 == 1]
    sql = load(cluster, subscribe="orders", sql92="n BETWEEN 100 AND 109", columns="body")
    assert numbers(sql) == list(range(100, 110))


def test_timestamps_select_first_message_at_or_after(cluster, sender):
    sender.create("timed", 1)
    moments = []
    for number in range(12):
        sender.one("timed", 0, f"{number:010d}".encode())
        time.sleep(0.03)
        moments.append(int(time.time() * 1000))
        time.sleep(0.03)
    table = load(
        cluster,
        subscribe="timed",
        startingTimestamp=str(moments[3]),
        endingTimestamp=str(moments[8]),
    )
    assert numbers(table) == [4, 5, 6, 7, 8]
    per_queue = json.dumps({"timed": {"broker-a": {"0": moments[9]}}})
    table = load(cluster, subscribe="timed", startingOffsetsByTimestamp=per_queue)
    assert numbers(table) == [10, 11]
    late = load(cluster, subscribe="timed", startingTimestamp=str(moments[11]))
    assert numbers(late) == []


@pytest.mark.parametrize("chosen", [{"tags": "rare"}, {"sql92": "TAGS = 'rare'"}])
def test_timestamp_search_ignores_the_filter(cluster, sender, chosen):
    """The search sees messages that the filter excludes, more than a broker skips in a pull."""
    sender.create("sparse", 1)
    rare = (2500, 7900)
    entries = [
        (body, properties | {"TAGS": "rare" if number in rare else "common"})
        for number, (body, properties) in enumerate(numbered(8000))
    ]
    (begin,) = stream_of(cluster, subscribe="sparse").initialOffset()["sparse"].values()
    sender.batch("sparse", 0, entries[:5000])
    time.sleep(0.05)
    middle = str(int(time.time() * 1000))
    time.sleep(0.05)
    sender.batch("sparse", 0, entries[5000:])
    begun = json.dumps({"sparse": {"broker-a": begin}})
    before = {"startingOffsets": begun, "endingTimestamp": middle}
    assert numbers(load(cluster, subscribe="sparse", **before, **chosen)) == [2500]
    assert numbers(load(cluster, subscribe="sparse", startingTimestamp=middle, **chosen)) == [7900]


def test_read_starts_at_group_offsets(cluster, orders):
    servers = Cluster((cluster.namesrv.address,), Access())
    servers.commit("readers", {MessageQueue("bills", "broker-a", 0): 1990})
    table = load(cluster, subscribe="bills", startingOffsets="group", group="readers")
    assert numbers(table) == list(range(1990, 2000))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "nobody"}, "topic nobody is unknown"),
        ({"subscribe": "orders", "nameServer": "127.0.0.1:1"}, "127.0.0.1:1"),
        ({"subscribe": "orders", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "orders", "failOnDataLoss": "maybe"}, "option failOnDataLoss is 'maybe'"),
        ({"subscribe": "orders", "startingOffsets": "{"}, "option startingOffsets is"),
        ({"subscribe": "orders", "sql92": "n >"}, "option sql92 is 'n >'"),
        ({"assign": '{"orders":{"broker-a":[9]}}'}, "option assign"),
        ({"subscribe": "orders", "topic": "bills"}, "option subscribe is given twice"),
        ({}, "one of the options subscribe"),
    ],
)
def test_errors_name_the_option_or_the_address(cluster, orders, options, words):
    with pytest.raises((UserError, PeerError, WorldError), match=re.escape(words)):
        load(cluster, **options)


def stream_of(cluster, **options):
    source = RocketMQSource({"nameServer": cluster.namesrv.address} | options)
    return source.streamReader(None)


def read_between(reader, start, end):
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return numbers([row for batch in batches for row in batch.to_pylist()])


def test_stream_batches_respect_max_offsets(cluster, orders):
    reader = stream_of(
        cluster, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="300"
    )
    reader = pickle.loads(pickle.dumps(reader))
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(300)
    start = json.loads(json.dumps(reader.initialOffset()))
    found, batches = [], 0
    while (end := json.loads(json.dumps(reader.latestOffset(start, limit)))) != start:
        some = read_between(reader, start, end)
        assert len(some) <= 300
        assert some == read_between(reader, start, end), "a repeated batch is the same"
        found += some
        batches += 1
        start = end
    assert sorted(found) == list(range(2000))
    assert batches == 7
    assert reader.latestOffset(start, ReadAllAvailable()) == start


def test_stream_waits_for_min_offsets_up_to_the_delay(cluster, sender):
    sender.create("few", 1)
    reader = stream_of(
        cluster, subscribe="few", startingOffsets="earliest", minOffsetsPerTrigger="5",
        maxTriggerDelay="1h",
    )  # fmt: skip
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    sender.batch("few", 0, list(numbered(4)))
    assert reader.latestOffset(start, limit) == start
    reader._last_given -= 3600
    assert reader.latestOffset(start, limit) == {"few": {"broker-a": {"0": 4}}}
    sender.batch("few", 0, list(numbered(1, first=4)))
    assert reader.latestOffset(start, limit) == {"few": {"broker-a": {"0": 5}}}


def test_stream_batches_respect_max_bytes(cluster, orders):
    reader = stream_of(
        cluster, subscribe="bills", startingOffsets="earliest", maxBytesPerTrigger="30000"
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    size = sum(
        batch.nbytes for part in reader.partitions(start, end) for batch in reader.read(part)
    )
    assert 10_000 < size < 60_000


def test_available_now_reads_existing_messages_only(cluster, sender):
    sender.create("now", 2)
    sender.batch("now", 0, list(numbered(30)))
    reader = stream_of(
        cluster, subscribe="now", startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    sender.batch("now", 1, list(numbered(30, first=30)))
    limit, found = reader.getDefaultReadLimit(), []
    while (end := reader.latestOffset(start, limit)) != start:
        found += read_between(reader, start, end)
        start = end
    assert found == list(range(30))


def test_new_queues_and_topics_are_read_from_their_beginning(cluster, sender):
    sender.create("grow-a", 1)
    reader = stream_of(cluster, subscribePattern="grow-.", startingOffsets="latest")
    start = wait_for(lambda: reader.initialOffset() or None)
    sender.create("grow-a", 3)
    sender.create("grow-b", 1)
    sender.batch("grow-a", 2, list(numbered(5)))
    sender.batch("grow-b", 0, list(numbered(5, first=5)))

    def grown():
        end = reader.latestOffset(start, ReadAllAvailable())
        ends = [each for topic in end.values() for each in topic["broker-a"].values()]
        return end if len(ends) == 4 and sum(ends) == 10 else None

    assert read_between(reader, start, wait_for(grown)) == list(range(10))


def wait_for(find, seconds=90):
    """Poll until a value is found, because new routes take a moment to propagate."""
    deadline = time.monotonic() + seconds
    while (found := find()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def test_stream_commits_group_offsets(cluster, orders):
    reader = stream_of(
        cluster, subscribe="bills", startingOffsets="earliest", group="watched",
        commitOffsets="true",
    )  # fmt: skip
    reader.commit(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
    servers = Cluster((cluster.namesrv.address,), Access())
    assert servers.consumer_offset("watched", MessageQueue("bills", "broker-a", 0)) == 2000


def test_failed_commit_is_logged_and_others_continue(cluster, orders, monkeypatch, caplog):
    reader = stream_of(
        cluster, subscribe="bills", startingOffsets="earliest", group="patient",
        commitOffsets="true",
    )  # fmt: skip
    asked = []
    ask = Cluster.ask_master

    def silent_broker(self, queue, *request):
        asked.append(queue)
        if queue.broker_name == "broker-silent":
            raise TimedOut("broker-silent did not answer")
        return ask(self, queue, *request)

    monkeypatch.setattr(Cluster, "ask_master", silent_broker)
    end = {
        "absent": {"broker-a": {"0": 5}},
        "bills": {"broker-silent": {"0": 6, "1": 7}, "broker-gone": {"0": 8}, "broker-a": {"0": 9}},
    }
    servers = Cluster((cluster.namesrv.address,), Access())
    mine = MessageQueue("bills", "broker-a", 0)
    listener = GroupOffsets(cluster.namesrv.address, "patient")
    for commit in (reader.commit, lambda end: listener.onQueryProgress(event_of(end))):
        caplog.clear()
        asked.clear()
        commit(end)
        assert servers.consumer_offset("patient", mine) == 9
        servers.commit("patient", {mine: 0})
        logged = sorted(record.getMessage() for record in caplog.records)
        assert len(logged) == 3
        for line, word in zip(
            logged, ("absent", "broker-gone", "broker broker-silent: offsets of"), strict=True
        ):
            assert word in line
        assert sum(queue.broker_name == "broker-silent" for queue in asked) == 1


def event_of(end):
    """Return the event that Spark passes to a listener."""
    source = SimpleNamespace(endOffset=json.dumps(end), latestOffset=None)
    return SimpleNamespace(progress=SimpleNamespace(name=None, sources=[source]))


@pytest.mark.parametrize("fails", [True, False])
def test_offsets_beyond_the_end_are_data_loss(cluster, orders, fails):
    options = {
        "subscribe": "bills",
        "endingOffsets": '{"bills":{"broker-a":{"0":2010}}}',
        "startingOffsets": '{"bills":{"broker-a":{"0":1990}}}',
        "failOnDataLoss": str(fails).lower(),
    }
    if fails:
        with pytest.raises(DataLost, match=r"bills/broker-a/0 2000 to 2010"):
            load(cluster, **options)
    else:
        assert numbers(load(cluster, **options)) == list(range(1990, 2000))


def test_aborted_read_leaves_the_connection_usable(cluster, orders):
    for _ in range(8):
        reader, parts = parts_of(cluster, subscribe="orders", pullBatchSize="5")
        batches = reader.read(parts[0])
        next(batches)
        batches.close()
    (part,) = parts_of(cluster, subscribe="bills", pullBatchSize="5")[1]
    pulls = RangePull(reader._options.reading, part.ranges[0])._bodies()
    for _ in range(20):
        next(pulls)
    pulls.close()
    link = reader._options.reading.cluster.link_to("bills", "broker-a")
    assert not link._early
    assert numbers(load(cluster, subscribe="bills")) == list(range(2000))


def test_max_offsets_of_many_queues_survive_a_lost_connection(cluster, sender):
    sender.create("wide", 40)
    for queue in (0, 33, 39):
        sender.batch("wide", queue, list(numbered(queue + 1)))
    servers = Cluster((cluster.namesrv.address,), Access())
    queues = servers.route("wide").to_read
    wanted = {queue: queue.queue_id + 1 if queue.queue_id in (0, 33, 39) else 0 for queue in queues}
    assert servers.max_offsets(queues) == wanted
    servers.master_link("wide", "broker-a")._socket.shutdown(socket.SHUT_RDWR)
    assert servers.max_offsets(queues) == wanted
    link = servers.master_link("wide", "broker-a")
    assert not link._early
    assert not link._abandoned


def test_queues_with_few_messages_share_a_task(cluster, orders):
    assert len(parts_of(cluster, subscribe="orders")[1]) == 1
    assert len(parts_of(cluster, subscribe="orders", maxRecordsPerPartition="1000")[1]) == 2
    assert len(parts_of(cluster, subscribe="orders", minPartitions="1")[1]) == 4
