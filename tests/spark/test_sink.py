"""Writing rows to topics."""

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

from cometmq.spark.read import name_servers
from cometmq.spark.read.link import Access, Links, links_of
from cometmq.spark.write import already_stored, fence, sink
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
    """Read after the broker has dispatched all stored messages to its queues."""
    link = links_of(Access()).to(cluster.broker.address)

    def is_dispatched():
        found = fence.dispatched(link)
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
    assert len({row["queueId"] for row in rows.values()}) > 1, "rows are distributed over queues"


def test_rows_choose_topic_queue_and_delay(cluster, sender):
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


def test_deliver_at_is_never_early(cluster, sender):
    """The delay levels are those of conftest.py: 2s 1s 30s 5m."""
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
    with pytest.raises(BadMessage, match=r"3[56]\d s from now .* longest delay .* 300 s"):
        write(options, [timed_batch(360)])


def test_exactly_once_skips_rows_of_earlier_attempts(cluster, sender):
    sender.create("once", 3)
    options = options_of(cluster, topic="once", delivery="exactly-once")
    attempt = WriteAttempt("query-1", "0", 0, False)
    write(options, [numbered_batch(0, 1500)], attempt)
    # Repeat the batch with its rows in another order and other chunks.
    parts = [numbered_batch(900, 600), numbered_batch(0, 900)]
    done = write(options, parts, replace(attempt, again=True))
    assert done.rows == 1500
    assert bodies(cluster, "once") == list(range(1500))
    # Equal rows of another batch, partition or query are other messages.
    for other in (
        WriteAttempt("query-1", "1", 0, False),
        WriteAttempt("query-1", "0", 1, False),
        WriteAttempt("query-2", "0", 0, False),
    ):
        write(options, [numbered_batch(0, 10)], other)
    assert bodies(cluster, "once") == sorted([*range(1500), *[*range(10)] * 3])


def test_exactly_once_completes_a_partial_batch(cluster, sender):
    sender.create("halved", 2)
    options = options_of(cluster, topic="halved", delivery="exactly-once")

    def broken():
        yield numbered_batch(0, 700)
        raise ConnectionAbortedError("the task fails")

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
    """The context of a first attempt, which a repeated stage gets as well."""

    @classmethod
    def get(cls):
        return cls()

    def partitionId(self):
        return 0

    def attemptNumber(self):
        return 0


def test_repeated_stage_of_batch_write_adds_no_rows(cluster, sender, monkeypatch):
    sender.create("staged", 2)
    monkeypatch.setattr(sink, "TaskContext", FirstAttempt)
    writer = sink.RocketMQWriter(options_of(cluster, topic="staged", delivery="exactly-once"))

    def broken():
        yield numbered_batch(0, 700)
        raise ConnectionAbortedError("the input is gone")

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
        (TYPES, {"topic": "t", "deliverys": "x"}, BadSetting, "did you mean delivery"),
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
            "columns delayLevel and deliverAt are",
        ),
    ],
)
def test_bad_options_are_named(cluster, types, options, error, words):
    with pytest.raises(error, match=words):
        options_of(cluster, types, **options)


def test_missing_topic_and_unreachable_name_server(cluster):
    message = rf"topic unheard is unknown to .*{cluster.namesrv.port}: check its name, create it"
    with pytest.raises(NoRoute, match=message):
        options_of(cluster, topic="unheard").check_topic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        options_of(cluster, topic="t", nameServer="127.0.0.1:1").check_topic()


PLACEMENTS = {
    "any": ({}, {}),
    "by rank": ({"queueId": "int"}, {"queueId": 1}),
    "by key": ({"shardingKey": "string"}, {"shardingKey": "s"}),
    "by time": ({"deliverAt": "timestamp"}, {"deliverAt": datetime(2020, 1, 1, tzinfo=UTC)}),
}


@pytest.mark.parametrize(
    ("place", "delivery"),
    [(place, "at-least-once") for place in PLACEMENTS]
    + [(place, "exactly-once") for place in PLACEMENTS if place != "by time"],
)
def test_temporarily_missing_route_is_retried(cluster, sender, monkeypatch, place, delivery):
    more, values = PLACEMENTS[place]
    topic = f"routed-{'-'.join(more) or 'any'}-{delivery}"
    sender.create(topic, 2)
    options = options_of(cluster, {"body": "string"} | more, topic=topic, delivery=delivery)
    asked = []

    def absent(servers, access, code, header=None):
        asked.append(code)
        if len(asked) > 2:
            monkeypatch.undo()
        raise Unreachable("no name server answers")

    monkeypatch.setattr(name_servers, "ask_name_server", absent)
    rows = pa.RecordBatch.from_pylist([{"body": "7"} | values])
    assert write(options, [rows]).rows == 1
    assert len(asked) == 3
    assert bodies(cluster, topic) == [7]


def test_refusal_of_the_broker_is_raised(cluster, sender):
    sender.create("strict", 1)
    big = pa.RecordBatch.from_pylist([{"body": bytes(5 << 20)}])
    with pytest.raises((PeerError, BadMessage), match=r"127\.0\.0\.1"):
        write(options_of(cluster, {"body": "binary"}, topic="strict"), [big])


def test_delayed_attempt_is_superseded(cluster, sender, monkeypatch):
    sender.create("late", 2)
    options = options_of(cluster, topic="late", delivery="exactly-once")
    monkeypatch.setattr(already_stored, "_RENEW_S", 0)
    first = WriteAttempt("query-4", "0", 0, False)
    write(options, [numbered_batch(0, 10)], first)

    def delayed():
        yield numbered_batch(10, 10)
        # Another attempt finishes the batch, and the next batch begins.
        servers = options.cluster
        queues = servers.route("late").to_write
        servers.commit(first.group, {queue: servers.max_offset(queue) for queue in queues})
        yield numbered_batch(20, 10)

    with pytest.raises(already_stored.Superseded, match="batch 1 of query query-4"):
        write(options, delayed(), replace(first, batch="1"))
    assert bodies(cluster, "late") == list(range(20))


def test_disconnected_attempt_searches_stored_rows_again(cluster, sender, monkeypatch):
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
        # Another attempt writes the whole batch.
        assert write(options, [numbered_batch(0, 200)], replace(attempt, again=True)).rows == 200
        yield numbered_batch(100, 100)

    write(options, cut_off(), attempt)
    assert bodies(cluster, "cut") == list(range(200))


ADAPTIVE, ADAPTIVE_STREAMS = (
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.streaming.stateless.enabled",
)


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({}, True),
        ({ADAPTIVE_STREAMS: "true"}, True),
        ({ADAPTIVE: "true"}, True),
        ({ADAPTIVE_STREAMS: "False"}, False),
        ({ADAPTIVE: "false"}, False),
        ({ADAPTIVE: "false", ADAPTIVE_STREAMS: "true"}, False),
    ],
)
def test_exactly_once_needs_stable_partitioning(settings, is_refused):
    context = SimpleNamespace(getLocalProperty=settings.get)
    refusal = pytest.raises(BadSetting, match=f"needs the setting {ADAPTIVE_STREAMS}=false")
    with refusal if is_refused else contextlib.nullcontext():
        sink._check_partitioning(context)


def test_fence_polls_until_the_log_is_dispatched(cluster, sender, monkeypatch):
    """Apache's broker cannot report it in the first second after its start."""
    sender.create("asked", 1)
    answers = [None, (100, 40), None, (200, 99), (200, 100)]
    monkeypatch.setattr(fence, "dispatched", lambda link: answers.pop(0))
    options = options_of(cluster, topic="asked", delivery="exactly-once")
    write(options, [numbered_batch(0, 10)], WriteAttempt("query-5", "0", 0, False))
    assert not answers, "polls until the log end of the first answer is dispatched"
    monkeypatch.undo()
    assert bodies(cluster, "asked") == list(range(10))
