"""A cluster on a disk that is full, slow or failing."""

import asyncio
import errno
import os
import time

import pytest

from cometmq import Error, Message, Producer
from cometmq.testing import EmbeddedCluster, FaultyDisk

SMALL = {"mappedFileSizeCommitLog": "65536", "flushDiskType": "SYNC_FLUSH"}
ONE_TRY = {"timeout": 3}


async def send(producer, size=100):
    return await producer.send(Message("T", os.urandom(size)), **ONE_TRY)


def on_disk(story, **settings):
    async def told():
        disk = FaultyDisk()
        async with EmbeddedCluster(settings=SMALL | settings, disk=disk) as cluster:
            await cluster.create_topic("T", 1)
            async with Producer("makers", cluster.name_server) as producer:
                await send(producer)
                await story(disk, producer)
                disk.repair()

    asyncio.run(told())


def test_a_full_disk_refuses_messages_until_it_has_room():
    async def story(disk, producer):
        disk.fill()
        with pytest.raises(Error):
            for _ in range(20):  # the allocated files of the log have room for some
                await send(producer, size=10_000)
        disk.free()
        deadline = time.monotonic() + 60
        while True:
            try:
                await send(producer, size=10_000)
                break
            except Error:
                assert time.monotonic() < deadline, "messages are accepted again"

    on_disk(story, cleanResourceInterval="100", flushIntervalCommitLog="20")


def test_a_slow_disk_delays_sends():
    async def story(disk, producer):
        disk.slow(0.3)
        began = time.monotonic()
        await send(producer)
        assert time.monotonic() - began >= 0.3

    on_disk(story)


def test_a_failing_disk_fails_sends():
    async def story(disk, producer):
        disk.fail(errno.EIO)
        with pytest.raises(Error):
            await send(producer)

    on_disk(story)


def test_bad_delays_are_rejected():
    with pytest.raises(Error):
        FaultyDisk().slow("fast")
