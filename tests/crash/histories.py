"""Histories of a store, crashed before and between all steps of its disk, and checks of the result.

docs/disk.md, section 7, states the guarantees.
"""

import asyncio
import logging
from collections import Counter
from random import Random

from cometmq.errors import StoreFailed
from cometmq.store.index.tag_and_keys import marks_of
from cometmq.store.message_store import MessageStore
from cometmq.testing.clock import ManualClock
from crash.rig import (
    EVERY_KEY,
    FILE_SIZE,
    KEPT_MS,
    QUEUES,
    SIZES,
    Camera,
    History,
    Image,
    check,
    check_backup,
    check_table,
    open_store,
    put,
    put_batch,
    put_burst,
    running,
    save,
    settled,
    vouched,
)
from crash.shadow_disk import ShadowDisk

KINDS = (
    "sync", "async", "sync, held", "async, held", "sync, clock set back", "sync, failing",
    "sync, full", "sync, deleting", "async, held, deleting",
)  # fmt: skip
CLEANING_KINDS = (
    "sync, cleaning", "async, held, cleaning", "sync, failing, cleaning",
    "sync, deleting, cleaning",
)  # fmt: skip
KEYS_LOOKED_UP = 8  # of each state


async def write(camera: Camera, clock: ManualClock, kind: str, count: int) -> None:
    """Write a history: puts, batches, waits, flushes, passing time and clean restarts."""
    disk, chance = camera.disk, camera.chance
    if "cleaning" in kind:
        disk.wall_ms = clock.wall_ms
    store = open_store(disk, clock)
    await store.__aenter__()
    camera.store = store
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
    if "cleaning" in kind and chance.random() < 0.3:
        stored = put_burst(store, history, chance, clock.wall_ms()) or stored
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
    """Flush: everything put so far is promised. More messages are put meanwhile."""
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
            case 7 | 8 if "full" in kind:
                disk.room = chance.choice((None, None, 1, 99, 4095, 4097, 9999))
            case 3 | 6 | 7 if "cleaning" in kind:
                await cleaned(store, camera, clock)
            case 8 | 9 if "deleting" in kind:
                await deleted(store, camera, clock)
            case 5 | 6:
                save(disk, camera.history)
    except OSError:
        if "full" not in kind and "failing, cleaning" not in kind:
            raise


async def cleaned(store: MessageStore, camera: Camera, clock: ManualClock) -> None:
    """Clean old log files days later. Their queue units may still be in memory only."""
    chance = camera.chance
    clock.jump(chance.choice((KEPT_MS // 2, KEPT_MS + 1, KEPT_MS + 1)))
    store.clean()
    camera.note_cleaned()
    if chance.random() < 0.5:
        camera.take("after log files were dropped")
    if chance.random() < 0.5:
        await flushed(store, camera, clock)


async def deleted(store: MessageStore, camera: Camera, clock: ManualClock) -> None:
    """Delete a topic while messages are sent to it and to others."""
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
    """Stop the store cleanly and start it."""
    disk = camera.disk
    promised = len(camera.history.sent)
    await settled(disk, asyncio.ensure_future(store.__aexit__()))
    camera.history.promised = promised
    camera.take("after a clean stop")
    again = open_store(disk, clock)
    await settled(disk, asyncio.ensure_future(again.__aenter__()))
    camera.store = again
    return again


async def examine(image: Image, chance: Random, keys: int, depth: int = 0) -> int:
    """Open a store on a crashed disk and crash it again. Returns the number of checked states."""
    history = image.history
    disk = image.disk
    clock = ManualClock(image.wall_ms)
    during = Camera(disk, history, chance, clock.wall_ms, 0.03 if depth < 2 else 0.0)
    vouched_end, version = vouched(disk), check_table(disk, history)
    async with running(disk, clock=clock) as store:
        # A blank record at the end of a file is vouched for, and the next record follows it.
        blank = -vouched_end % FILE_SIZE == 0 and vouched_end - FILE_SIZE < store.recovered.end
        assert vouched_end <= store.recovered.end or blank, "the checkpoint vouches for more"
        kept = check(store, history, chance, keys)
        after = history.after(kept, version)
        later = Camera(disk, after, chance, clock.wall_ms, 0.01 if depth < 2 else 0.0, store=store)
        if depth < 2 and chance.random() < 0.1:
            later.take("right after recovery")
        await go_on(store, later, clock, depth)
        if chance.random() < 0.2:
            check(store, after, chance, keys)
    disk.before_step = None
    await open_again(disk, after, clock.wall_ms(), chance)
    if version:
        check_backup(disk, version)
    states = 1
    for again in during.images + later.images:
        states += await examined(again, chance, keys, depth + 1, image.moment)
    return states


async def go_on(store: MessageStore, camera: Camera, clock: ManualClock, depth: int) -> None:
    """Put messages after a crash, and clean if the history cleaned before."""
    disk, history, chance = camera.disk, camera.history, camera.chance
    for _ in range(3):
        stored = put(store, history, chance, clock.wall_ms() + 1)
    assert stored is not None
    await settled(disk, store.durable(stored))
    history.promised = len(history.sent)
    save(disk, history)
    if history.cleaned and chance.random() < 0.3:
        clock.jump(KEPT_MS + 2)
        store.clean()
        camera.note_cleaned()
        if chance.random() < 0.5:
            await settled(disk, asyncio.ensure_future(store.flush()))
    if depth < 2 and chance.random() < 0.1:
        camera.take("after puts that follow a recovery")


async def open_again(disk: ShadowDisk, history: History, wall_ms: int, chance: Random) -> None:
    """Check that a store can be opened twice after a kill right after its start."""
    if history.cleaned and chance.random() < 0.5:
        for _ in range(2):
            disk = disk.kill()
            disk.wall_ms = lambda: wall_ms
            async with running(disk, wall_ms) as store:
                check(store, history, chance)


async def examined(image: Image, chance: Random, keys: int, depth: int, before: str) -> int:
    try:
        return await examine(image, chance, keys, depth)
    except AssertionError as error:
        raise AssertionError(f"{before}, then {image.moment}: {error}") from error


async def crash_states(
    kind: str, seed: int, keys: int = KEYS_LOOKED_UP, each_step: float = 1.0
) -> Counter[str]:
    """Run a history and all of its crash states, or a share of them. Returns counts of events."""
    chance = Random(f"{kind} {seed}")
    clock = ManualClock()
    camera = Camera(ShadowDisk(), History(), chance, clock.wall_ms, each_step)
    counts = (15, 30) if "cleaning" in kind else (10, 30, 60)
    await write(camera, clock, kind, chance.choice(counts))
    states = 0
    for image in camera.images:
        states += await examined(image, chance, keys, 0, f"{kind}, seed {seed}")
    may_promise_nothing = "failing" in kind
    assert camera.history.promised > 0 or may_promise_nothing, "the test is empty"
    return Counter(states=states, histories=1) + rolls(camera.history)


def rolls(history: History) -> Counter[str]:
    """Count the files that were cleaned and those that were created when another one was full."""
    sent = history.sent
    units = Counter((one.message.topic, one.message.queue_id) for one in sent)
    units_a_file = SIZES["mapped_file_size_consume_queue"] // 20
    keys = sum(len(marks_of(one.message.properties_text).keys) for one in sent)
    return Counter(
        cleaned=history.cleaned // FILE_SIZE,
        log_rolls=max((one.stored.physical_offset for one in sent), default=0) // FILE_SIZE,
        queue_rolls=sum((count - 1) // units_a_file for count in units.values()),
        index_rolls=keys // SIZES["max_index_num"],
    )


def run_history(kind: str, each_step: float, seed: int) -> Counter[str]:
    """Run a history in a subprocess. Every second history looks up every key."""
    logging.disable(logging.CRITICAL)
    keys = EVERY_KEY if seed % 2 else KEYS_LOOKED_UP
    return asyncio.run(crash_states(kind, seed, keys, each_step))
