"""Histories of a store, cut before every step of its disk and between, and what is left of it."""

import asyncio
import logging
from random import Random

from cometmq.store.message_store import MessageStore
from cometmq.testing.clock import ManualClock
from cometmq.testing.shadow_disk import ShadowDisk
from crash.rig import Camera, History, Image, check, open_store, put, put_batch, running, settled

KINDS = ("sync", "async", "sync, held", "async, held", "sync, clock set back")


async def write(camera: Camera, clock: ManualClock, kind: str, count: int) -> None:
    """A day of a store: puts, batches, waits, flushes, time that passes, a clean restart."""
    disk, history, chance = camera.disk, camera.history, camera.chance
    store = open_store(disk, clock)
    await store.__aenter__()
    if "held" in kind:
        disk.hold()
    for number in range(count):
        many = chance.random() < 0.2
        stored = (put_batch if many else put)(store, history, chance, clock.wall_ms())
        if chance.random() < 0.3:
            camera.take("between steps")
        if "async" not in kind and chance.random() < 0.7:
            promised = len(history.sent)
            waiter = store.durable(stored)
            if chance.random() < 0.3:  # others come while the disk is at it
                put(store, history, chance, clock.wall_ms())
            await settled(disk, waiter)
            history.promised = max(history.promised, promised)
        await between(store, camera, clock, kind)
        if number == count // 2 and chance.random() < 0.5:
            disk.release()
            store = await restarted(store, camera, clock, kind)
    promised = len(history.sent)
    await settled(disk, asyncio.ensure_future(store.flush()))
    history.promised = promised
    camera.take("after a last flush")
    await store.abandon()


async def between(store: MessageStore, camera: Camera, clock: ManualClock, kind: str) -> None:
    disk, history, chance = camera.disk, camera.history, camera.chance
    match chance.randrange(8):
        case 0:
            promised = len(history.sent)
            flush = asyncio.ensure_future(store.flush())
            await asyncio.sleep(0)
            put(store, history, chance, clock.wall_ms())
            await settled(disk, flush)
            history.promised = max(history.promised, promised)
        case 1:
            await clock.advance(chance.choice((1, 300, 1000, 5000)))
        case 2:
            disk.write_back(chance)
        case 3 if "clock" in kind:
            clock.jump(chance.choice((-7_200_000, -10_000, -5, 10_000)))
        case 4:
            disk.release()


async def restarted(
    store: MessageStore, camera: Camera, clock: ManualClock, kind: str
) -> MessageStore:
    """A clean stop, and a start."""
    disk = camera.disk
    promised = len(camera.history.sent)
    await settled(disk, asyncio.ensure_future(store.__aexit__()))
    camera.history.promised = promised
    camera.take("after a clean stop")
    again = open_store(disk, clock)
    await settled(disk, asyncio.ensure_future(again.__aenter__()))
    return again


async def examine(image: Image, chance: Random, depth: int = 0) -> int:
    """Open a store on what a crash left, and crash it again. How many states were looked at."""
    history = image.history
    disk = image.disk
    during = Camera(disk, history, chance, lambda: image.wall_ms, 0.03 if depth < 2 else 0.0)
    async with running(disk, image.wall_ms) as store:
        kept = check(store, history, chance)
        after = history.after(kept)
        later = Camera(disk, after, chance, lambda: image.wall_ms, 0.01 if depth < 2 else 0.0)
        if depth < 2 and chance.random() < 0.1:
            later.take("right after recovery")
        for _ in range(3):
            stored = put(store, after, chance, image.wall_ms + 1)
        await settled(disk, store.durable(stored))
        after.promised = len(after.sent)
        if depth < 2 and chance.random() < 0.1:
            later.take("after puts that follow a recovery")
        if chance.random() < 0.2:
            check(store, after, chance)
    disk.before_step = None
    states = 1
    for again in during.images + later.images:
        states += await examined(again, chance, depth + 1, image.moment)
    return states


async def examined(image: Image, chance: Random, depth: int, before: str) -> int:
    try:
        return await examine(image, chance, depth)
    except AssertionError as error:
        raise AssertionError(f"{before}, then {image.moment}: {error}") from error


async def crash_states(kind: str, seed: int) -> int:
    """One history, and all the crashes of it."""
    chance = Random(f"{kind} {seed}")
    clock = ManualClock()
    camera = Camera(ShadowDisk(), History(), chance, clock.wall_ms)
    await write(camera, clock, kind, chance.choice((10, 30, 60)))
    states = 0
    for image in camera.images:
        states += await examined(image, chance, 0, f"{kind}, seed {seed}")
    assert camera.history.promised > 0, "nothing was promised: the test is empty"
    return states


def run_history(kind: str, seed: int) -> int:
    """In a process of its own. The number of states."""
    logging.disable(logging.CRITICAL)
    return asyncio.run(crash_states(kind, seed))
