"""The broker under load over TCP, beside Apache's under the same frames in the same run.

Rates say what this machine and this client came to; the broker's CPU per message, from /proc, is
the steady number. Each load is repeated and the run with the least CPU is shown.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import broker_load as load
from measure import machine, rss_mb
from raw_client import RawClient

from peers.apache import ApacheBroker
from peers.comet import CometBroker, CometNamesrv
from peers.jars import PeerMissing, class_path

REPEATS = 3
SAMPLES = 400
PARKED, PARKED_CONNECTIONS, PARKED_S = 10_000, 100, 10
BODIES = {"1 KiB": b"x" * 1024, "128 B": b"x" * 128}
# What the original has unless told otherwise; test peers are given small files.
SIZES = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 20 * 300_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
SYNC = {"flushDiskType": "SYNC_FLUSH"}

Broker = ApacheBroker | CometBroker
Figures = dict[str, str]


class ServingApache(ApacheBroker):
    """With all of the JVM's compilers, its own choice of collector and TLS, as in service."""

    _heap = ("-Xms1g", "-Xmx1g")
    _tuning = ()
    _security: ClassVar[dict[str, str]] = {}


@contextmanager
def running(make: type[Broker], **settings: object) -> Iterator[tuple[Broker, float]]:
    """A broker alone on the machine, and the ms from its start to its first accepted send."""
    with tempfile.TemporaryDirectory() as name, CometNamesrv(Path(name) / "namesrv") as namesrv:
        folder = Path(name) / "broker"
        folder.mkdir()
        broker = make(folder, namesrv=namesrv.address, conf=SIZES | settings)
        begun = time.perf_counter()
        broker.start()
        try:
            client = RawClient(broker.port)
            assert client.flood([load.send(b"first")], 1) == 1
            yield broker, (time.perf_counter() - begun) * 1e3
            client.close()
        except BaseException:
            print(broker.log[-4000:], file=sys.stderr)
            raise
        finally:
            broker.kill()


def sends(broker: Broker, rows: dict[int, int], make: Callable[..., bytes] = load.send) -> Figures:
    """By body size and by how many are in flight, with how many requests."""
    client = RawClient(broker.port)
    each = load.BATCH if make is load.send_batch else 1
    what = f"send of a batch of {each}," if each > 1 else "send of"
    found = {}
    for size, body in BODIES.items():
        for in_flight, count in rows.items():
            frames = [make(body, n % load.QUEUES) for n in range(count)]
            client.flood(frames[: count // 4], in_flight)
            runs = [load.take(broker.pid, client, frames, in_flight, each) for _ in range(REPEATS)]
            found[f"{what} {size}, {in_flight} in flight"] = str(load.best(runs))
    client.close()
    return found


def pulls(broker: Broker, count: int) -> Figures:
    """Of 32 messages each, which four queues share neighbourly."""
    client = RawClient(broker.port)
    load.introduce(client)
    body = BODIES["128 B"]
    per_queue = 32 * 250
    client.flood([load.send(body, n % load.QUEUES) for n in range(per_queue * load.QUEUES)], 64)
    ends = [int(load.end_of(client, queue_id)) for queue_id in range(load.QUEUES)]
    frames = [
        load.pull(queue_id, ends[queue_id] - per_queue + offset)
        for offset in range(0, per_queue, load.PULLED)
        for queue_id in range(load.QUEUES)
    ]
    frames *= max(1, count // len(frames))
    found = {}
    for in_flight in (1, 16):
        client.flood(frames, in_flight)
        runs = [load.take(broker.pid, client, frames, in_flight) for _ in range(REPEATS)]
        found[f"pull of {load.PULLED} of 128 B, {in_flight} in flight"] = str(load.best(runs))
    client.close()
    return found


def arrivals(broker: Broker) -> Figures:
    """How soon a consumer that waits has its message."""
    load.arrival_ms(broker.port, SAMPLES)
    times = load.arrival_ms(broker.port, SAMPLES)
    return {
        "send to a waiting pull's answer, median": f"{load.percentile(times, 0.5):.2f} ms",
        "send to a waiting pull's answer, p99": f"{load.percentile(times, 0.99):.2f} ms",
    }


def parked(broker: Broker) -> Figures:
    """What pulls that wait cost."""
    percent = load.parked_cpu(broker.pid, broker.port, PARKED, PARKED_CONNECTIONS, PARKED_S)
    return {f"{PARKED:,} waiting pulls, CPU over {PARKED_S} s": f"{percent:.1f} % of a core"}


def resident(broker: Broker) -> str:
    """In all, and without the pages of mapped files, which the kernel takes back at will."""
    return f"{rss_mb(broker.pid):.0f} MB, {rss_mb(broker.pid, 'RssAnon'):.0f} its own"


def warm(broker: Broker) -> None:
    """Until a JVM has compiled what is hot: sends, batches and pulls have code of their own."""
    client = RawClient(broker.port)
    load.introduce(client)
    for body in BODIES.values():
        client.flood([load.send(body, n % load.QUEUES) for n in range(60_000)], 64)
        client.flood([load.send_batch(body, n % load.QUEUES) for n in range(3_000)], 4)
    pulled = [load.pull(n % load.QUEUES, n // load.QUEUES * load.PULLED) for n in range(1_000)]
    for _ in range(20):
        client.flood(pulled, 16)
    client.close()


def figures(make: type[Broker]) -> Iterator[Figures]:
    """All of one kind of broker, as they become known."""
    with running(make) as (broker, start_ms):
        yield {"start to first accepted send": f"{start_ms:.0f} ms"}
        time.sleep(3)
        yield {"resident, idle": resident(broker)}
        warm(broker)
        yield sends(broker, {1: 8_000, 64: 40_000})
        yield sends(broker, {4: 1_500}, load.send_batch)
        yield pulls(broker, 4_000)
        yield arrivals(broker)
        yield parked(broker)
        yield {"resident, after all of that": resident(broker)}
    with running(make, **SYNC) as (broker, _):
        warm(broker)
        synced = sends(broker, {1: 1_500, 64: 20_000})
        yield {f"SYNC_FLUSH, {name}": taken for name, taken in synced.items()}


def told(kind: str, make: type[Broker]) -> Figures:
    """All of them, each told at once: a run takes minutes, and may not come to its end."""
    found: Figures = {}
    for some in figures(make):
        for row, text in some.items():
            print(f"{kind:10}{row:52}{text}", file=sys.stderr, flush=True)
        found |= some
    return found


def main() -> None:
    kinds: dict[str, type[Broker]] = {"cometmq": CometBroker, "apache": ServingApache}
    try:
        class_path()
    except PeerMissing as missing:
        print(f"without Apache's broker: {missing}")
        del kinds["apache"]
    if sys.argv[1:]:
        kinds = {name: kinds[name] for name in sys.argv[1:]}
    print(f"broker, {machine()}")
    all_figures = {name: told(name, make) for name, make in kinds.items()}
    print(f"{'':52}" + "".join(f"{name:26}" for name in kinds).rstrip())
    for row in next(iter(all_figures.values())):
        texts = (f"{one[row]:26}" for one in all_figures.values())
        print(f"{row:52}{''.join(texts)}".rstrip())


if __name__ == "__main__":
    main()
