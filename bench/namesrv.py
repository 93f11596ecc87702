"""The name server under load, beside Apache's in the same run where Java is at hand."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import machine, process_cpu_s, rss_mb, show
from raw_client import RawClient, request

from cometmq.protocol.bodies.register import RegisterBroker, encode_register
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig, TopicConfigTable
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.namesrv import RegisterBrokerHeader, RouteHeader
from cometmq.protocol.records.message import body_crc
from peers.apache import ApacheNamesrv
from peers.comet import COMMAND, CometNamesrv
from peers.jars import PeerMissing, class_path

TOPICS, BROKERS = 10_000, 20
QUERIES = 200_000
IN_FLIGHT = (1, 64)


@contextmanager
def servers() -> Iterator[list[tuple[str, int, int]]]:
    """Name, pid and port: ours, and Apache's."""
    with tempfile.TemporaryDirectory() as folder, CometNamesrv(Path(folder) / "ours") as ours:
        found = [("cometmq", ours.pid, ours.port)]
        try:
            class_path()
        except PeerMissing as missing:
            print(f"without Apache's name server: {missing}")
            yield found
            return
        (Path(folder) / "apache").mkdir()
        with ApacheNamesrv(Path(folder) / "apache") as apache:
            yield [*found, ("apache", apache.pid, apache.port)]


def register(wire: RawClient, broker: int, version: int) -> float:
    """Register one broker with all topics; the seconds it took."""
    topics = {f"topic-{i:05}": TopicConfig(topic_name=f"topic-{i:05}") for i in range(TOPICS)}
    table = TopicConfigTable(data_version=DataVersion(counter=version), topic_config_table=topics)
    body = encode_register(RegisterBroker(filter_server_list=[], topics=table))
    header = RegisterBrokerHeader(
        broker_name=f"broker-{broker}",
        broker_addr=f"10.0.0.{broker}:10911",
        cluster_name="bench",
        ha_server_addr=f"10.0.0.{broker}:10912",
        broker_id=0,
        body_crc32=body_crc(body),
    )
    begun = time.perf_counter()
    wire.ask(RequestCode.REGISTER_BROKER, header, body)
    return time.perf_counter() - begun


def measure(name: str, pid: int, port: int) -> None:
    wires = [RawClient(port) for _ in range(BROKERS)]
    cpu_before, rss_before = process_cpu_s(pid), rss_mb(pid)
    times = [register(wire, i, 1) for i, wire in enumerate(wires)]
    again = [register(wire, i, 2) for i, wire in enumerate(wires)]
    cpu = process_cpu_s(pid) - cpu_before
    what = f"{TOPICS} topics"
    show(f"{name}: register of {what}, first", times[0] * 1e3, "ms", "aim under 300")
    show(f"{name}: register of {what}, slowest of {BROKERS}", max(times) * 1e3, "ms")
    show(f"{name}: register again with a new version, median", sorted(again)[10] * 1e3, "ms")
    show(f"{name}: CPU of a register", cpu / (2 * BROKERS) * 1e3, "ms")
    show(f"{name}: memory for {what} on {BROKERS} brokers", rss_mb(pid) - rss_before, "MB")
    show(f"{name}: resident in all", rss_mb(pid), "MB")
    frame = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic="topic-00042"))
    wires[0].flood([frame] * (QUERIES // 4), 64)  # warm
    for in_flight in IN_FLIGHT:
        count = QUERIES if in_flight > 1 else QUERIES // 5
        cpu_before, begun = process_cpu_s(pid), time.perf_counter()
        wires[0].flood([frame] * count, in_flight)
        spent, cpu = time.perf_counter() - begun, process_cpu_s(pid) - cpu_before
        what = f"route of {BROKERS} brokers, {in_flight} in flight"
        show(f"{name}: {what}", count / spent, "1/s", f"{cpu / count * 1e6:.1f} us CPU each")
    for wire in wires:
        wire.close()


def start_up() -> None:
    """From the command to the line that says it listens, and what it weighs then."""
    times = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            server = CometNamesrv(Path(folder))
            begun = time.perf_counter()
            server.start()
            times.append(time.perf_counter() - begun)
            resident = rss_mb(server.pid)
            server.stop()
    show("cometmq: start to listening, best of 5", min(times) * 1e3, "ms", "aim under 500")
    show("cometmq: resident after start", resident, "MB", "aim under 60")
    begun = time.perf_counter()
    subprocess.run([str(COMMAND), "--version"], check=True, stdout=subprocess.DEVNULL)
    show("cometmq --version", (time.perf_counter() - begun) * 1e3, "ms")


def main() -> None:
    print(f"name server, {machine()}")
    start_up()
    with servers() as running:
        for name, pid, port in running:
            measure(name, pid, port)


if __name__ == "__main__":
    sys.exit(main())
