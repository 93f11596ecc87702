"""The clock that tests move."""

import asyncio

from cometmq.testing.clock import ManualClock


def test_sleepers_wake_in_order_and_at_their_time():
    async def story():
        clock, woken = ManualClock(1000), []

        async def sleep(name, delay_ms):
            await clock.sleep_ms(delay_ms)
            woken.append((name, clock.monotonic_ms()))

        tasks = [asyncio.create_task(sleep(n, d)) for n, d in [("b", 20), ("a", 10), ("c", 30)]]
        await clock.advance(9)
        assert woken == []
        await clock.advance(16)
        assert woken == [("a", 1010), ("b", 1020)]
        assert clock.monotonic_ms() == 1025
        tasks[2].cancel()
        await clock.advance(100)
        assert len(woken) == 2

    asyncio.run(story())


def test_only_wall_time_jumps_and_a_cancelled_timer_is_silent():
    async def story():
        clock, called = ManualClock(0), []
        clock.call_later(10, lambda: called.append("kept"))
        clock.call_later(5, lambda: called.append("cancelled")).cancel()
        clock.jump(-3_600_000)
        await clock.advance(10)
        assert called == ["kept"]
        assert (clock.wall_ms(), clock.monotonic_ms()) == (10 - 3_600_000, 10)

    asyncio.run(story())
