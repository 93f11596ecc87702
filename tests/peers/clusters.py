"""A name server of ours and brokers of anybody's: what the same test asks of each.

COMETMQ_COMPAT_BROKER chooses whose: a list with commas of the names in KINDS.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.apache import ApacheBroker
from peers.comet import CometBroker, CometNamesrv
from peers.driver import REBALANCE, run_java

Broker = ApacheBroker | CometBroker

KINDS: dict[str, tuple[type[Broker], ...]] = {
    "apache": (ApacheBroker,),
    "cometmq": (CometBroker,),
    "two-apache": (ApacheBroker, ApacheBroker),
    "two-cometmq": (CometBroker, CometBroker),
    "mixed": (CometBroker, ApacheBroker),
}
_CHOSEN = os.environ.get("COMETMQ_COMPAT_BROKER", "cometmq").split(",")
CHOSEN = [kind for kind in _CHOSEN if KINDS[kind]]
PAIR = "two-apache" if CHOSEN == ["apache"] else "mixed"

# What is minutes with the defaults is seconds here. The levels differ, and not in order.
LEVELS_MS = (1000, 3000, 2000)
QUICK = {
    "messageDelayLevel": "1s 3s 2s" + " 1s" * 15,
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 2000,
    "transactionCheckMax": 3,
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "registerNameServerPeriod": 10_000,  # which is the least that is taken
    # A test machine may be busy, and its disk too: what waits is not refused.
    "waitTimeMillsInSendQueue": 10_000,
    "waitTimeMillsInPullQueue": 10_000,
    "waitTimeMillsInTransactionQueue": 10_000,
    "osPageCacheBusyTimeOutMills": 10_000,
}


@dataclass(frozen=True)
class Observed:
    """What the stories of Scenario.java told, by the name of the story."""

    lines: dict[str, list[dict[str, Any]]]

    def of(self, story: str, event: str | None = None) -> list[dict[str, Any]]:
        """What one told, or its lines of one kind; an AssertionError if it failed."""
        lines = self.lines.get(story, [])
        errors = [line["error"] for line in lines if "error" in line]
        assert not errors, "\n".join(errors)
        return [line for line in lines if event is None or line["event"] == event]


@dataclass(frozen=True)
class Cluster:
    """One name server and its brokers, all running."""

    namesrv: CometNamesrv
    brokers: tuple[Broker, ...]

    @property
    def broker(self) -> Broker:
        """The first, which most clusters have alone."""
        return self.brokers[0]

    def observe(self, *stories: str) -> Observed:
        """Run them with Apache's client, all at once in one JVM."""
        lines: dict[str, list[dict[str, Any]]] = {}
        told = run_java(
            "Scenario", self.namesrv.address, *stories, timeout=240, properties=REBALANCE
        )
        for line in told:
            lines.setdefault(line["scenario"], []).append(line)
        return Observed(lines)


@contextmanager
def running(kind: str, folder: Path, conf: Mapping[str, object]) -> Iterator[Cluster]:
    """A cluster of a kind, in a folder of its own."""
    with ExitStack() as started:
        namesrv = started.enter_context(CometNamesrv(folder / "namesrv"))
        brokers = []
        for make, letter in zip(KINDS[kind], "abc", strict=False):
            broker = make(
                folder / letter, namesrv=namesrv.address, name=f"broker-{letter}", conf=conf
            )
            # An orderly stop takes Apache's seconds, and nobody looks at the folder again.
            started.callback(broker.kill)
            brokers.append(broker.start())
        yield Cluster(namesrv, tuple(brokers))
