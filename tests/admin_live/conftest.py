"""The clusters that our admin tool runs against: all ours, and all Apache's."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest

from cometmq.admin.command_line.main import main
from peers.apache import ApacheBroker, ApacheNamesrv
from peers.clusters import QUICK, Broker
from peers.comet import CometBroker, CometNamesrv
from peers.driver import JavaProgram, start_java

KINDS = {"cometmq": (CometNamesrv, CometBroker), "apache": (ApacheNamesrv, ApacheBroker)}
CLUSTER = "DefaultCluster"
WAIT_S_MAX = 60


@dataclass(frozen=True)
class Site:
    """A name server and a broker of one kind, and our tool."""

    kind: str
    name_server: str
    broker: Broker

    def attempt(self, *words: object) -> tuple[int, str, str]:
        """Exit code, what was printed, and what was complained of."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*map(str, words), "-n", self.name_server], "mqadmin")
        return code, out.getvalue(), err.getvalue()

    def wait_until_it_tells_of_itself(self) -> None:
        """Apache's broker cannot before its first sample, a second after its start."""
        deadline = time.monotonic() + WAIT_S_MAX
        while self.attempt("brokerStatus", "-b", self.broker.address)[0] != 0:
            assert time.monotonic() < deadline, "it tells nothing of itself"
            time.sleep(0.1)

    def run(self, *words: object, code: int = 0) -> str:
        """What a command printed; an AssertionError if it ended with another code."""
        got, out, err = self.attempt(*words)
        assert got == code, f"{words}: {got}\n{out}{err}"
        assert len(err.splitlines()) <= (code != 0), "one line, of what failed"
        return out + err

    def ask(self, *words: object, code: int = 0) -> Any:
        """The same, as JSON."""
        return json.loads(self.run(*words, "-o", "json", code=code))

    def lines(self, *words: object) -> list[Any]:
        """The same, of a command that tells what it finds line by line."""
        return [json.loads(line) for line in self.run(*words, "-o", "json").splitlines()]


@pytest.fixture(scope="package", params=KINDS)
def site(request, tmp_path_factory) -> Iterator[Site]:
    """Apache's cluster is skipped without Java."""
    if request.param == "apache":
        request.getfixturevalue("apache_class_path")
    make_namesrv, make_broker = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as started:
        namesrv = make_namesrv(folder / "namesrv")
        started.callback(namesrv.kill)
        namesrv.start()
        broker = make_broker(folder / "a", namesrv=namesrv.address, conf=QUICK)
        started.callback(broker.kill)
        site = Site(request.param, namesrv.address, broker.start())
        site.wait_until_it_tells_of_itself()
        yield site


@dataclass(frozen=True)
class AtWork:
    """A producer and a consumer of topic Work, and a message that both have seen."""

    maker: JavaProgram
    taker: JavaProgram
    sent: dict[str, Any]


@pytest.fixture(scope="package")
def at_work(site, apache_class_path) -> Iterator[AtWork]:
    site.run("updateTopic", "-c", CLUSTER, "-t", "Work", "-r", 4, "-w", 4)
    address = site.name_server
    options = ("loop", "delay=50", "key=k", "tag=red")
    with (
        start_java("Produce", address, "Work", "makers", 0, "work", *options) as maker,
        start_java("Consume", address, "Work", "takers", 0) as taker,
    ):
        sent = maker.next(timeout=150)
        while taker.next(timeout=150).get("msgId") != sent["msgId"]:
            pass
        deadline = time.monotonic() + WAIT_S_MAX
        while not has_committed(site):
            assert time.monotonic() < deadline, "the broker hears of no offsets"
            time.sleep(0.1)
        yield AtWork(maker, taker, sent)


def has_committed(site: Site) -> bool:
    """Of every queue of Work: a group without offsets is none to Apache's broker."""
    code, out, _ = site.attempt("consumerProgress", "-g", "takers", "-o", "json")
    if code != 0:
        return False
    rows = [row for row in json.loads(out)["queues"] if row["topic"] == "Work"]
    return len(rows) == 4 and all(row["consumerOffset"] > 0 for row in rows)


@pytest.fixture(scope="package")
def site_of():
    """Makes a site of servers that run already."""
    return Site
