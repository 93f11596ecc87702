"""Apache's own integration tests (rocketmq-test 4.9.7) on a cluster outside their process.

Our BaseConf (java/suite) replaces theirs, which would start servers itself.
"""

import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from peers.apache import ApacheBroker, ApacheNamesrv
from peers.certificates import Authority
from peers.comet import CometBroker, CometNamesrv
from peers.driver import DriverFailed, JavaProgram, suite_driver_class_path
from peers.jars import VERSION, suite_class_path

CLUSTER = "DefaultCluster"
BROKERS = ("broker-a", "broker-b")
# Starts replicating brokers (DLedger) in its own process, without BaseConf.
_WITHOUT_BASE_CONF = ("DLedgerProduceAndConsumeIT",)
# The tests themselves wait two minutes at most, some of them several times.
_TEST_S_MAX = 900
_HEAP = ("-Xms256m", "-Xmx768m")

# A test machine may be busy: requests that had to wait are not refused.
CONF = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "waitTimeMillsInSendQueue": 10_000,
    "waitTimeMillsInPullQueue": 10_000,
    "waitTimeMillsInTransactionQueue": 10_000,
    "osPageCacheBusyTimeOutMills": 10_000,
}


@dataclass(frozen=True)
class Outcome:
    """The result of one test: passed, failed, ignored or skipped."""

    test: str
    outcome: str
    took_ms: int
    error: str


def class_names(wanted: Iterable[str] = ()) -> list[str]:
    """Full names of the test classes, all or those with these simple names."""
    jar = Path(suite_class_path()).with_name(f"rocketmq-test-{VERSION}-tests.jar")
    with zipfile.ZipFile(jar) as opened:
        entries = [name.removesuffix(".class") for name in opened.namelist()]
    found = {
        entry.rpartition("/")[2]: entry.replace("/", ".")
        for entry in entries
        if entry.endswith("IT") and not entry.rpartition("/")[2].startswith("Base")
    }
    for name in _WITHOUT_BASE_CONF:
        del found[name]
    return [found[name] for name in wanted or sorted(found)]


def run_suite(
    namesrv: str, classes: list[str], report: Callable[[Outcome], None] = lambda outcome: None
) -> dict[str, Outcome]:
    """Run test classes in one JVM; the outcome of each test, by "Class.method"."""
    properties = {
        "suite.namesrv": namesrv,
        "suite.cluster": CLUSTER,
        "suite.broker1": BROKERS[0],
        "suite.broker2": BROKERS[1],
    }
    outcomes: dict[str, Outcome] = {}
    program = JavaProgram(
        "RunSuite", *classes, properties=properties, classes=suite_driver_class_path(), heap=_HEAP
    )
    with program:
        while True:
            try:
                line = program.next(_TEST_S_MAX)
            except DriverFailed as failed:
                if "has ended" in str(failed):
                    program.rest()  # raises unless it ended with 0
                    return outcomes
                program.kill()
                raise
            test = f"{line['class'].rpartition('.')[2]}.{line['method']}"
            outcomes[test] = Outcome(test, line["outcome"], line["ms"], line["error"])
            report(outcomes[test])


@contextmanager
def comet_cluster(folder: Path) -> Iterator[str]:
    """Our name server and two of our brokers, with TLS: the name server's address."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = Authority(folder, "authority").issue("server", "127.0.0.1")
    tls = {"tls.server.certPath": pair.cert, "tls.server.keyPath": pair.key}
    with ExitStack() as started:
        settings = [f"{name}={value}" for name, value in tls.items()]
        namesrv = started.enter_context(CometNamesrv(folder / "namesrv", *settings))
        for name in BROKERS:
            broker = CometBroker(
                folder / name, namesrv=namesrv.address, name=name, cluster=CLUSTER, conf=CONF | tls
            )
            started.callback(broker.kill)
            broker.start()
        yield namesrv.address


@contextmanager
def apache_cluster(folder: Path) -> Iterator[str]:
    """Apache's name server and two of its brokers, with TLS: the name server's address."""
    tls = {"tls.server.mode": "permissive"}
    with ExitStack() as started:
        namesrv = ApacheNamesrv(folder / "namesrv", properties=tls)
        started.callback(namesrv.kill)
        namesrv.start()
        for name in BROKERS:
            broker = ApacheBroker(
                folder / name, namesrv=namesrv.address, name=name, cluster=CLUSTER,
                conf=CONF, properties=tls,
            )  # fmt: skip
            started.callback(broker.kill)
            broker.start()
        yield namesrv.address
