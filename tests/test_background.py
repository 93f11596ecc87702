"""Background tasks: failures are logged, repeated work continues, close cancels everything."""

import asyncio

from cometmq.background import Background
from cometmq.testing.clock import ManualClock


def test_a_failed_task_is_logged_by_name(caplog):
    async def story():
        background = Background(ManualClock())

        async def work():
            raise ValueError("torn")

        await background.start(work(), "mending")
        assert "mending failed" in caplog.text
        assert "torn" in caplog.text

    asyncio.run(story())


def test_repeated_work_continues_after_a_failure_with_the_current_interval(caplog):
    async def story():
        clock = ManualClock()
        background = Background(clock)
        intervals, runs = [100, 300, 1000], []

        async def work():
            runs.append(clock.monotonic_ms())
            raise OSError("full")

        started = clock.monotonic_ms()
        background.every(lambda: intervals[min(len(runs), 2)], work, "saving")
        await clock.advance(1_500)
        assert [at - started for at in runs] == [100, 400, 1400]
        await background.close()
        await clock.advance(10_000)
        assert len(runs) == 3

    asyncio.run(story())


def test_close_cancels_running_and_unstarted_tasks():
    async def story():
        background = Background(ManualClock())
        ended = []

        async def work(name):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        background.start(work("begun"), "waiting")
        await asyncio.sleep(0)
        background.start(work("not begun"), "waiting")
        await background.close()
        assert ended == ["begun"]

    asyncio.run(story())  # a coroutine that was never awaited would be a warning, and so an error
