"""A start after cleaning and kill -9 took queues for damaged, and rebuilt them from the whole log.

The manifest lists the first unit of a queue once a minute. Cleaning had deleted its file since.
"""

import asyncio
import logging

from cometmq.testing.clock import ManualClock
from store.rig import UNHURRIED, RoomyDisk, message, open_store, read_all
from store.test_retention import age

MINUTE_MS = 60_000


def test_a_queue_whose_first_file_was_cleaned_since_is_not_rebuilt(tmp_path, caplog):
    async def story():
        clock, disk = ManualClock(1_700_000_000_000), RoomyDisk()
        store = open_store(tmp_path, disk=disk, clock=clock, **UNHURRIED)
        await store.__aenter__()
        for number in range(100):
            store.put(message(b"x" * 300, KEYS=f"k{number}"), clock.wall_ms())
        await clock.advance(MINUTE_MS)
        await store.flush()  # lists where the queue begins
        files = len(list((tmp_path / "commitlog").iterdir()))
        before = sorted(path.name for path in (tmp_path / "consumequeue" / "T" / "0").iterdir())
        age(tmp_path, files, 73, clock)
        assert store.clean() > 3
        await store.flush()
        after = sorted(path.name for path in (tmp_path / "consumequeue" / "T" / "0").iterdir())
        assert after[0] > before[0], "the file of the listed first unit is deleted"
        kept = [one.queue_offset for one in read_all(store)]
        await store.abandon()
        caplog.clear()
        async with open_store(tmp_path, disk=disk, clock=clock, **UNHURRIED) as store:
            assert [one.queue_offset for one in read_all(store)] == kept
            assert store.rebuilds == 0
        assert [line for line in caplog.records if line.levelno >= logging.ERROR] == []

    asyncio.run(story())
