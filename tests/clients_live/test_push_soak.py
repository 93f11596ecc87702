"""A slow listener, a backlog and connections that break, for a time: nothing grows.

COMETMQ_SOAK_S says how long, in seconds; ten minutes is a fair trial.
"""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from clients_live.consuming import client_of, consumer_of, listening, make_topic, named, until
from cometmq.client.consumer.shared.outcomes import Retry
from peers.raw import RawClient

SOAK_S = float(os.environ.get("COMETMQ_SOAK_S", "6"))
SAMPLES_MIN = 10  # however busy the machine is
QUEUES = 4
LIMIT = 200  # messages of a queue that wait
PULLED = 32
BODY = b"x" * 512
MIB_MORE_MAX = 24  # what a short run may still warm up
pytestmark = pytest.mark.timeout(600 + 2 * SOAK_S)


def resident_mib():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def keep_sending(cluster, topic):
    async with RawClient(cluster.broker.address) as raw:
        while True:
            await asyncio.gather(*(raw.send(topic, each, BODY) for each in range(QUEUES)))
            await asyncio.sleep(0.002)


async def keep_cutting(consumer):
    while True:
        await asyncio.sleep(max(0.5, SOAK_S / 60))
        for channel in list(consumer._session.pool._alive):
            channel.abort()


async def soak(cluster, handler):
    """Tasks, threads and memory, sampled ten times and more."""
    topic = named("Soak")
    await make_topic(cluster, topic, QUEUES)
    consumer = consumer_of(
        cluster, named("soaked"), client_of(cluster, pull_delay_when_exception=0.05),
        pull_threshold_for_queue=LIMIT, consume_threads=8,
    )  # fmt: skip
    samples = []
    async with listening(consumer, topic, handler), asyncio.TaskGroup() as group:
        trouble = [
            group.create_task(keep_sending(cluster, topic)),
            group.create_task(keep_cutting(consumer)),
        ]
        end = time.monotonic() + SOAK_S
        while time.monotonic() < end or len(samples) < SAMPLES_MIN:
            await asyncio.sleep(SOAK_S / 20)
            waiting = [len(held.process) for held in consumer._member._owned.of(topic)]
            assert all(count <= LIMIT + PULLED for count in waiting)
            samples.append((len(asyncio.all_tasks()), threading.active_count(), resident_mib()))
        for task in trouble:
            task.cancel()
        await until(lambda: len(consumer.queues) == QUEUES, "all queues")
    return samples


def assert_flat(samples):
    half = len(samples) // 2
    for kind, more_max in ((0, 40), (1, 8), (2, MIB_MORE_MAX)):
        before = max(sample[kind] for sample in samples[:half])
        after = max(sample[kind] for sample in samples[half:])
        assert after <= before + more_max, samples
    print(f"tasks, threads, MiB after {SOAK_S:.0f} s: {samples[0]} at first, {samples[-1]} at last")


def test_nothing_grows_with_a_slow_function(cluster):
    def handler(message):
        time.sleep(0.005)
        return Retry() if message.queue_offset % 50 == 0 else None

    assert_flat(asyncio.run(soak(cluster, handler)))


def test_nothing_grows_with_a_slow_coroutine(cluster):
    async def handler(message):
        await asyncio.sleep(0.005)
        return Retry() if message.queue_offset % 50 == 0 else None

    assert_flat(asyncio.run(soak(cluster, handler)))
