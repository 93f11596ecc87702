"""Ports, idle and stuck connections, limits, and a stop that comes to an end."""

import asyncio
import socket
from typing import Any

import pytest

from cometmq.errors import CannotListen
from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Dispatcher, Reply, Route, vip_routes
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.limits import Limits
from cometmq.remoting.server import Server
from cometmq.seams import RealClock, RealNet
from cometmq.testing.clock import ManualClock
from remoting.rig import (
    ECHO,
    ECHOING,
    PARK,
    NoteHeader,
    echo,
    on_asyncio,
    on_both,
    pooling,
    raw_peer,
    serving,
    until,
)

PING = encode_frame(Command(code=ECHO, opaque=1))


@on_both
async def test_each_port_has_its_own_table_and_they_share_the_lanes():
    routes = ECHOING | {PARK: Route(echo, NoteHeader, OPEN, vip_port=False)}
    assert vip_routes(routes) == ECHOING
    async with serving(routes) as served, pooling() as pool:
        vip = served.server.listen("127.0.0.1", 0, Dispatcher(vip_routes(routes), served.lanes))
        assert vip != served.port
        for port, code in ((served.port, 0), (vip, 3)):
            address = f"127.0.0.1:{port}"
            assert (await pool.invoke(address, ECHO, timeout_ms=5000)).code == 0
            assert (await pool.invoke(address, PARK, timeout_ms=5000)).code == code
        assert served.server.connection_count == 2


@on_asyncio
async def test_a_taken_port_is_said_so():
    async with serving() as served:
        server = Server(RealClock(), RealNet())
        with pytest.raises(CannotListen, match=str(served.port)):
            server.listen("127.0.0.1", served.port, Dispatcher({}, Lanes(1)))
        await server.close()


@on_both
async def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    clock = ManualClock()
    limits = Limits(idle_ms_max=120_000, sweep_ms=2_000)
    async with (
        serving(clock=clock, limits=limits) as served,
        raw_peer(served.port) as idle,
        raw_peer(served.port) as busy,
    ):
        await until(lambda: served.server.connection_count == 2)
        for _ in range(4):
            await clock.advance(40_000)
            if served.server.connection_count == 2:
                await busy.send(PING)
                await busy.command()
        await idle.closed()
        await until(lambda: served.server.connection_count == 1)
        await busy.send(PING)
        assert await busy.command()
        await clock.advance(118_000)
        assert served.server.connection_count == 1
        await clock.advance(6_000)
        await busy.closed()


@on_both
async def test_a_frame_that_does_not_end_is_given_its_time_and_no_more():
    clock = ManualClock()
    limits = Limits(frame_patience_ms=10_000, sweep_ms=1_000)
    async with serving(clock=clock, limits=limits) as served, raw_peer(served.port) as peer:
        await peer.send(PING)
        assert await peer.command()
        for byte in PING[:9]:  # a byte a second is not silence, and does not help
            await peer.send(bytes([byte]))
            await until(lambda: served.channels and served.channels[0]._decoder.pending_size)
            await clock.advance(1_000)
            assert served.server.connection_count == 1
        await clock.advance(3_000)
        await peer.closed()
        await until(lambda: served.server.connection_count == 0)


@on_asyncio
async def test_a_large_frame_gets_a_second_more_for_every_64_kib():
    clock = ManualClock()
    frame = encode_frame(Command(code=ECHO, body=bytes(2 << 20)))
    async with serving(clock=clock) as served, raw_peer(served.port) as peer:
        await peer.send(frame[:1000])
        await until(lambda: served.channels and served.channels[0]._decoder.pending_size == 1000)
        await clock.advance(40_000)
        assert served.server.connection_count == 1
        await peer.send(frame[1000:])
        answer = await peer.command()
        assert answer is not None
        assert len(answer.body) == 2 << 20


class Gate:
    """Answers with half a MiB, when it is opened."""

    def __init__(self) -> None:
        self.count = 0
        self.opened = asyncio.Event()
        self.routes = ECHOING | {PARK: Route(self.park, NoteHeader, OPEN, "pull")}

    async def park(self, call: Any, ask: NoteHeader) -> Reply:
        self.count += 1
        await self.opened.wait()
        return Reply(body=bytes(512 << 10))


@on_both
async def test_a_frame_that_we_do_not_read_on_is_not_held_against_its_peer():
    """Half a frame came, then the peer stopped reading, so we did: it cannot end before we do."""
    clock, gate = ManualClock(), Gate()
    limits = Limits(frame_patience_ms=10_000, write_high_water=64 << 10)
    async with (
        serving(gate.routes, clock=clock, limits=limits) as served,
        raw_peer(served.port, limit=1024) as peer,
    ):
        await peer.send(encode_frame(Command(code=PARK)) * 40 + PING[:20])
        await until(lambda: gate.count == 40)
        gate.opened.set()
        await until(lambda: served.channels and not served.channels[0]._writable.is_set())
        await clock.advance(60_000)
        assert served.server.connection_count == 1
        for _ in range(40):
            assert await peer.command()
        await until(lambda: not served.channels[0]._is_paused)
        await clock.advance(8_000)  # of the patience, which began anew
        assert served.server.connection_count == 1
        await peer.send(PING[20:])
        answer = await peer.command()
        assert answer is not None
        assert answer.opaque == 1


@on_both
@pytest.mark.parametrize("is_read", [True, False])
async def test_what_was_written_before_a_close_gets_its_time_to_be_read(is_read):
    clock, gate = ManualClock(), Gate()
    limits = Limits(close_patience_ms=10_000, sweep_ms=1_000)
    async with (
        serving(gate.routes, clock=clock, limits=limits) as served,
        raw_peer(served.port, limit=1024) as peer,
    ):
        await peer.send(encode_frame(Command(code=PARK)) * 40)
        await until(lambda: gate.count == 40)
        gate.opened.set()
        transport = served.channels[0]._transport
        await until(lambda: transport.get_write_buffer_size() > 1 << 20)
        await clock.advance(60_000)
        served.channels[0].close()
        await clock.advance(9_000)
        assert served.server.connection_count == 1
        if is_read:
            for _ in range(40):
                assert await peer.command()
            assert await peer.command() is None
        else:
            await clock.advance(3_000)
        await until(lambda: served.server.connection_count == 0)


@on_both
async def test_a_parked_handler_is_cancelled_when_its_connection_closes():
    ended: list[str] = []
    parked = asyncio.Event()

    async def park(call: Any, ask: NoteHeader) -> Reply:
        parked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return Reply()

    async with serving({PARK: Route(park, NoteHeader, OPEN, "pull")}) as served:
        async with raw_peer(served.port) as peer:
            await peer.send(encode_frame(Command(code=PARK)))
            await parked.wait()
        await until(lambda: ended == ["cancelled"])
        await until(lambda: served.lanes.in_flight("pull") == 0)


@on_both
async def test_connections_over_the_limit_are_closed_and_the_others_go_on():
    async with serving(limits=Limits(connections_max=5)) as served, pooling() as pool:
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        socks = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(30)]
        await until(lambda: served.server.connection_count == 5)
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        assert served.server.connection_count == 5
        for sock in socks:
            sock.close()
        await until(lambda: served.server.connection_count == 1)
        async with raw_peer(served.port) as peer:
            await peer.send(PING)
            assert await peer.command()


@on_both
async def test_a_stop_sends_written_bytes_and_ends_while_peers_stay_connected():
    async with serving(limits=Limits(write_high_water=16 << 10)) as served:  # noqa: SIM117
        async with raw_peer(served.port) as silent, raw_peer(served.port, limit=1024) as deaf:
            await silent.send(PING)
            await deaf.send(encode_frame(Command(code=ECHO, body=bytes(12 << 20))))
            await until(
                lambda: any(
                    channel._transport and channel._transport.get_write_buffer_size() > 1 << 20
                    for channel in served.channels
                )
            )
            async with asyncio.timeout(9):  # less than a connection waits for its peer to read
                await served.server.close()
            assert await silent.command()
            await silent.closed()
            assert served.server.connection_count == 0
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", served.port)
