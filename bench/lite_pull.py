"""Lite pull over a backlog: what reading costs the client, beside Apache's client.

The broker is ours, in a process of its own. The client's CPU per message is the steady number;
rates are what the two of them came to on this machine.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from measure import machine, show

from cometmq import (
    ConsumeFrom,
    LitePullConsumer,
    LitePullConsumerConfig,
    Message,
    Producer,
    blocking,
)
from peers.clusters import QUICK, Cluster, running
from peers.driver import run_java
from peers.jars import PeerMissing, class_path

COUNT = 200_000
REPEATS = 3
TOPIC = "Backlog"
BODY = b"x" * 128
BATCH = 100  # messages of one send

Read = Callable[[LitePullConsumer], Awaitable[None]]


async def by_poll(consumer: LitePullConsumer) -> None:
    """Lists, none of which is looked into."""
    count = 0
    while count < COUNT:
        count += len(await consumer.poll())


async def by_poll_with_bodies(consumer: LitePullConsumer) -> None:
    """Lists, and the body of each message."""
    count = 0
    while count < COUNT:
        count += len([message.body for message in await consumer.poll()])


async def by_iterator(consumer: LitePullConsumer) -> None:
    """One by one."""
    count = 0
    async for _ in consumer:
        count += 1
        if count == COUNT:
            break


async def by_iterator_with_bodies(consumer: LitePullConsumer) -> None:
    """One by one, and the body of each."""
    size = 0
    async for message in consumer:
        size += len(message.body)
        if size == COUNT * len(BODY):
            break


WAYS: dict[str, tuple[Read, int]] = {
    "poll, 10 at a time": (by_poll, 10),
    "poll, 32 at a time": (by_poll, 32),
    "poll, 32 at a time, with bodies": (by_poll_with_bodies, 32),
    "async for": (by_iterator, 32),
    "async for, with bodies": (by_iterator_with_bodies, 32),
}


def config(way: str, run: int, batch: int) -> LitePullConsumerConfig:
    """Of a group that has read nothing yet."""
    group = f"{'-'.join(way.replace(',', '').split())}-{run}"
    return LitePullConsumerConfig(
        group=group, consume_from=ConsumeFrom.FIRST_OFFSET, pull_batch_size=batch
    )


async def fill(name_server: str) -> None:
    """The backlog, over four queues."""
    messages = [Message(TOPIC, BODY)] * BATCH
    async with Producer("bench", name_server) as producer:
        await producer.create_topic(TOPIC, 4)
        await producer.send(messages[0])
        for _ in range(COUNT // BATCH):
            await producer.send_batch(messages)


async def awaited(name_server: str, way: str, run: int) -> tuple[float, float]:
    """Seconds and CPU seconds of one reading."""
    read, batch = WAYS[way]
    consumer = LitePullConsumer(config(way, run, batch), name_server)
    consumer.subscribe(TOPIC)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    async with consumer:
        await read(consumer)
        return time.perf_counter() - begun, time.process_time() - begun_cpu


def waited(name_server: str, run: int) -> tuple[float, float]:
    """The same of the blocking face."""
    consumer = blocking.LitePullConsumer(config("blocking", run, 32), name_server)
    consumer.subscribe(TOPIC)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    with consumer:
        count = 0
        for messages in consumer.batches():
            count += len(messages)
            if count >= COUNT:
                break
        return time.perf_counter() - begun, time.process_time() - begun_cpu


def java(name_server: str, batch: int, run: int) -> tuple[float, float]:
    """The same of Apache's client, from its first message on."""
    lines = run_java(
        "LitePull", name_server, TOPIC, f"java-{batch}-{run}", COUNT, f"batch={batch}", "quiet"
    )
    return lines[-1]["us"] / 1e6, lines[-1]["cpuUs"] / 1e6


def tell(way: str, runs: list[tuple[float, float]]) -> None:
    """The run with the least CPU."""
    seconds, cpu = min(runs, key=lambda run: run[1])
    show(f"lite pull, {way}", cpu / COUNT * 1e6, "us CPU", f"{COUNT / seconds:,.0f} messages/s")


def measure(cluster: Cluster) -> None:
    """All ways, one after the other."""
    name_server = cluster.namesrv.address
    asyncio.run(fill(name_server))
    for way in WAYS:
        tell(way, [asyncio.run(awaited(name_server, way, run)) for run in range(REPEATS)])
    tell("blocking batches of 32", [waited(name_server, run) for run in range(REPEATS)])
    try:
        class_path()
    except PeerMissing as missing:
        print(f"Apache's client is left out: {missing}", file=sys.stderr)
        return
    for batch in (10, 32):
        tell(f"Java, {batch} at a time", [java(name_server, batch, run) for run in range(REPEATS)])


if __name__ == "__main__":
    print(machine())
    with tempfile.TemporaryDirectory() as folder, running("cometmq", Path(folder), QUICK) as one:
        measure(one)
