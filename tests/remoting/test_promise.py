"""Replies that are promised: given when they are kept, in any order, to whoever is still there."""

import asyncio
from typing import Any

from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import encode_frame
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.lanes import LaneLimit, Lanes
from cometmq.remoting.promise import Promise
from remoting.rig import (
    ECHO,
    ECHOING,
    PARK,
    NoteHeader,
    on_asyncio,
    on_both,
    pooling,
    raw_peer,
    serving,
    until,
)


class Promising:
    """A handler that keeps its promises when it is told to."""

    def __init__(self, lane: str = "send") -> None:
        self.made: list[Promise[Reply]] = []
        self.routes = {PARK: Route(self.promise, NoteHeader, OPEN, lane)} | ECHOING

    def promise(self, call: Any, ask: NoteHeader) -> Promise[Reply]:
        self.made.append(Promise())
        return self.made[-1]


def requests(count: int, flag: int = 0) -> bytes:
    return b"".join(encode_frame(Command(code=PARK, opaque=n, flag=flag)) for n in range(count))


@on_both
async def test_each_is_answered_when_it_is_kept():
    promising = Promising()
    async with serving(promising.routes) as served, raw_peer(served.port) as peer:
        await peer.send(requests(5))
        await until(lambda: len(promising.made) == 5)
        assert served.lanes.in_flight("send") == 5
        for number in (3, 0, 4, 1, 2):
            promising.made[number].keep(Reply(body=b"%d" % number))
            answer = await peer.command()
            assert answer is not None
            assert (answer.opaque, answer.body) == (number, b"%d" % number)
        assert served.lanes.in_flight("send") == 0


@on_both
async def test_many_kept_in_one_turn_leave_together():
    promising = Promising()
    async with serving(promising.routes) as served, raw_peer(served.port) as peer:
        await peer.send(requests(200))
        await until(lambda: len(promising.made) == 200)
        for promise in promising.made:
            promise.keep(Reply())
        for number in range(200):
            answer = await peer.command()
            assert answer is not None
            assert answer.opaque == number


@on_asyncio
async def test_one_that_is_kept_before_it_is_given_is_answered():
    def kept(call: Any, ask: NoteHeader) -> Promise[Reply]:
        promise: Promise[Reply] = Promise()
        promise.keep(Reply(header=ask))
        return promise

    async with serving({PARK: Route(kept, NoteHeader, OPEN)}) as served, pooling() as pool:
        answer = await pool.invoke(served.address, PARK, NoteHeader(note="n"), timeout_ms=5000)
        assert answer.ext_fields["note"] == "n"
        assert served.lanes.in_flight("admin") == 0


@on_both
async def test_a_promise_set_after_the_peer_left_is_harmless():
    promising = Promising()
    async with serving(promising.routes) as served, pooling() as pool:
        async with raw_peer(served.port) as peer:
            await peer.send(requests(3))
            await until(lambda: len(promising.made) == 3)
        await until(lambda: served.server.connection_count == 0)
        for promise in promising.made:
            promise.keep(Reply())
        assert served.lanes.in_flight("send") == 0
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0


@on_asyncio
async def test_a_oneway_request_has_no_response():
    promising = Promising()
    async with serving(promising.routes) as served, raw_peer(served.port) as peer:
        await peer.send(requests(1, int(CommandFlag.ONEWAY)))
        await until(lambda: promising.made)
        promising.made[0].keep(Reply())
        await peer.send(encode_frame(Command(code=ECHO, opaque=77)))
        answer = await peer.command()
        assert answer is not None
        assert answer.opaque == 77


@on_asyncio
async def test_a_full_lane_refuses_it():
    promising = Promising("few")
    lanes = Lanes(100, {"few": LaneLimit(1, "few")})
    async with serving(promising.routes, lanes=lanes) as served, raw_peer(served.port) as peer:
        await peer.send(requests(2))
        answer = await peer.command()
        assert answer is not None
        assert (answer.opaque, answer.code) == (1, ResponseCode.SYSTEM_BUSY)
        promising.made[0].keep(Reply())
        answer = await peer.command()
        assert answer is not None
        assert answer.opaque == 0
        assert lanes.in_flight("few") == 0


@on_asyncio
async def test_a_promise_can_be_awaited_before_and_after_it_is_kept():
    promise: Promise[int] = Promise()

    async def wait() -> int:
        return await promise

    waiting, leaving = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    promise.keep(7)
    assert (await waiting, await promise, leaving.cancelled()) == (7, 7, True)
