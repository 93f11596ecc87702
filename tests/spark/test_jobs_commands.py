"""Commands of jobs: one-line errors before Spark starts, repetition, exit codes."""

import io
import re
import socketserver
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from cometmq.errors import BadSetting, UserError, WorldError
from cometmq.spark import commands
from cometmq.spark.command_arguments import duration, moment
from peers.clusters import running
from spark.conftest import CONF
from spark.rows import NEEDS
from spark.sender import Sender, numbered

JOBS = ["archive", "replay", "scan", "trace", "dlq", "reconcile", "lag", "windows", "dedup"]


def run(*words):
    """Run a command that fails and return its error message."""
    result = CliRunner().invoke(commands.pipeline, list(words))
    error = result.exception
    assert isinstance(error, UserError | WorldError), (result.output, error)
    return str(error)


def test_every_job_is_a_command_of_cometmq():
    script = "import sys; from cometmq.cli import app; app(['pipeline', '--help'])"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert all(job in said.stdout for job in JOBS)


def test_command_line_does_not_import_spark():
    script = (
        "import sys, cometmq.cli\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'matplotlib', 'rich.table'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_missing_extra_is_reported_with_install_command():
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from cometmq.cli import main\n"
        "sys.argv = 'cometmq pipeline archive -n 127.0.0.1:9876 -t t -o out'.split()\n"
        "main()"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.returncode == 1
    (line,) = said.stderr.splitlines()
    assert line.startswith("cometmq: pyspark is missing: pip install 'cometmq[spark]'")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("2 seconds", 2000),
        ("3 sec", 3000),
        ("1 minute", 60_000),
        ("10 minutes", 600_000),
        ("2H", 7_200_000),
        ("1d", 86_400_000),
        ("1.5h", 5_400_000),
        ("30", 30),
    ],
)
def test_durations(text, wanted):
    assert duration("--every", text) == wanted


def test_spark_options_and_arguments_parse_durations_alike():
    pytest.importorskip("pyarrow", reason=NEEDS)
    from cometmq.spark import options

    for text in ("30", "30s", "1.5 minutes", "2h"):
        assert options.duration("maxTriggerDelay", text) == duration("--every", text)


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 weeks", "10 minutes ago"])
def test_bad_durations_are_rejected(text):
    with pytest.raises(BadSetting, match="option --every is"):
        duration("--every", text)


def test_moments():
    assert moment("--from", "1970-01-02") == 86_400_000
    assert moment("--from", "1970-01-01T01:00:00.5") == 3_600_500
    assert moment("--from", "1970-01-01T02:00+02:00") == 0
    with pytest.raises(BadSetting, match="option --from is 'yesterday'"):
        moment("--from", "yesterday")


# The tests below need the extra `spark`.


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("pyspark", reason=NEEDS)
    with running("cometmq", tmp_path_factory.mktemp("commands"), CONF) as started:
        sender = Sender(started.broker.address)
        sender.create("there", 1)
        sender.create("too", 1)
        sender.batch("there", 0, list(numbered(5)))
        sender.close()
        yield started


WRONG = {
    "archive -n 127.0.0.1:1 -t there -o OUT": r"no name server answers \(no connection to 127",
    "archive -n nowhere -t there -o OUT": "option nameServer is 'nowhere'",
    "archive -n SERVER -t absent -o OUT": "topic absent is unknown",
    "archive -n SERVER -t there -o OUT --every soon": "option --every is 'soon'",
    "archive -n SERVER -t there -o OUT --every 1s --once": "are mutually exclusive",
    "archive -n SERVER -t there -o OUT -O tag=a": "option tag is unknown: did you mean tags",
    "archive -n SERVER -t there -o OUT -O tags": "option --option is 'tags': expected NAME=VALUE",
    "replay OUT/none -n SERVER -t there -o OUT": "argument ARCHIVE: folder .* does not exist",
    "replay . -n SERVER -t absent -o OUT": "topic absent is unknown",
    "replay . -n SERVER -t there -o OUT --from soon": "option --from is 'soon'",
    "scan OUT/none -o OUT": "option path: not a store",
    "trace -n SERVER -o OUT --trace-topic absent": "topic absent is unknown",
    "dlq -n SERVER -o OUT -g nobody": "no retry or dead-letter topic of the groups nobody",
    "lag -n SERVER -o OUT -g nobody": "no broker has offsets of group nobody",
    "lag -n 127.0.0.1:1 -o OUT -g nobody": "127.0.0.1:1",
    "reconcile -n SERVER -t there -o OUT": "one of --group, --against and --archive",
    "reconcile -n SERVER -t there -o OUT --against there --key x": "option --key is 'x'",
    "reconcile -n SERVER -t there -o OUT -g g --key keys": "traces identify messages by id only",
    "reconcile -n SERVER -t there -o OUT --archive OUT/none": "option --archive: folder ",
    "reconcile -n SERVER -t there,too -o OUT --against there --key keys": (
        r"option --topic names 2 topics \(there, too\): .* --key id"
    ),
    "windows -n SERVER -t there -o OUT --window 1x": "option --window is '1x'",
    "dedup -n SERVER -t there -o OUT --key none": "option --key is 'none'",
    "dedup -n SERVER -t there -o OUT --to-topic absent": "topic absent is unknown",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_arguments_are_reported_before_spark_starts(cluster, tmp_path, monkeypatch, line):
    from cometmq.spark.jobs import runner

    def start(master):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(runner, "session", start)
    words = line.replace("SERVER", cluster.namesrv.address).replace("OUT", str(tmp_path)).split()
    said = run(*words)
    assert "\n" not in said
    assert re.search(WRONG[line], said), said


def test_server_of_another_protocol_is_reported(tmp_path):
    pytest.importorskip("pyspark", reason=NEEDS)

    class Stranger(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"SSH-2.0-stranger\r\n" * 4)
            self.request.recv(1000)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        said = run("archive", "-n", address, "-t", "t", "-o", str(tmp_path))
        server.shutdown()
    assert address in said
    assert "is it a RocketMQ server?" in said


def test_spark_errors_become_one_line():
    pytest.importorskip("pyspark", reason=NEEDS)
    from pyspark.errors import PySparkException

    from cometmq.spark.read.pull import DataLost
    from cometmq.spark.setup.spark_errors import in_one_line, reason_of

    pages = (
        "[PYTHON_EXCEPTION] Job aborted:\nTraceback (most recent call last):\n  File ...\n"
        "cometmq.errors.Unreachable: waited 1000 ms for broker broker-a: no connection\n\n\tat x.y"
    )
    assert reason_of(pages) == "waited 1000 ms for broker broker-a: no connection"
    lost = f"Traceback:\n{DataLost.__module__}.DataLost: 3 messages are missing\n\tat x.y"
    assert reason_of(lost) == "3 messages are missing"
    assert (
        reason_of("[PARSE_ERROR] Syntax error at x.\n== SQL ==") == "Spark says: Syntax error at x."
    )
    java = "An error occurred while calling o5.start.\n: java.io.IOException: no room\n\tat a.b"
    assert reason_of(java) == "Spark says: java.io.IOException: no room"
    with pytest.raises(WorldError, match="Spark says: too bad"), in_one_line():
        raise PySparkException("too bad\nand more")


class Stopped:
    """A session that counts calls of `stop`."""

    def __init__(self):
        self.stops = 0

    def stop(self):
        self.stops += 1


@pytest.fixture
def runner(monkeypatch):
    pytest.importorskip("pyspark", reason=NEEDS)
    from cometmq.spark.jobs import runner

    monkeypatch.setattr(runner, "session", lambda master: monkeypatch.spark)
    monkeypatch.spark = Stopped()
    return runner


def test_job_repeats_until_interrupted(runner, monkeypatch, capsys):
    from cometmq.spark.report.outcome import JobOutcome

    turns = []

    def job(spark):
        turns.append(spark)
        if len(turns) == 3:
            raise KeyboardInterrupt
        return JobOutcome("counted", ("n",), [(len(turns),)], [])

    assert runner.run("counted", job, "local[1]", 1) == 0
    assert len(turns) == 3
    assert monkeypatch.spark.stops == 1
    assert capsys.readouterr().out.count("counted") == 2


def test_alarm_sets_exit_code(runner, monkeypatch, capsys):
    from cometmq.spark.report.outcome import JobOutcome

    def job(spark):
        return JobOutcome("t", ("n",), [(1,)], [], "2 messages are lost")

    assert runner.run("t", job, "local[1]", 1) == runner.ALARM_EXIT_CODE == 3
    assert "cometmq: 2 messages are lost" in capsys.readouterr().err
    assert monkeypatch.spark.stops == 1


def test_times_fit_into_a_narrow_table(runner):
    from rich.console import Console

    from cometmq.spark.report.outcome import JobOutcome

    at = datetime(2026, 5, 1, 10, 30, 7, 615_000, UTC)
    names = ("kind", "group", "topic", "tag", "times", "messages", "first", "last")
    out = io.StringIO()
    row = ("dead", "billing", "orders", None, 16, 7, at, at)
    runner.show(JobOutcome("dlq", names, [row], []), Console(file=out, width=80))
    assert out.getvalue().count("10:30:07") == 2
    assert "615" not in out.getvalue()


def test_progress_bar_counts_messages_of_a_stream(spark, cluster):
    from rich.console import Console

    from cometmq.spark.read.progress import ProgressBar

    out = io.StringIO()
    with ProgressBar(spark, "reading", Console(file=out, force_terminal=True, width=100)) as bar:
        rows = spark.readStream.format("rocketmq").option("nameServer", cluster.namesrv.address)
        query = rows.options(subscribe="there", startingOffsets="earliest").load()
        query = query.writeStream.format("noop").trigger(processingTime="1 second").start()
        try:
            query.processAllAvailable()
            assert bar.seen() == (5, 5, "messages")
        finally:
            query.stop()
    assert "reading" in out.getvalue()
