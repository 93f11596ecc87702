"""After a crash, every key of every remaining message is found, and none is found twice.

Regression tests for crashes that lost keys; test_power_cut.py checks keys in general.

docs/disk.md, section 3, states the guarantees.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest

from cometmq.store.index.index_file import HEADER
from crash.rig import EVERY_KEY, History, check, put, running
from crash.shadow_disk import ShadowDisk
from crash.shadow_files import SECTOR_SIZE

INDEX = Path("/store/index")
START_MS = 1_700_000_000_000


async def written(seed: int) -> tuple[ShadowDisk, History]:
    """Write messages before and after a checkpoint."""
    disk, history, chance = ShadowDisk(), History(), Random(seed)
    async with running(disk) as store:
        for number in range(20):
            put(store, history, chance, START_MS + number)
            if number == seed % 6:  # what it vouches for is in the first sector
                await store.flush()
    return disk.kill(), history


async def half_an_entry(seed: int) -> None:
    """Keep half of an entry that crosses a sector: it then has a wrong, lower offset."""
    disk, history = await written(seed)
    path = INDEX / disk.names(INDEX)[0]
    content = disk.read(path)
    assert HEADER.unpack_from(content)[-1] > 20, "the last entries are in the second sector"
    disk.overwrite(path, content[:SECTOR_SIZE].ljust(len(content), b"\0"))
    async with running(disk) as store:
        assert check(store, history, Random(seed), EVERY_KEY) == len(history.sent)


@pytest.mark.parametrize("seed", range(30))
def test_half_written_index_entry_is_rebuilt(seed):
    asyncio.run(half_an_entry(seed))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("lost", ["header and slots", "all"])
def test_zeroed_index_file_is_rebuilt(seed, lost):
    async def story() -> None:
        disk, history = await written(seed)
        path = INDEX / disk.names(INDEX)[0]
        content = disk.read(path)
        size = SECTOR_SIZE if lost == "header and slots" else len(content)
        disk.overwrite(path, bytes(size) + content[size:])
        async with running(disk) as store:
            assert check(store, history, Random(seed), EVERY_KEY) == len(history.sent)

    asyncio.run(story())
