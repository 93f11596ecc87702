"""Each job by its command line, on cometmq and Apache brokers."""

import csv
import shutil

import pytest
from typer.testing import CliRunner

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.offset import UpdateOffsetHeader
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.protocol.trace import ConsumedTrace, SentTrace, encode_trace
from cometmq.spark import commands
from spark.jobs_model import Events, is_picture
from spark.rows import NEEDS
from spark.sender import Sender, numbered
from spark.test_source import load, numbers

pytest.importorskip("pyspark", reason=NEEDS)
from cometmq.spark.jobs import runner

LOST = 3  # the exit code

# Command line, exit code, and some columns of each row of the report.
LINES = {
    "archive -n SERVER -t bought -o OUT": (
        0, [{"topic": "bought", "messages": "12", "bytes": str(12 * 128)}],
    ),
    "replay LAKE -n SERVER -t replayed -o OUT --rate 1000 --once": (0, [{"messages": "12"}]),
    "scan STORE -o OUT --by queues --verify -O subscribe=bought": (
        0, [{"topic": "bought", "queues": "2", "messages": "12", "missing": "0", "damaged": "0"}],
    ),
    "trace -n SERVER -o OUT": (
        0,
        [
            {"kind": "consume", "group": "clerks", "calls": "11"},
            {"kind": "send", "group": "shop", "calls": "1", "max_ms": "40"},
        ],
    ),
    "dlq -n SERVER -o OUT -g clerks": (
        0, [{"kind": "dead", "group": "clerks", "topic": "bought", "times": "16", "messages": "2"}],
    ),
    "reconcile -n SERVER -t bought -o OUT -g clerks --late 10m": (
        0, [{"topic": "bought", "consumed": "11", "waiting": "1", "lost": "0"}],
    ),
    "reconcile -n SERVER -t bought -o OUT --against billed --key keys --late 1ms": (
        LOST, [{"topic": "bought", "lost": "1"}],
    ),
    "reconcile -n SERVER -t bought -o OUT --archive LAKE --late 10m": (
        0, [{"topic": "bought", "consumed": "12", "lost": "0"}],
    ),
    "lag -n SERVER -o OUT -g clerks": (
        0,
        [
            {"topic": "bought", "queue": "0", "behind": "4"},
            {"topic": "bought", "queue": "1", "behind": "6"},
        ],
    ),
    "lag -n SERVER -o OUT -g clerks --fail-over 9": (LOST, [{"queue": "0"}, {"queue": "1"}]),
    "windows -n SERVER -t clicked -o OUT --window 10s --watermark 5s --time bornTimestamp": (
        0,
        [
            {"topic": "clicked", "count": "2"},
            {"topic": "clicked", "count": "1"},
        ],
    ),
    "dedup -n SERVER -t doubled -o OUT --key keys": (
        0, [{"run": "1", "read": "5", "kept": "3", "dropped": "2", "late": "0"}],
    ),
    "dedup -n SERVER -t doubled -o OUT --key keys --to-topic single": (
        0, [{"run": "1", "read": "5", "kept": "3", "dropped": "2", "late": "0"}],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(cluster):
    """A cluster with some messages for every job."""
    sender = Sender(cluster.broker.address)
    for topic, queues in {
        "bought": 2, "billed": 1, "replayed": 2, "clicked": 1, "doubled": 1, "single": 1,
        "%DLQ%clerks": 1,
    }.items():  # fmt: skip
        sender.create(topic, queues)
    bought = list(numbered(12))
    sent = sender.batch("bought", 0, bought[:6]) + sender.batch("bought", 1, bought[6:])
    sender.batch("billed", 0, bought[1:])
    sender.batch("doubled", 0, [(b"x", {"KEYS": key}) for key in "abaca"])
    events = Events(sender)
    for second in (1, 2, 11, 40):
        events.send("clicked", second)
    for _ in range(2):
        events.send("%DLQ%clerks", 1, properties="RETRY_TOPIC\x01bought", attempts=16)
    shop = {"group": "shop", "topic": "bought", "message_id": "A1", "cost_ms": 40}
    traces = [SentTrace(time_ms=10**12, region_id="r", success=True, **shop)]
    traces += [
        ConsumedTrace(
            request_id=properties["UNIQ_KEY"], message_id=properties["UNIQ_KEY"],
            success=True, time_ms=10**12, group="clerks",
        )
        for _, _, properties in sent[1:]
    ]  # fmt: skip
    sender.one(TRACE_TOPIC, 0, "".join(map(encode_trace, traces)).encode())
    header = UpdateOffsetHeader(
        consumer_group="clerks", topic="bought", queue_id=0, commit_offset=2
    )
    sender.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    sender.close()
    return cluster


@pytest.fixture
def run(filled, spark, tmp_path, monkeypatch):
    """Run a command line in this process with the shared Spark session."""

    class SharedSession:
        def __getattr__(self, name):
            return getattr(spark, name)

        def stop(self):
            """Do nothing: other tests use the session."""

    monkeypatch.setattr(runner, "session", lambda master: SharedSession())
    # A running broker preallocates files, so the test scans a copy.
    copy = tmp_path / "store"

    def ran(line):
        if "STORE" in line:
            ignored = shutil.ignore_patterns("lock")
            shutil.copytree(filled.broker.folder / "store", copy, ignore=ignored)
        places = {
            "SERVER": filled.namesrv.address, "OUT": tmp_path / "out", "LAKE": tmp_path / "lake",
            "STORE": copy,
        }  # fmt: skip
        words = [str(places.get(word, word)) for word in line.split()]
        return CliRunner().invoke(commands.pipeline, words)

    return ran


@pytest.mark.parametrize("line", LINES)
def test_command_writes_table_and_charts(run, filled, tmp_path, line):
    code, wanted = LINES[line]
    if "LAKE" in line:
        assert run("archive -n SERVER -t bought -o LAKE").exit_code == 0
    done = run(line)
    assert done.exit_code == code, (done.output, done.exception)
    written = tmp_path / "out" / "_report"
    with (written / "report.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(wanted), found
    for row, some in zip(found, wanted, strict=True):
        assert {name: row[name] for name in some} == some
    pictures = list(written.glob("*.png"))
    assert pictures
    assert all(map(is_picture, pictures))
    said = done.output.replace("\n", "")
    assert all(str(path) in said for path in pictures)


def test_replay_equals_archive(run, filled):
    assert run("archive -n SERVER -t bought -o LAKE").exit_code == 0
    before = len(load(filled, subscribe="replayed"))
    assert run("replay LAKE -n SERVER -t replayed -o OUT").exit_code == 0
    found = sorted(load(filled, subscribe="replayed"), key=lambda row: row["storeTimestamp"])
    assert numbers(found[before:]) == list(range(12))
