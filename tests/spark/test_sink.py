"""Rows written to topics and read back."""

import contextlib
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from cometmq.errors import BadMessage, BadSetting, NoRoute, PeerError, Unreachable
from cometmq.protocol.java.values import hash_code
from spark.rows import NEEDS
from spark.test_source import load, wait_for

pytest.importorskip("pyspark", reason=NEEDS)
import pyarrow as pa

from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access, Links, links_of
from cometmq.spark.write import already_stored as recognition
from cometmq.spark.write import sink
from cometmq.spark.write.already_stored import WriteAttempt
from cometmq.spark.write.delays import Delays
from cometmq.spark.write.rows import STAMP
from cometmq.spark.write.sink import WriteOptions, _write

TYPES = {"body": "binary", "tags": "string", "keys": "array<string>"}


def options_of(cluster, types=TYPES, **options):
    given = {"nameServer": cluster.namesrv.address} | options
    return WriteOptions.of(given, types)


def write(options, batches, attempt=WriteAttempt("query", "0", 0, False)):  # noqa: B008
    return _write(options, attempt, iter(batches))


def numbered_batch(first, count):
    return pa.RecordBatch.from_pylist(
        [
            {"body": f"{n:010d}".encode(), "tags": f"t{n % 2}", "keys": [f"k{n}", "all"]}
            for n in range(first, first + count)
        ],
        pa.schema([("body", pa.binary()), ("tags", pa.string()), ("keys", pa.list_(pa.string()))]),
    )


def settled(cluster, **options):
    """What is read once all that the broker took is in its queues, which is a moment later."""
    link = links_of(Access()).to(cluster.broker.address)

    def is_dispatched():
        found = recognition.dispatched(link)
        return None if found is None or found[1] < found[0] else True

    wait_for(is_dispatched)
    return load(cluster, **options)


def bodies(cluster, topic):
    return sorted(int(row["body"]) for row in settled(cluster, subscribe=topic))


def test_rows_become_messages(cluster, sender):
    sender.create("written", 4)
    done = write(options_of(cluster, topic="written"), [numbered_batch(0, 2500)])
    assert done.rows == 2500
    rows = {int(row["body"]): row for row in settled(cluster, subscribe="written")}
    assert sorted(rows) == list(range(2500))
    assert rows[77]["tags"] == "t1"
    assert rows[77]["keys"] == ["k77", "all"]
    assert len({row["msgId"] for row in rows.values()}) == 2500
    assert len({row["queueId"] for row in rows.values()}) > 1, "shared out over queues"


def test_topics_keys_queues_and_delays_of_rows(cluster, sender):
    for topic in ("to-a", "to-b"):
        sender.create(topic, 4)
    types = {"body": "string", "topic": "string", "shardingKey": "string", "delayLevel": "int"}
    table = pa.RecordBatch.from_pylist(
        [
            {
                "body": str(n),
                "topic": "to-a" if n % 2 else "to-b",
                "shardingKey": f"s{n % 5}",
                "delayLevel": 1 if n == 8 else None,
            }
            for n in range(40)
        ],
        pa.schema(
            [
                ("body", pa.string()),
                ("topic", pa.string()),
                ("shardingKey", pa.string()),
                ("delayLevel", pa.int32()),
            ]
        ),
    )
    write(options_of(cluster, types), [table])
    found = settled(cluster, subscribe="to-a,to-b")
    for row in found:
        number = int(row["body"])
        assert row["topic"] == ("to-a" if number % 2 else "to-b")
        assert row["queueId"] == abs(hash_code(f"s{number % 5}")) % 4
    assert {int(row["body"]) for row in found} >= set(range(40)) - {8}
    places = pa.RecordBatch.from_pylist([{"body": "x", "queueId": 3}, {"body": "y", "queueId": 1}])
    write(options_of(cluster, {"body": "string", "queueId": "int"}, topic="to-a"), [places])
    last = {row["body"]: row["queueId"] for row in settled(cluster, subscribe="to-a")}
    assert (last[b"x"], last[b"y"]) == (3, 1)


def timed_batch(*seconds_from_now):
    times = [
        None if s is None else datetime.now(UTC) + timedelta(seconds=s) for s in seconds_from_now
    ]
    return pa.record_batch(
        [
            pa.array([str(s) for s in seconds_from_now]),
            pa.array(times, pa.timestamp("us", tz="UTC")),
        ],
        ["body", "deliverAt"],
    )


def test_a_row_is_delivered_at_its_time_or_later_and_never_before(cluster, sender):
    """Levels of the brokers are those of conftest: 2s 1s 30s 5m."""
    sender.create("on-time", 2)
    options = options_of(cluster, {"body": "string", "deliverAt": "timestamp"}, topic="on-time")
    resolved = Delays(options.cluster, 1).resolved(
        timed_batch(None, -5, 0.5, 1.5, 3, 29, 40, 299), "on-time"
    )
    assert resolved["delayLevel"].to_pylist() == [0, 0, 2, 1, 3, 3, 4, 4]
    batch = timed_batch(None, 1.6)
    assert write(options, [batch]).rows == 2
    found = wait_for(lambda: rows if len(rows := load(cluster, subscribe="on-time")) == 2 else None)
    stored = {row["body"]: row["storeTimestamp"] for row in found}
    assert stored[b"1.6"] >= batch["deliverAt"][1].as_py() - timedelta(milliseconds=1)
    with pytest.raises(BadMessage, match=r"3[56]\d s from now .* 300 s at the most"):
        write(options, [timed_batch(360)])


def test_exactly_once_leaves_out_what_an_attempt_before_has_stored(cluster, sender):
    sender.create("once", 3)
    options = options_of(cluster, topic="once", delivery="exactly-once")
    attempt = WriteAttempt("query-1", "0", 0, False)
    write(options, [numbered_batch(0, 1500)], attempt)
    # The same batch again, its rows in another order and in other chunks.
    parts = [numbered_batch(900, 600), numbered_batch(0, 900)]
    done = write(options, parts, replace(attempt, again=True))
    assert done.rows == 1500
    assert bodies(cluster, "once") == list(range(1500))
    # Another batch, partition or query with equal rows is another message.
    for other in (
        WriteAttempt("query-1", "1", 0, False),
        WriteAttempt("query-1", "0", 1, False),
        WriteAttempt("query-2", "0", 0, False),
    ):
        write(options, [numbered_batch(0, 10)], other)
    assert bodies(cluster, "once") == sorted([*range(1500), *[*range(10)] * 3])


def test_exactly_once_after_half_of_a_batch(cluster, sender):
    sender.create("halved", 2)
    options = options_of(cluster, topic="halved", delivery="exactly-once")

    def broken():
        yield numbered_batch(0, 700)
        raise ConnectionAbortedError("the task dies")

    attempt = WriteAttempt("query-3", "5", 2, False)
    with contextlib.suppress(ConnectionAbortedError):
        write(options, broken(), attempt)
    write(options, [numbered_batch(0, 1400)], attempt)
    assert bodies(cluster, "halved") == list(range(1400))
    rows = load(cluster, subscribe="halved", columns="properties")
    stamps = [dict(row["properties"])[STAMP] for row in rows]
    assert all(stamp.startswith("query-3/5/2/") for stamp in stamps)
    assert len(set(stamps)) == 1400


class FirstAttempt:
    """What Spark tells a task, also one of a stage that is run again."""

    @classmethod
    def get(cls):
        return cls()

    def partitionId(self):
        return 0

    def attemptNumber(self):
        return 0


def test_a_batch_write_whose_stage_is_run_again_writes_each_row_once(cluster, sender, monkeypatch):
    sender.create("staged", 2)
    monkeypatch.setattr(sink, "TaskContext", FirstAttempt)
    writer = sink.RocketMQWriter(options_of(cluster, topic="staged", delivery="exactly-once"))

    def broken():
        yield numbered_batch(0, 700)
        raise ConnectionAbortedError("what it reads from has gone")

    with contextlib.suppress(ConnectionAbortedError):
        writer.write(broken())
    assert writer.write(iter([numbered_batch(0, 1400)])).rows == 1400
    assert bodies(cluster, "staged") == list(range(1400))


@pytest.mark.parametrize(
    ("types", "options", "error", "words"),
    [
        (TYPES, {"topic": "a b"}, BadSetting, "option topic"),
        (TYPES, {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, BadSetting, "system topic"),
        (TYPES, {"topic": "t", "delivery": "twice"}, BadSetting, "option delivery is 'twice'"),
        (TYPES, {"topic": "t", "deliverys": "x"}, BadSetting, "is delivery meant"),
        (TYPES, {}, BadSetting, "option topic or a column topic"),
        (
            TYPES | {"delayLevel": "int"},
            {"topic": "t", "delivery": "exactly-once"},
            BadSetting,
            "column delayLevel",
        ),
        (
            TYPES | {"deliverAt": "timestamp"},
            {"topic": "t", "delivery": "exactly-once"},
            BadSetting,
            "column deliverAt",
        ),
        (TYPES | {"deliverAt": "bigint"}, {"topic": "t"}, BadSetting, "it must be timestamp"),
        (
            TYPES | {"deliverAt": "timestamp", "delayLevel": "int"},
            {"topic": "t"},
            BadSetting,
            "columns delayLevel and deliverAt exclude",
        ),
    ],
)
def test_options_that_cannot_be_are_named(cluster, types, options, error, words):
    with pytest.raises(error, match=words):
        options_of(cluster, types, **options)


def test_a_topic_that_is_not_there_and_a_server_that_is_not(cluster):
    told = rf"no topic unheard, say .*{cluster.namesrv.port}: check its name, create it, or start"
    with pytest.raises(NoRoute, match=told):
        options_of(cluster, topic="unheard").check_topic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        options_of(cluster, topic="t", nameServer="127.0.0.1:1").check_topic()


PLACES = {
    "any": ({}, {}),
    "by rank": ({"queueId": "int"}, {"queueId": 1}),
    "by key": ({"shardingKey": "string"}, {"shardingKey": "s"}),
    "by time": ({"deliverAt": "timestamp"}, {"deliverAt": datetime(2020, 1, 1, tzinfo=UTC)}),
}


@pytest.mark.parametrize(
    ("place", "delivery"),
    [(place, "at-least-once") for place in PLACES]
    + [(place, "exactly-once") for place in PLACES if place != "by time"],
)
def test_a_route_that_is_not_there_just_now_is_waited_for(
    cluster, sender, monkeypatch, place, delivery
):
    more, values = PLACES[place]
    topic = f"routed-{'-'.join(more) or 'any'}-{delivery}"
    sender.create(topic, 2)
    options = options_of(cluster, {"body": "string"} | more, topic=topic, delivery=delivery)
    asked = []

    def absent(self, code, header=None):
        asked.append(code)
        if len(asked) > 2:
            monkeypatch.undo()
        raise Unreachable("no name server answers")

    monkeypatch.setattr(Cluster, "_ask_name_server", absent)
    rows = pa.RecordBatch.from_pylist([{"body": "7"} | values])
    assert write(options, [rows]).rows == 1
    assert len(asked) == 3
    assert bodies(cluster, topic) == [7]


def test_a_message_that_the_broker_refuses_is_told(cluster, sender):
    sender.create("strict", 1)
    big = pa.RecordBatch.from_pylist([{"body": bytes(5 << 20)}])
    with pytest.raises((PeerError, BadMessage), match=r"127\.0\.0\.1"):
        write(options_of(cluster, {"body": "binary"}, topic="strict"), [big])


def test_an_attempt_that_was_held_up_is_told_that_its_time_is_over(cluster, sender, monkeypatch):
    sender.create("late", 2)
    options = options_of(cluster, topic="late", delivery="exactly-once")
    monkeypatch.setattr(recognition, "_RENEW_S", 0)
    first = WriteAttempt("query-4", "0", 0, False)
    write(options, [numbered_batch(0, 10)], first)

    def held_up():
        yield numbered_batch(10, 10)
        # Meanwhile another attempt has taken the batch to its end, and the next one begun.
        servers = options.cluster
        queues = servers.route("late").to_write
        servers.commit(first.group, {queue: servers.end(queue) for queue in queues})
        yield numbered_batch(20, 10)

    with pytest.raises(recognition.Superseded, match="batch 1 of query query-4"):
        write(options, held_up(), replace(first, batch="1"))
    assert bodies(cluster, "late") == list(range(20))


def test_an_attempt_that_was_cut_off_while_it_sent_nothing_looks_again(
    cluster, sender, monkeypatch
):
    sender.create("cut", 2)
    options = options_of(cluster, topic="cut", delivery="exactly-once")
    made = []

    def remembered(access):
        made.append(Links(access))
        return made[-1]

    monkeypatch.setattr(sink, "Links", remembered)
    attempt = WriteAttempt("query-6", "3", 0, False)

    def cut_off():
        yield numbered_batch(0, 100)
        for link in made[0]._links.values():
            link._socket.shutdown(socket.SHUT_RDWR)
        # Meanwhile another attempt does all of it.
        assert write(options, [numbered_batch(0, 200)], replace(attempt, again=True)).rows == 200
        yield numbered_batch(100, 100)

    write(options, cut_off(), attempt)
    assert bodies(cluster, "cut") == list(range(200))


ADAPTIVE, RECUTS = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.streaming.stateless.enabled")


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({}, True),
        ({RECUTS: "true"}, True),
        ({ADAPTIVE: "true"}, True),
        ({RECUTS: "False"}, False),
        ({ADAPTIVE: "false"}, False),
        ({ADAPTIVE: "false", RECUTS: "true"}, False),
    ],
)
def test_exactly_once_needs_batches_that_are_cut_the_same_again(settings, is_refused):
    context = SimpleNamespace(getLocalProperty=settings.get)
    refusal = pytest.raises(BadSetting, match=f"needs the setting {RECUTS}=false")
    with refusal if is_refused else contextlib.nullcontext():
        sink._check_cut(context)


def test_a_broker_that_cannot_tell_how_far_it_is_is_asked_again(cluster, sender, monkeypatch):
    """As Apache's, in the first second after its start."""
    sender.create("asked", 1)
    answers = [None, (100, 40), None, (200, 99), (200, 100)]
    monkeypatch.setattr(recognition, "dispatched", lambda link: answers.pop(0))
    options = options_of(cluster, topic="asked", delivery="exactly-once")
    write(options, [numbered_batch(0, 10)], WriteAttempt("query-5", "0", 0, False))
    assert not answers, "asked until what was there at first is in the queues"
    monkeypatch.undo()
    assert bodies(cluster, "asked") == list(range(10))
