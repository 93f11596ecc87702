"""Histories of a store, cut before every step of its disk and between, and what is left of it.

What is to hold is in docs/disk.md, section 7.
"""

import asyncio
import logging
from random import Random

from cometmq.errors import StoreFailed
from cometmq.store.message_store import MessageStore
from cometmq.testing.clock import ManualClock
from cometmq.testing.shadow_disk import ShadowDisk
from crash.rig import (
    EVERY_KEY,
    FILE_SIZE,
    QUEUES,
    Camera,
    History,
    Image,
    check,
    check_backup,
    check_table,
    open_store,
    put,
    put_batch,
    running,
    save,
    settled,
    vouched,
)

KINDS = (
    "sync", "async", "sync, held", "async, held", "sync, clock set back", "sync, failing",
    "sync, full", "sync, deleting", "async, held, deleting",
)  # fmt: skip
KEYS_LOOKED_UP = 8  # of each state


async def write(camera: Camera, clock: ManualClock, kind: str, count: int) -> None:
    """A day of a store: puts, batches, waits, flushes, time that passes, a clean restart."""
    disk, chance = camera.disk, camera.chance
    store = open_store(disk, clock)
    await store.__aenter__()
    if "held" in kind:
        disk.hold()
    if "failing" in kind:
        disk.fail_sync_at = disk.syncs + chance.randrange(3 * count)
    try:
        for number in range(count):
            await put_some(store, camera, clock, kind)
            await between(store, camera, clock, kind)
            if number == count // 2 and chance.random() < 0.5:
                disk.release()
                disk.room = None
                store = await restarted(store, camera, clock)
        disk.room = None
        await flushed(store, camera, clock)
    except (StoreFailed, OSError):
        assert "failing" in kind, "the disk is well"
    camera.take("at the end")
    camera.take("at the end")
    await settled(disk, asyncio.ensure_future(store.abandon()))


async def put_some(store: MessageStore, camera: Camera, clock: ManualClock, kind: str) -> None:
    disk, history, chance = camera.disk, camera.history, camera.chance
    many = chance.random() < 0.2
    stored = (put_batch if many else put)(store, history, chance, clock.wall_ms())
    if chance.random() < 0.3:
        camera.take("between steps")
    if stored is not None and "async" not in kind and chance.random() < 0.7:
        promised = len(history.sent)
        waiter = store.durable(stored)
        if chance.random() < 0.3:  # others come while the disk is at it
            put(store, history, chance, clock.wall_ms())
        await settled(disk, waiter)
        history.promised = max(history.promised, promised)


async def flushed(store: MessageStore, camera: Camera, clock: ManualClock) -> None:
    """All that was put until now is promised; more comes meanwhile."""
    history = camera.history
    promised = len(history.sent)
    flush = asyncio.ensure_future(store.flush())
    await asyncio.sleep(0)
    put(store, history, camera.chance, clock.wall_ms())
    await settled(camera.disk, flush)
    history.promised = max(history.promised, promised)


async def between(store: MessageStore, camera: Camera, clock: ManualClock, kind: str) -> None:
    disk, chance = camera.disk, camera.chance
    try:
        match chance.randrange(10):
            case 0:
                await flushed(store, camera, clock)
            case 1:
                await clock.advance(chance.choice((1, 300, 1000, 5000)))
            case 2:
                disk.write_back(chance)
            case 3 if "clock" in kind:
                clock.jump(chance.choice((-7_200_000, -10_000, -5, 10_000)))
            case 4:
                disk.release()
            case 5 | 6:
                save(disk, camera.history)
            case 7 | 8 if "full" in kind:
                disk.room = chance.choice((None, None, 1, 99, 4095, 4097, 9999))
            case 8 | 9 if "deleting" in kind:
                await deleted(store, camera, clock)
    except OSError:
        if "full" not in kind:
            raise


async def deleted(store: MessageStore, camera: Camera, clock: ManualClock) -> None:
    """A topic; messages are sent to it and to others while it goes."""
    disk, history, chance = camera.disk, camera.history, camera.chance
    topic, _ = chance.choice(QUEUES)
    history.leaving = topic, len(history.sent)
    deletion = asyncio.ensure_future(store.delete_topic(topic))
    await asyncio.sleep(0)
    while not deletion.done():
        if chance.random() < 0.3:
            put(store, history, chance, clock.wall_ms())
        disk.release()
        await asyncio.sleep(0)
    deletion.result()
    history.delete(store.log_bounds[1])


async def restarted(store: MessageStore, camera: Camera, clock: ManualClock) -> MessageStore:
    """A clean stop, and a start."""
    disk = camera.disk
    promised = len(camera.history.sent)
    await settled(disk, asyncio.ensure_future(store.__aexit__()))
    camera.history.promised = promised
    camera.take("after a clean stop")
    again = open_store(disk, clock)
    await settled(disk, asyncio.ensure_future(again.__aenter__()))
    return again


async def examine(image: Image, chance: Random, keys: int, depth: int = 0) -> int:
    """Open a store on what a crash left, and crash it again. How many states were looked at."""
    history = image.history
    disk = image.disk
    during = Camera(disk, history, chance, lambda: image.wall_ms, 0.03 if depth < 2 else 0.0)
    vouched_end, version = vouched(disk), check_table(disk, history)
    async with running(disk, image.wall_ms) as store:
        # A blank at the end of a file is vouched for, and is no end: the next record comes after.
        blank = -vouched_end % FILE_SIZE == 0 and vouched_end - FILE_SIZE < store.recovered.end
        assert vouched_end <= store.recovered.end or blank, "the checkpoint vouches for more"
        kept = check(store, history, chance, keys)
        after = history.after(kept, version)
        later = Camera(disk, after, chance, lambda: image.wall_ms, 0.01 if depth < 2 else 0.0)
        if depth < 2 and chance.random() < 0.1:
            later.take("right after recovery")
        for _ in range(3):
            stored = put(store, after, chance, image.wall_ms + 1)
        assert stored is not None
        await settled(disk, store.durable(stored))
        after.promised = len(after.sent)
        save(disk, after)
        if depth < 2 and chance.random() < 0.1:
            later.take("after puts that follow a recovery")
        if chance.random() < 0.2:
            check(store, after, chance, keys)
    disk.before_step = None
    if version:
        check_backup(disk, version)
    states = 1
    for again in during.images + later.images:
        states += await examined(again, chance, keys, depth + 1, image.moment)
    return states


async def examined(image: Image, chance: Random, keys: int, depth: int, before: str) -> int:
    try:
        return await examine(image, chance, keys, depth)
    except AssertionError as error:
        raise AssertionError(f"{before}, then {image.moment}: {error}") from error


async def crash_states(kind: str, seed: int, keys: int = KEYS_LOOKED_UP) -> int:
    """One history, and all the crashes of it."""
    chance = Random(f"{kind} {seed}")
    clock = ManualClock()
    camera = Camera(ShadowDisk(), History(), chance, clock.wall_ms)
    await write(camera, clock, kind, chance.choice((10, 30, 60)))
    states = 0
    for image in camera.images:
        states += await examined(image, chance, keys, 0, f"{kind}, seed {seed}")
    may_promise_nothing = "failing" in kind
    assert camera.history.promised > 0 or may_promise_nothing, "the test is empty"
    return states


def run_history(kind: str, seed: int) -> int:
    """In a process of its own; every other one looks up every key. The number of states."""
    logging.disable(logging.CRITICAL)
    return asyncio.run(crash_states(kind, seed, EVERY_KEY if seed % 2 else KEYS_LOOKED_UP))
