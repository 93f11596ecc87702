"""Brokers that delete files, die or restart during reads and writes."""

import threading
import time

import pytest

from cometmq.errors import NoRoute, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode
from spark.rows import NEEDS
from spark.sender import Sender, numbered
from spark.test_source import load, numbers, parts_of, stream_of, wait_for

pytest.importorskip("pyspark", reason=NEEDS)
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access
from cometmq.spark.read.pull import DataLost
from cometmq.spark.write.already_stored import WriteAttempt
from cometmq.spark.write.sink import WriteOptions, _write
from spark.player import ROWS, batch_of


def clean(cluster, sender):
    """Make the broker delete all log files except the last one."""
    sender.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"fileReservedTime=0\n")
    sender.ask(RequestCode.DELETE_EXPIRED_COMMITLOG, None)


def test_deleted_messages_fail_or_are_skipped(cluster, sender):
    sender.create("cleaned", 1)
    count = 40_000  # more than two files of the log
    sender.batch("cleaned", 0, list(numbered(count, size=256)))
    reader = stream_of(cluster, subscribe="cleaned", startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {"cleaned": {"broker-a": {"0": 0}}}
    clean(cluster, sender)
    queue = MessageQueue("cleaned", "broker-a", 0)
    servers = Cluster((cluster.namesrv.address,), Access())
    first = wait_for(lambda: servers.min_offset(queue) or None)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    with pytest.raises(DataLost, match="cleaned/broker-a/0 0 to"):
        [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    lenient = stream_of(cluster, subscribe="cleaned", failOnDataLoss="false")
    found = [row for part in lenient.partitions(start, end) for row in rows(lenient, part)]
    assert numbers(found) == list(range(first, count))
    assert numbers(load(cluster, subscribe="cleaned")) == list(range(first, count))


def rows(reader, part):
    return [row for batch in reader.read(part) for row in batch.to_pylist()]


def test_recreated_topic_fails_or_is_read_again(cluster, sender):
    sender.create("again", 1)
    sender.batch("again", 0, list(numbered(5)))
    start = {"again": {"broker-a": {"0": 9}}}  # of the deleted topic
    strict = stream_of(cluster, subscribe="again")
    with pytest.raises(DataLost, match="created again"):
        strict.latestOffset(start, strict.getDefaultReadLimit())
    lenient = stream_of(cluster, subscribe="again", failOnDataLoss="false")
    end = lenient.latestOffset(start, lenient.getDefaultReadLimit())
    found = [row for part in lenient.partitions(start, end) for row in rows(lenient, part)]
    assert numbers(found) == list(range(5))


def test_read_continues_after_broker_restart(cluster):
    sender = Sender(cluster.broker.address)
    sender.create("resumed", 1)
    sender.batch("resumed", 0, list(numbered(20_000)))
    sender.close()
    reader, parts = parts_of(cluster, subscribe="resumed", brokerTimeoutMs="120000")
    found = []
    (part,) = parts
    batches = reader.read(part)
    found += next(batches).to_pylist()
    cluster.broker.kill()
    back = threading.Timer(1, cluster.broker.start)
    back.start()
    for batch in batches:
        found += batch.to_pylist()
    back.join()
    assert numbers(found) == list(range(20_000))


def test_unreachable_broker_is_named_after_timeout(cluster):
    sender = Sender(cluster.broker.address)
    sender.create("left", 1)
    sender.batch("left", 0, list(numbered(20_000)))
    sender.close()
    reader, (part,) = parts_of(cluster, subscribe="left", brokerTimeoutMs="1000")
    batches = reader.read(part)
    next(batches)
    cluster.broker.kill()
    try:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"waited 1000 ms for broker broker-a: .*127"):
            list(batches)
        assert time.monotonic() - begun > 1
    finally:
        cluster.broker.start()


def test_running_stream_waits_for_unreachable_broker(cluster):
    sender = Sender(cluster.broker.address)
    sender.create("watched", 1)
    sender.batch("watched", 0, list(numbered(7)))
    sender.close()
    running = stream_of(cluster, subscribe="watched", brokerTimeoutMs="120000")
    start = {"watched": {"broker-a": {"0": 0}}}
    limit = running.getDefaultReadLimit()
    end = running.latestOffset(start, limit)
    cluster.broker.kill()
    begun = stream_of(cluster, subscribe="watched", brokerTimeoutMs="120000")
    with pytest.raises((Unreachable, NoRoute), match=r"127|watched"):
        begun.latestOffset(start, limit)
    back = threading.Timer(1, cluster.broker.start)
    back.start()
    assert running.latestOffset(start, limit) == end == {"watched": {"broker-a": {"0": 7}}}
    back.join()


def test_write_names_the_killed_broker(cluster, tmp_path):
    sender = Sender(cluster.broker.address)
    sender.create("cut", 2)
    sender.close()
    given = {"nameServer": cluster.namesrv.address, "topic": "cut", "brokerTimeoutMs": "1000"}
    options = WriteOptions.of(given, {"body": "binary"})

    def batches():
        yield batch_of(0, 0)[0]
        cluster.broker.kill()
        yield batch_of(1, 0)[0]

    try:
        with pytest.raises(Unreachable, match=r"not sent, after 1 s of attempts: .*(127|cut)"):
            _write(options, WriteAttempt("cut", "0", 0, False), batches())
    finally:
        cluster.broker.start()
    back = Cluster((cluster.namesrv.address,), Access())
    wait_for(lambda: back.topics_like("cut") or None)
    assert {int(row["body"]) for row in load(cluster, subscribe="cut")} <= set(range(ROWS))
    assert load(cluster, subscribe="cut")
