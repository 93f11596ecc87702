"""One read that takes long to serve: others are served meanwhile, and its order is kept."""

import asyncio
import time
from typing import Any

from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.limits import Limits
from cometmq.testing.clock import ManualClock
from remoting.rig import (
    ECHO,
    ECHOING,
    NOTE,
    PARK,
    NoteHeader,
    on_both,
    pooling,
    raw_peer,
    serving,
    until,
)


class Costly:
    """Takes 3 ms of the clock for every request, and notes what was asked when."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked: list[int] = []
        self.routes = {
            NOTE: Route(self.take_time, NoteHeader, OPEN),
            ECHO: Route(self.mark, NoteHeader, OPEN),
            PARK: Route(self.park, NoteHeader, OPEN),
        }

    def take_time(self, call: Any, ask: NoteHeader) -> Reply:
        self.clock._monotonic_ms += 3
        self.asked.append(call.command.opaque)
        return Reply()

    def mark(self, call: Any, ask: NoteHeader) -> Reply:
        self.asked.append(-1)
        return Reply()

    async def park(self, call: Any, ask: NoteHeader) -> Reply:
        return Reply()


def frames(code: int, count: int, first: int = 0) -> bytes:
    return b"".join(encode_frame(Command(code=code, opaque=n)) for n in range(first, first + count))


@on_both
async def test_others_have_their_turn_and_the_answers_keep_their_order():
    costly = Costly(ManualClock())
    async with (
        serving(costly.routes, clock=costly.clock) as served,
        raw_peer(served.port) as flood,
        raw_peer(served.port) as other,
    ):
        await other.send(frames(ECHO, 1))
        assert await other.command()
        await until(lambda: len(served.channels) == 2)
        await other.send(frames(ECHO, 1))
        await flood.send(frames(NOTE, 500))
        for number in range(500):
            answer = await flood.command()
            assert answer is not None
            assert answer.opaque == number
            if number % 50 == 0:
                await other.send(frames(ECHO, 1))
        marks = [at for at, opaque in enumerate(costly.asked) if opaque == -1]
        assert len(marks) == 12
        assert marks[2] < 400, "sent after the first answer, and served after the last"
        assert [opaque for opaque in costly.asked if opaque != -1] == list(range(500))
        assert not served.channels[0]._is_paused
        assert served.server._endpoint.begun_size == 0


@on_both
async def test_a_turn_ends_in_time_and_nothing_is_decoded_before_its_turn():
    costly = Costly(ManualClock())
    async with serving(costly.routes, clock=costly.clock) as served, raw_peer(served.port) as flood:
        await until(lambda: served.channels)
        channel = served.channels[0]
        data = frames(NOTE, 100)
        channel.data_received(data)
        assert len(costly.asked) == 4  # the clock is looked at every four
        assert channel._unserved_size == len(data)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 8 <= len(costly.asked) < 100
        channel.data_received(frames(NOTE, 3, first=100))  # read before the pause was heard
        await until(lambda: len(costly.asked) == 103)
        assert costly.asked == list(range(103))
        assert channel._unserved_size == 0
        for number in range(103):
            answer = await flood.command()
            assert answer is not None
            assert answer.opaque == number
        await flood.send(frames(NOTE, 1, first=7))  # it is read from again
        answer = await flood.command()
        assert answer is not None
        assert answer.opaque == 7


@on_both
async def test_answers_to_us_among_them_are_not_lost():
    """A peer that floods us and answers our own request, in one read."""
    costly = Costly(ManualClock())
    async with serving(costly.routes, clock=costly.clock) as served, raw_peer(served.port) as flood:
        await until(lambda: served.channels)
        asking = asyncio.ensure_future(served.channels[0].invoke(ECHO, timeout_ms=60_000))
        asked = await flood.command()
        assert asked is not None
        ours = encode_frame(Command(code=0, opaque=asked.opaque, flag=1, body=b"ours"))
        await flood.send(frames(NOTE, 50) + ours + frames(NOTE, 50, first=50))
        assert (await asking).body == b"ours"
        for number in range(100):
            answer = await flood.command()
            assert answer is not None
            assert answer.opaque == number


@on_both
async def test_a_bad_frame_and_a_half_one_after_many_turns():
    costly = Costly(ManualClock())
    async with serving(costly.routes, clock=costly.clock) as served:
        async with raw_peer(served.port) as flood:
            half = frames(NOTE, 1, first=60)
            await flood.send(frames(NOTE, 60) + half[:30])
            for _ in range(60):
                assert await flood.command()
            assert served.server._endpoint.begun_size == 30
            await flood.send(half[30:])
            answer = await flood.command()
            assert answer is not None
            assert answer.opaque == 60
        async with raw_peer(served.port) as flood:
            await flood.send(frames(NOTE, 60) + b"\xff" * 20)
            for _ in range(60):
                assert await flood.command()
            assert await flood.command() is None


@on_both
async def test_a_stop_does_not_wait_for_what_was_asked():
    count = 0

    def take_time(call: Any, ask: NoteHeader) -> Reply:
        nonlocal count
        count += 1
        time.sleep(0.003)
        return Reply()

    routes = {NOTE: Route(take_time, NoteHeader, OPEN)}
    async with serving(routes) as served, raw_peer(served.port) as flood:
        await flood.send(frames(NOTE, 3000))
        assert await flood.command()
        await served.server.close()
    assert 0 < count < 1500, "of 3000"


@on_both
async def test_a_peer_that_goes_in_the_middle_leaves_nothing():
    costly = Costly(ManualClock())
    limits = Limits(turn_ms=1)
    routes = costly.routes | {PARK: Route(costly.park, NoteHeader, OPEN, "pull")}
    async with (
        serving(routes, clock=costly.clock, limits=limits) as served,
        pooling(ECHOING) as pool,
    ):
        for _ in range(5):
            async with raw_peer(served.port) as flood:
                await flood.send((frames(NOTE, 5) + frames(PARK, 5)) * 200)
                assert await flood.command()
        await until(lambda: served.server.connection_count == 0)
        assert served.server._endpoint.begun_size == 0
        assert served.lanes.in_flight("pull") == 0
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
