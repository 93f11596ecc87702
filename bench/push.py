"""Push consumers over a backlog: what consuming costs the client, beside Apache's client.

The broker is ours, in a process of its own. The client's CPU per message is the steady number;
rates are what the two of them came to on this machine. Listeners count, or look at the body too.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import machine, show

from cometmq import ConsumeFrom, Message, Producer, PushConsumer, PushConsumerConfig
from peers.clusters import QUICK, Cluster, running
from peers.driver import run_java
from peers.jars import PeerMissing, class_path

COUNT = 200_000
REPEATS = 3
TOPIC = "Backlog"
BODY = b"x" * 128
SENT_AT_ONCE = 100
WAIT_S_MAX = 120


@dataclass(frozen=True)
class Way:
    """How a listener is run."""

    name: str
    batch: int
    is_async: bool
    looks: bool = False
    orderly: bool = False


WAYS = [
    Way("coroutine, batches of 32", 32, True),
    Way("coroutine, batches of 32, with bodies", 32, True, looks=True),
    Way("coroutine, one by one", 1, True),
    Way("function in threads, batches of 32", 32, False),
    Way("function in threads, batches of 32, with bodies", 32, False, looks=True),
    Way("function in threads, one by one", 1, False),
    Way("orderly coroutine, batches of 32", 32, True, orderly=True),
]


class Counter:
    """A listener that knows when it has had them all."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self.ended = asyncio.Event()

    def __call__(self, given: Any) -> None:
        messages: Sequence[Any] = given if self._way.batch > 1 else (given,)
        if self._way.looks:
            for message in messages:
                assert len(message.body) == len(BODY)
        self._count += len(messages)  # of several threads some may be lost: few, and counted again
        if self._count >= COUNT:
            self._loop.call_soon_threadsafe(self.ended.set)

    @property
    def handler(self) -> Callable[[Any], Any]:
        """As the consumer wants it."""

        async def awaited(given: Any) -> None:
            self(given)

        return awaited if self._way.is_async else self


async def fill(name_server: str) -> None:
    """The backlog, over four queues, and a little more, as counting may lose some."""
    messages = [Message(TOPIC, BODY)] * SENT_AT_ONCE
    async with Producer("bench", name_server) as producer:
        await producer.create_topic(TOPIC, 4)
        for _ in range(COUNT // SENT_AT_ONCE + 10):
            await producer.send_batch(messages)


async def consumed(name_server: str, way: Way, run: int) -> tuple[float, float]:
    """Seconds and CPU seconds of one backlog."""
    counter = Counter(way)
    group = f"{'-'.join(way.name.replace(',', '').split())}-{run}"
    config = PushConsumerConfig(
        group=group, consume_from=ConsumeFrom.FIRST_OFFSET, consume_message_batch_max_size=way.batch
    )
    consumer = PushConsumer(config, name_server)
    consumer.subscribe(TOPIC)
    consumer.listen(counter.handler, orderly=way.orderly)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    async with consumer, asyncio.timeout(WAIT_S_MAX):
        await counter.ended.wait()
        return time.perf_counter() - begun, time.process_time() - begun_cpu


def java(name_server: str, batch: int, run: int) -> tuple[float, float]:
    """The same of Apache's client, from its first message on."""
    words = (name_server, TOPIC, f"java-{batch}-{run}", COUNT, batch)
    line = run_java("PushBacklog", *words)[-1]
    return line["us"] / 1e6, line["cpuUs"] / 1e6


def tell(way: str, runs: list[tuple[float, float]]) -> None:
    """The run with the least CPU."""
    seconds, cpu = min(runs, key=lambda run: run[1])
    show(f"push, {way}", cpu / COUNT * 1e6, "us CPU", f"{COUNT / seconds:,.0f} messages/s")


def measure(cluster: Cluster) -> None:
    """All ways, one after the other."""
    name_server = cluster.namesrv.address
    asyncio.run(fill(name_server))
    for way in WAYS:
        tell(way.name, [asyncio.run(consumed(name_server, way, run)) for run in range(REPEATS)])
    try:
        class_path()
    except PeerMissing as missing:
        print(f"Apache's client is left out: {missing}", file=sys.stderr)
        return
    for batch in (1, 32):
        tell(f"Java, batches of {batch}", [java(name_server, batch, run) for run in range(REPEATS)])


if __name__ == "__main__":
    print(machine())
    with tempfile.TemporaryDirectory() as folder, running("cometmq", Path(folder), QUICK) as one:
        measure(one)
