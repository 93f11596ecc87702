"""Delivery guarantees while drivers, workers and brokers are killed with SIGKILL.

COMETMQ_SPARK_KILLS sets the number of kills, for example 40. By default there are few, and none in
a real Spark, because each of its starts takes seconds. Apache's broker starts slowly and is killed
a fifth as often in a real Spark.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from peers.comet import CometBroker
from spark.rows import NEEDS
from spark.sender import Sender, numbered
from spark.test_source import load

pytest.importorskip("pyspark", reason=NEEDS)
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access
from spark.app import ROWS_PER_BATCH
from spark.player import PARTITIONS, ROWS

IS_CAMPAIGN = "COMETMQ_SPARK_KILLS" in os.environ
KILLS = int(os.environ.get("COMETMQ_SPARK_KILLS", "3"))
SEED = int(os.environ.get("COMETMQ_SPARK_SEED", time.time_ns() % 10**6))
BATCHES_PER_KILL = 2
BATCHES_WAITING = 5  # so that every kill interrupts work
_TESTS = str(Path(__file__).parents[1])
_PATH = os.pathsep.join(filter(None, (_TESTS, os.environ.get("PYTHONPATH"))))
QUERIES = ("exactly-once", "at-least-once", "archive")
VICTIMS = ("driver", "worker", "broker", "worker", "broker")  # in turn
COMMANDS = {"driver": "org.apache.spark.deploy.SparkSubmit", "worker": "pyspark.daemon"}


class Player:
    """A child process that runs player.py and can be killed."""

    def __init__(
        self, server: str, topic: str, checkpoint: Path, batches: int, delivery: str
    ) -> None:
        command = [
            sys.executable, str(Path(__file__).with_name("player.py")), server, topic,
            str(checkpoint), str(batches), delivery,
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def ready(self) -> bool:
        """Wait for the first batch; False if the process has ended."""
        return self._process.stdout.readline() != ""

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def end(self) -> int:
        self._process.communicate(timeout=240)
        return self._process.returncode


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_deliveries_survive_kills_of_writer_and_broker(cluster, sender, tmp_path, delivery):
    topic = f"killed-{delivery}"
    sender.create(topic, 3)
    chance = random.Random(SEED)
    checkpoint = tmp_path / "done"
    batches = BATCHES_PER_KILL * KILLS + 2
    for _ in range(KILLS):
        player = Player(cluster.namesrv.address, topic, checkpoint, batches, delivery)
        if player.ready():
            time.sleep(chance.random() * 0.15)
        if chance.random() < 0.3:
            cluster.broker.kill()
            time.sleep(chance.random() * 0.3)
            if chance.random() < 0.5:
                player.kill()
            cluster.broker.start()
            time.sleep(chance.random())
        player.kill()
    assert Player(cluster.namesrv.address, topic, checkpoint, batches, delivery).end() == 0
    assert checkpoint.read_text() == str(batches)
    found = Counter(int(row["body"]) for row in load(cluster, subscribe=topic, columns="body"))
    wanted = Counter(each // 2 * 2 for each in range(batches * PARTITIONS * ROWS))
    assert wanted - found == Counter(), f"lost (seed {SEED})"
    if delivery == "exactly-once":
        assert found - wanted == Counter(), f"double (seed {SEED})"


class App:
    """The application app.py in a real Spark. It is restarted when it ends."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._command = [sys.executable, str(Path(__file__).with_name("app.py")), *arguments]
        self._errors = folder / "app-errors"
        self.starts = 0
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[str]":
        self.starts += 1
        with self._errors.open("a") as errors:
            return subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, start_new_session=True, env=os.environ | {"PYTHONPATH": _PATH},
            )  # fmt: skip

    def wait_for_batch(self, query: str) -> None:
        """Wait for the next batch of a query; restarts the application if it ends."""
        while not (line := self._process.stdout.readline()).startswith(f"batch {query} "):
            if not line:
                self._start_again()

    def _start_again(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()
        # Kill the driver's JVM only: orphaned workers may still send, which the test allows.
        for pid in self._family("java"):
            os.kill(pid, signal.SIGKILL)
        self._process = self._started()

    def kill(self, victim: str, chance: random.Random) -> bool:
        """Kill a process of the given kind; False if no such process runs."""
        alive = self._family(COMMANDS[victim])
        if alive:
            os.kill(chance.choice(alive), signal.SIGKILL)
        return bool(alive)

    def finish(self, starts_max: int) -> None:
        """Let the application process all messages and end."""
        for _ in range(starts_max):
            self._process.communicate(timeout=600)
            if self._process.returncode == 0:
                return
            self._start_again()
        pytest.fail(f"the application does not end:\n{self._errors.read_text()[-5000:]}")

    def close(self) -> None:
        self._process.kill()
        for pid in self._family(""):
            os.kill(pid, signal.SIGKILL)
        self._process.communicate()

    def _family(self, name: str) -> list[int]:
        """Return the processes of its session whose command line contains the name."""
        found = []
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                try:
                    is_ours = os.getsid(int(path.name)) == self._process.pid
                    line = (path / "cmdline").read_text() if is_ours else ""
                except (ProcessLookupError, FileNotFoundError):
                    continue
                if is_ours and name in line and line:
                    found.append(int(path.name))
        return found


class Feed:
    """Sends messages to a topic with two queues, so that the queries always have work."""

    def __init__(self, cluster, topic: str, behind: str) -> None:
        self._cluster = cluster
        self._servers = Cluster((cluster.namesrv.address,), Access())
        self._topic = topic
        self._behind = behind
        self._count = 0

    def top_up(self) -> None:
        waiting = self._end(self._topic) - self._end(self._behind)
        missing = (BATCHES_WAITING * ROWS_PER_BATCH - waiting) // 2
        if missing > 0:
            sender = Sender(self._cluster.broker.address)
            for queue in (0, 1):
                sender.batch(self._topic, queue, list(numbered(missing, first=self._count)))
                self._count += missing
            sender.close()

    def _end(self, topic: str) -> int:
        queues = (MessageQueue(topic, "broker-a", number) for number in (0, 1))
        return sum(self._servers.max_offset(queue) for queue in queues)


def kills_of(cluster) -> int:
    return KILLS if isinstance(cluster.broker, CometBroker) else max(2, KILLS // 5)


@pytest.mark.skipif(not IS_CAMPAIGN, reason="a campaign of minutes: COMETMQ_SPARK_KILLS=40")
@pytest.mark.timeout(600 + 120 * KILLS)
def test_deliveries_survive_kills_in_a_real_spark(spark, cluster, sender, tmp_path):
    names = ("kills-source", "kills-once", "kills-least")
    for topic in names:
        sender.create(topic, 2)
    chance = random.Random(SEED)
    feed = Feed(cluster, "kills-source", "kills-once")
    feed.top_up()
    app = App(tmp_path, cluster.namesrv.address, *names, str(tmp_path))
    killed: Counter[str] = Counter()
    try:
        while killed.total() < kills_of(cluster):
            app.wait_for_batch(chance.choice(QUERIES))
            feed.top_up()
            time.sleep(chance.random() * 4)
            victim = VICTIMS[killed.total() % len(VICTIMS)]
            if victim == "broker":
                cluster.broker.kill()
                time.sleep(chance.random())
                cluster.broker.start()
            elif not app.kill(victim, chance):
                continue
            killed[victim] += 1
        app.finish(5)
    finally:
        app.close()
    print(f"seed {SEED}: {dict(killed)}, {app.starts} starts")
    assert app.starts > killed["driver"], "the killed process was not the driver"
    sent = load(cluster, subscribe="kills-source", columns="queueId,queueOffset,body")
    wanted = Counter(row["body"].upper() for row in sent)
    once = Counter(row["body"] for row in load(cluster, subscribe="kills-once", columns="body"))
    assert (once - wanted, wanted - once) == (Counter(), Counter()), f"seed {SEED}"
    least = Counter(row["body"] for row in load(cluster, subscribe="kills-least", columns="body"))
    assert wanted - least == Counter(), f"lost (seed {SEED})"
    lake = spark.read.parquet(str(tmp_path / "lake")).select("queueId", "queueOffset").collect()
    assert sorted(map(tuple, lake)) == sorted((r["queueId"], r["queueOffset"]) for r in sent)
