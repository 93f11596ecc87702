"""A kill during recovery hid acknowledged messages of a store whose log had been cleaned.

Recovery cuts a queue back to the checkpoint file by file. A kill between two files leaves zeros
before the last units. The next start took the zeros for units of cleaned records, began the queue
after them, and refused the records between. What is to hold is in docs/disk.md, section 7.
"""

import asyncio
from pathlib import Path

from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk
from store.rig import message, open_store, read_all

KEPT_MS = 72 * 3_600_000
FOLDER = Path("/store")


def images_of(disk: ShadowDisk) -> list[ShadowDisk]:
    """The disk as a kill before each of the coming steps leaves it."""
    images: list[ShadowDisk] = []
    disk.before_step = lambda: images.append(disk.kill())
    return images


async def killed_before_the_checkpoint(clock: ManualClock) -> tuple[ShadowDisk, list[bytes]]:
    """A cleaned store whose newest units are in three files, and in no checkpoint."""
    disk = ShadowDisk()
    disk.wall_ms = clock.wall_ms
    store = await open_store(FOLDER, disk, clock).__aenter__()
    for number in range(15):
        store.put(message(b"%d " % number + b"x" * 600), clock.wall_ms())
    await store.flush()
    clock.jump(KEPT_MS + 1)
    assert store.clean() > 0
    await store.flush()
    for number in range(15, 45):
        store.put(message(b"%d " % number + b"x" * 100), clock.wall_ms())
    images = images_of(disk)
    await store.flush()
    disk.before_step = None
    bodies = [one.body for one in read_all(store)]
    await store.abandon()
    return images[-5], bodies  # the checkpoint is written by the last five steps


def test_a_kill_at_any_step_of_recovery_hides_no_message():
    async def story():
        clock = ManualClock()
        disk, bodies = await killed_before_the_checkpoint(clock)
        assert 0 < int(bodies[0].split()[0]) < 15, "some messages are cleaned, not all"
        images = images_of(disk)
        store = await open_store(FOLDER, disk, clock).__aenter__()
        disk.before_step = None
        assert store.recovered.redispatched == 30
        await store.abandon()
        for number, image in enumerate(images):
            store = await open_store(FOLDER, image, clock).__aenter__()
            assert [one.body for one in read_all(store)] == bodies, f"killed before step {number}"
            assert store.recovered.bad == ()
            await store.abandon()
        return len(images)

    assert asyncio.run(story()) > 30
