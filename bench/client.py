"""What sending costs a client: ours, Apache's Java client, and the wheel `rocketmq` 0.4.4 (C++).

The broker is ours, in a process of its own; beside it stands a broker that only answers
(fake_broker.py), which shows what the client alone can do. CPU is the client's, of all its threads.
"""

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from measure import machine

from cometmq import Message, Producer, ProducerConfig, SendResult, blocking
from peers.clusters import QUICK, running
from peers.driver import run_java
from peers.jars import PeerMissing, class_path

TOPIC = "Load"
BODY = b"x" * 128
BATCH = 32
REPEATS = 3
CONFIG = ProducerConfig(group="load", send_timeout=10)
FAKE = Path(__file__).with_name("fake_broker.py")


@dataclass(frozen=True)
class Taken:
    """One run of a load."""

    sent: int
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        us = self.cpu_seconds / self.sent * 1e6
        return f"{self.sent / self.seconds:9,.0f}/s {us:7.1f} us"


# Ours -------------------------------------------------------------------------------------------

Run = Callable[[str, int], Taken]


def awaited(width: int) -> Run:
    """So many tasks, each of which awaits its answers."""

    async def send_all(producer: Producer, count: int) -> None:
        async def one() -> None:
            for _ in range(count // width):
                await producer.send(Message(TOPIC, BODY))

        await asyncio.gather(*(one() for _ in range(width)))

    return _on_a_loop(send_all)


def told(width: int) -> Run:
    """So many in flight: each answer has the next one sent."""

    async def send_all(producer: Producer, count: int) -> None:
        left = count

        def answered(outcome: SendResult | Exception) -> None:
            nonlocal left
            if isinstance(outcome, Exception):
                raise outcome
            if left:
                left -= 1
                producer.send_soon(Message(TOPIC, BODY), answered)

        for _ in range(width):
            left -= 1
            producer.send_soon(Message(TOPIC, BODY), answered)
        await producer.flush()
        assert not left

    return _on_a_loop(send_all)


def batched(width: int) -> Run:
    """Batches of BATCH, so many at once."""

    async def send_all(producer: Producer, count: int) -> None:
        async def one() -> None:
            for _ in range(count // width // BATCH):
                await producer.send_batch([Message(TOPIC, BODY) for _ in range(BATCH)])

        await asyncio.gather(*(one() for _ in range(width)))

    return _on_a_loop(send_all)


def _on_a_loop(send_all: Callable[[Producer, int], object]) -> Run:
    def run(name_server: str, count: int) -> Taken:
        async def main() -> Taken:
            async with Producer(CONFIG, name_server) as producer:
                await send_all(producer, count // 4)  # type: ignore[misc]
                begun, cpu = time.perf_counter(), time.process_time()
                await send_all(producer, count)  # type: ignore[misc]
                return Taken(count, time.perf_counter() - begun, time.process_time() - cpu)

        return asyncio.run(main())

    return run


def threads(width: int) -> Run:
    """So many threads, each of which waits for its answers."""

    def run(name_server: str, count: int) -> Taken:
        with blocking.Producer(CONFIG, name_server) as producer:
            return _by_threads(lambda: producer.send(Message(TOPIC, BODY)), width, count)

    return run


def _by_threads(send: Callable[[], object], width: int, count: int) -> Taken:
    failures: list[Exception] = []

    def one() -> None:
        try:
            for _ in range(count // width):
                send()
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    send()
    workers = [threading.Thread(target=one) for _ in range(width)]
    begun, cpu = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return Taken(count, time.perf_counter() - begun, time.process_time() - cpu)


# Theirs -----------------------------------------------------------------------------------------


def java(way: str, width: int) -> Run:
    """By SendLoad.java."""

    def run(name_server: str, count: int) -> Taken:
        (line,) = run_java("SendLoad", name_server, TOPIC, way, width, count, timeout=300)
        return Taken(line["sent"], line["seconds"], line["cpuSeconds"])

    return run


def wheel(width: int) -> Run:
    """By the C++ client's binding, whose wheel has its library in it; it waits for each answer."""

    def run(name_server: str, count: int) -> Taken:
        import rocketmq.client as cpp  # type: ignore[import-not-found]

        producer = cpp.Producer("load")
        producer.set_namesrv_addr(name_server)
        producer.start()

        def send() -> None:
            message = cpp.Message(TOPIC)
            message.set_body(BODY)
            producer.send_sync(message)

        taken = _by_threads(send, width, count)
        producer.shutdown()
        return taken

    return run


# The table --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A load, by the clients that have a way to send it."""

    name: str
    count: int  # messages
    ours: Run
    java: Run | None = None
    wheel: Run | None = None


ROWS = (
    Row("awaited, 1 in flight", 8_000, awaited(1), java("threads", 1), wheel(1)),
    Row("awaited, 64 in flight", 64_000, awaited(64)),
    Row("callback, 64 in flight", 64_000, told(64), java("callback", 64)),
    Row("callback, 512 in flight", 64_000, told(512), java("callback", 512)),
    Row("blocking, 1 thread", 8_000, threads(1), java("threads", 1), wheel(1)),
    Row("blocking, 16 threads", 16_000, threads(16), java("threads", 16), wheel(16)),
    Row(f"batch of {BATCH}, one at a time", 64_000, batched(1), java("batch", BATCH)),
    Row(f"batch of {BATCH}, 4 at once", 64_000, batched(4)),
)


def absent() -> dict[str, str]:
    """The clients that cannot be run here, and why."""
    found = {}
    try:
        class_path()
    except PeerMissing as missing:
        found["java"] = str(missing)
    try:
        import rocketmq.client  # noqa: F401
    except (ImportError, OSError) as error:
        found["wheel"] = f"rocketmq 0.4.4: not installed: {error}"
    return found


@contextmanager
def fake_broker() -> Iterator[str]:
    """Its address; it is its own name server."""
    with subprocess.Popen(
        [sys.executable, str(FAKE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as fake:
        assert fake.stdin is not None and fake.stdout is not None
        yield f"127.0.0.1:{int(fake.stdout.readline())}"
        fake.stdin.close()


def theirs(run: Run, name_server: str, count: int) -> Taken | str:
    """One run; their clients may fail, and the table goes on."""
    try:
        return run(name_server, count)
    except Exception as error:  # noqa: BLE001 - shown
        print(f"failed: {error!s:.200}", file=sys.stderr)
        return "failed"


def best(run: Run, name_server: str, count: int, repeats: int = REPEATS) -> Taken:
    """The run with the least CPU."""
    return min((run(name_server, count) for _ in range(repeats)), key=lambda each: each.cpu_seconds)


def main() -> None:
    """Prints the table; words of the command line choose rows that hold one of them."""
    rows = [row for row in ROWS if not sys.argv[1:] or any(w in row.name for w in sys.argv[1:])]
    missing = absent()
    print(f"client, {machine()}")
    for name, why in missing.items():
        print(f"without {name}: {why}")
    columns = ("ours", "ours, no broker", "java", "wheel")
    print(f"{'':30}" + "".join(f"{name:26}" for name in columns).rstrip())
    with (
        tempfile.TemporaryDirectory() as folder,
        running("cometmq", Path(folder), QUICK) as cluster,
        fake_broker() as fake,
    ):
        address = cluster.namesrv.address
        for row in rows:
            texts = [best(row.ours, address, row.count), best(row.ours, fake, row.count)]
            for name, run in (("java", row.java), ("wheel", row.wheel)):
                is_there = run is not None and name not in missing
                texts.append(theirs(run, address, row.count) if is_there else "-")  # type: ignore
            print(f"{row.name:30}" + "".join(f"{text!s:26}" for text in texts).rstrip(), flush=True)


if __name__ == "__main__":
    main()
