"""A process is killed before each step of its disk, another goes on, and then the power goes.

What is to hold is in docs/disk.md, section 6.
"""

import asyncio
from random import Random

from crash.rig import EVERY_KEY, History, check, put, running
from crash.shadow_disk import ShadowDisk

PUTS = 4
CUTS = 4  # of each killed one


async def killed_before_each_step(chance: Random) -> list[tuple[ShadowDisk, History]]:
    """From the very first: names of folders and files may be in memory alone."""
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
    """What was there after the kill, and what was promised since, is there after the cut."""
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


def test_what_follows_a_kill_survives_a_cut():
    assert asyncio.run(kill_then_cut(1)) > 30, "steps of making a store, and of writing to it"
