"""A sync fails, the process restarts on cached pages, and then the power fails.

docs/disk.md, section 6, states the guarantees.
"""

import asyncio
from random import Random

import pytest

from cometmq.errors import StoreFailed
from crash.rig import EVERY_KEY, History, check, put, running
from crash.shadow_disk import ShadowDisk

BEFORE = 3  # messages that were on disk
LOST = 4  # that a failed sync was to write
CUTS = 20


async def failed(chance: Random) -> tuple[ShadowDisk, History]:
    """Return a killed store whose last log sync failed."""
    disk, history = ShadowDisk(), History()
    async with running(disk) as store:
        for _ in range(BEFORE):
            put(store, history, chance, 1)
        await store.flush()
        for _ in range(LOST):
            stored = put(store, history, chance, 2)
        assert stored is not None
        disk.fail_sync_at = disk.syncs
        with pytest.raises(StoreFailed):
            await store.durable(stored)
    return disk.kill(), history


async def cut_after_a_restart(seed: int) -> None:
    """Check that served and later promised messages survive the power cut."""
    chance = Random(seed)
    disk, history = await failed(chance)
    async with running(disk) as store:
        assert check(store, history, chance, EVERY_KEY) == BEFORE + LOST, (
            "the page cache still has them"
        )
        stored = put(store, history, chance, 3)
        assert stored is not None
        await store.durable(stored)
        history.promised = len(history.sent)
        for _ in range(CUTS):
            cut = disk.crash(chance)
            async with running(cut) as again:
                check(again, history, chance, EVERY_KEY)


@pytest.mark.parametrize("seed", range(5))
def test_messages_served_after_restart_survive_power_cut(seed):
    asyncio.run(cut_after_a_restart(seed))


def test_only_the_tail_is_rewritten(monkeypatch):
    """Bytes before the checkpoint were synced successfully."""
    asked = []

    async def story():
        disk, history = await failed(Random(1))
        monkeypatch.setattr(
            "crash.shadow_disk.ShadowRegion.rewrite",
            lambda region, start, end: asked.append((start, end)),
        )
        async with running(disk):
            pass
        assert asked == [(history.sent[BEFORE].stored.physical_offset, history.sent[-1].stored.end)]

    asyncio.run(story())
