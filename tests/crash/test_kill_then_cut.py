"""A process is killed before each disk step, another one continues, and then the power fails.

docs/disk.md, section 6, states the guarantees.
"""

import asyncio
from random import Random

from crash.rig import EVERY_KEY, History, check, put, running
from crash.shadow_disk import ShadowDisk

PUTS = 4
CUTS = 4  # of each killed one


async def killed_before_each_step(chance: Random) -> list[tuple[ShadowDisk, History]]:
    """Kill from the first step on, when folder and file names may be in memory only."""
    disk, history = ShadowDisk(), History()
    images = []
    disk.before_step = lambda: images.append((disk.kill(), history.copy()))
    async with running(disk) as store:
        for _ in range(PUTS):
            stored = put(store, history, chance, 1)
            assert stored is not None
            await store.durable(stored)
            history.promised = len(history.sent)
        await store.flush()
    return images


async def kill_then_cut(seed: int) -> int:
    """Check that messages after the kill, and later promised ones, survive the power cut."""
    chance = Random(seed)
    images = await killed_before_each_step(chance)
    for disk, history in images:
        async with running(disk) as store:
            after = history.after(check(store, history, chance, EVERY_KEY), 0)
            stored = put(store, after, chance, 2)
            assert stored is not None
            await store.durable(stored)
            after.promised = len(after.sent)
            for _ in range(CUTS):
                async with running(disk.crash(chance)) as again:
                    check(again, after.copy(), chance, EVERY_KEY)
    return len(images)


def test_messages_after_a_kill_survive_power_cut():
    assert asyncio.run(kill_then_cut(1)) > 30, "steps of creating and writing a store"
