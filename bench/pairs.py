"""Two versions of the broker and Apache's, side by side in one run: CPU per message.

    bench/run pairs --old FOLDER             this tree against the tree in FOLDER
    bench/run pairs --old FOLDER --apache    and against Apache's broker, with each row's code warm

FOLDER is a checkout with a `.venv` of its own. All brokers are up at the same time. Each row runs
in ROUNDS rounds; in each round every broker gets the same load once, in reversed order every other
round. The table shows the median CPU of each broker and the median ratio of the pairs: other load
on the machine hits both sides. Rates are not shown, because they depend on the load generator.
"""

import argparse
import selectors
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import broker_load as load
from measure import machine
from raw_client import RawClient

from broker import BODIES, SIZES, SYNC, ServingApache
from peers.apache import ApacheBroker
from peers.comet import CometBroker, CometNamesrv

ROUNDS = 5
WARM_S = 6.0  # of each kind of load; a JVM compiles a method after ten thousand calls
SMALL, LARGE = BODIES["128 B"], BODIES["1 KiB"]
PULLS = 4_000

Broker = ApacheBroker | CometBroker
Frames = Callable[[RawClient, int], Sequence[bytes]]


@dataclass(frozen=True)
class Row:
    """A load: the frames of so many requests over some connections, some in flight on each."""

    name: str
    frames: Frames
    count: int
    connections: int = 1
    in_flight: int = 1
    messages: int = 1  # in each request
    sync: bool = False


def singles(body: bytes) -> Frames:
    return lambda _client, count: [load.send(body, n % load.QUEUES) for n in range(count)]


def batches(body: bytes) -> Frames:
    return lambda _client, count: [load.send_batch(body, n % load.QUEUES) for n in range(count)]


def pulls(client: RawClient, count: int) -> Sequence[bytes]:
    """Pulls of the newest messages of each queue."""
    load.introduce(client)
    per_queue = load.PULLED * 64
    ends = [int(load.end_of(client, queue_id)) for queue_id in range(load.QUEUES)]
    frames = [
        load.pull(queue_id, max(0, ends[queue_id] - per_queue) + offset)
        for offset in range(0, per_queue, load.PULLED)
        for queue_id in range(load.QUEUES)
    ]
    return (frames * -(-count // len(frames)))[:count]


ROWS = (
    Row("send 128 B, 1 connection, 1 in flight", singles(SMALL), 6_000),
    Row("send 128 B, 1 connection, 64 in flight", singles(SMALL), 40_000, 1, 64),
    Row("send 128 B, 8 connections, 64 in flight", singles(SMALL), 30_000, 8, 8),
    Row("send 128 B, 64 connections, 64 in flight", singles(SMALL), 15_000, 64, 1),
    Row("send 1 KiB, 8 connections, 64 in flight", singles(LARGE), 20_000, 8, 8),
    Row("batch of 32 x 128 B, 4 in flight", batches(SMALL), 1_500, 1, 4, load.BATCH),
    Row("batch of 32 x 1 KiB, 4 in flight", batches(LARGE), 600, 1, 4, load.BATCH),
    Row("pull of 32 x 128 B, 16 in flight", pulls, PULLS, 1, 16),
    Row("SYNC, send 128 B, 1 in flight", singles(SMALL), 600, sync=True),
    Row("SYNC, send 128 B, 8 connections, 64 in flight", singles(SMALL), 8_000, 8, 8, sync=True),
)


class OldBroker(CometBroker):
    """The broker of another tree."""

    command = Path()


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process, by the scheduler's own count in nanoseconds."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def flood(clients: Sequence[RawClient], frames: Sequence[bytes], in_flight: int) -> int:
    """Send frames over all connections, some unanswered on each; returns the good answers."""
    if len(clients) == 1:
        return clients[0].flood(frames, in_flight)
    left = iter(frames)
    good = answered = 0
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
            client.write(b"".join(next(left, b"") for _ in range(in_flight)))
        while answered < len(frames):
            for key, _ in selector.select():
                client = key.fileobj
                assert isinstance(client, RawClient)
                count, successes = client.answers()
                answered += count
                good += successes
                client.write(b"".join(next(left, b"") for _ in range(count)))
    return good


@contextmanager
def connected(broker: Broker, count: int) -> Iterator[list[RawClient]]:
    clients = [RawClient(broker.port) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def run(broker: Broker, row: Row) -> float:
    """CPU microseconds of the broker per message."""
    with connected(broker, row.connections) as clients:
        frames = row.frames(clients[0], row.count)
        before = cpu_s(broker.pid)
        good = flood(clients, frames, row.in_flight)
        spent = cpu_s(broker.pid) - before
    assert good > 0.99 * len(frames), f"{len(frames) - good} of {len(frames)} requests failed"
    return spent / good / row.messages * 1e6


def warm(broker: Broker, rows: Sequence[Row]) -> None:
    """Run each row's own load for a while: the code of one row does not warm that of another."""
    seconds = WARM_S if isinstance(broker, ApacheBroker) else 0.5
    for row in rows:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            run(broker, row)


def compare(brokers: dict[str, Broker], rows: Sequence[Row]) -> None:
    """The table, row by row."""
    for broker in brokers.values():
        warm(broker, rows)
    for row in rows:
        taken: dict[str, list[float]] = {name: [] for name in brokers}
        for number in range(ROUNDS):
            order = list(brokers.items())
            for name, broker in reversed(order) if number % 2 else order:
                taken[name].append(run(broker, row))
        ratios = {
            name: median(new / one for new, one in zip(taken["new"], found, strict=True))
            for name, found in taken.items()
            if name != "new"
        }
        cells = [f"{median(found):10.1f}" for found in taken.values()]
        cells += [f"{ratio:12.2f}" for ratio in ratios.values()]
        print(f"{row.name:50}" + "".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--apache", action="store_true")
    chosen = parser.parse_args()
    OldBroker.command = chosen.old.absolute() / ".venv" / "bin" / "cometmq"
    kinds: dict[str, type[Broker]] = {"new": CometBroker, "old": OldBroker}
    if chosen.apache:
        kinds["apache"] = ServingApache
    print(f"pairs, {machine()}; CPU microseconds of the broker per message or pull")
    titles = [f"{name:>10}" for name in kinds]
    titles += [f"{'new/' + name:>12}" for name in kinds if name != "new"]
    print(f"{'':50}" + "".join(titles))
    for sync in (False, True):
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            brokers: dict[str, Broker] = {}
            for kind, make in kinds.items():
                folder = Path(name) / kind
                namesrv = stack.enter_context(CometNamesrv(folder / "namesrv"))
                conf = SIZES | (SYNC if sync else {})
                broker = make(folder / "broker", namesrv=namesrv.address, conf=conf)
                stack.callback(broker.kill)
                brokers[kind] = broker.start()
            compare(brokers, [row for row in ROWS if row.sync == sync])


if __name__ == "__main__":
    main()
