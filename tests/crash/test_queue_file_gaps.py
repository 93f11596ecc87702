"""A missing file in the middle of a queue is rebuilt, and later starts succeed.

docs/disk.md, sections 2 and 6, states the guarantees.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest

from cometmq.store.queue.file_runs import file_bases
from crash.rig import CHECKPOINT, EVERY_KEY, QUEUES, ROOT, History, check, put_burst, running
from crash.shadow_disk import ShadowDisk

BURSTS = 12


async def lose_a_queue_file(seed: int) -> None:
    """Delete a queue file. The checkpoint may have times only, like that of Apache's broker."""
    chance = Random(f"gap {seed}")
    disk, history = ShadowDisk(), History()
    async with running(disk) as store:
        for _ in range(BURSTS):
            put_burst(store, history, chance, 1)
        await store.flush()
        history.promised = len(history.sent)
    disk = disk.kill()
    folders = [Path(ROOT) / "consumequeue" / topic / str(queue_id) for topic, queue_id in QUEUES]
    files = {folder: file_bases(disk, folder) for folder in folders}
    folder = max(files, key=lambda each: len(files[each]))
    assert len(files[folder]) > 3, "the queue has a file between others"
    disk.delete(folder / f"{chance.choice(files[folder][1:-1]):020}")
    if seed % 2:
        disk.overwrite(CHECKPOINT, disk.read(CHECKPOINT)[:24].ljust(4096, b"\0"))
    for _ in range(3):
        async with running(disk) as store:
            assert check(store, history, chance, EVERY_KEY) == len(history.sent)
        disk = disk.kill()


@pytest.mark.parametrize("seed", range(6))
def test_queue_with_missing_file_is_rebuilt(seed):
    asyncio.run(lose_a_queue_file(seed))
