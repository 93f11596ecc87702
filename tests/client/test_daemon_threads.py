"""Threads for plain functions: bounded, started as needed, and no hold on the process."""

import asyncio
import subprocess
import sys
import threading

import pytest

from cometmq.client.daemon_threads import DaemonThreads
from cometmq.errors import Closed

WAIT_S_MAX = 60
HANGS = """
import asyncio, threading
from cometmq.client.daemon_threads import DaemonThreads

async def main():
    threads, begun = DaemonThreads(1, "test"), threading.Event()
    task = asyncio.create_task(threads.run(lambda: (begun.set(), threading.Event().wait())))
    await asyncio.to_thread(begun.wait)
    threads.close()
    task.cancel()

asyncio.run(main())
print("ended")
"""


def fails(error):
    raise error


def test_what_is_returned_and_raised():
    async def story():
        threads = DaemonThreads(2, "test")
        assert await threads.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(lambda: fails(StopIteration()))
        assert await threads.run(lambda: threading.current_thread().name) == "test-1"
        threads.close()

    asyncio.run(story())


def test_so_many_run_at_a_time_and_what_is_cancelled_in_line_never_does():
    async def story():
        threads, goes_on, ran = DaemonThreads(2, "test"), threading.Event(), []
        both = threading.Barrier(3)

        def waits(name):
            ran.append(name)
            if name < 2:
                both.wait(WAIT_S_MAX)
                goes_on.wait(WAIT_S_MAX)

        tasks = [asyncio.create_task(threads.run(lambda at=at: waits(at))) for at in range(4)]
        await asyncio.to_thread(both.wait, WAIT_S_MAX)
        assert sorted(ran) == [0, 1]
        tasks[2].cancel()
        await asyncio.wait([tasks[2]])
        goes_on.set()
        await asyncio.gather(tasks[0], tasks[1], tasks[3])
        assert sorted(ran) == [0, 1, 3]
        threads.close()

    asyncio.run(story())


def test_one_that_hangs_does_not_keep_the_process():
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=WAIT_S_MAX
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_what_comes_after_the_close_is_refused_and_does_not_hang():
    async def story():
        threads = DaemonThreads(2, "test")
        await threads.run(lambda: None)
        threads.close()
        with pytest.raises(Closed):
            await threads.run(lambda: None)

    asyncio.run(story())
