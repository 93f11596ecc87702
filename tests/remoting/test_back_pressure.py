"""Peers that ask and do not read: the server's memory is bounded and the others do not notice."""

import asyncio
import contextlib
import socket
from typing import Any

from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.limits import FRAME_SMALL
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.limits import Limits
from cometmq.remoting.tls import ServerTls, TlsMode, client_context, server_context
from peers.certificates import Authority
from remoting.rig import (
    ECHO,
    ECHOING,
    NOTE,
    PARK,
    NoteHeader,
    RawPeer,
    on_both,
    pooling,
    raw_peer,
    serving,
    until,
)

HALF_MIB = bytes(512 << 10)
ASK = encode_frame(Command(code=NOTE))
LIMITS = Limits(write_high_water=64 << 10, write_size_max=4 << 20)


class Large:
    """Answers with half a MiB, at once or when the gate opens."""

    def __init__(self) -> None:
        self.count = 0
        self.gate = asyncio.Event()
        self.routes = ECHOING | {
            NOTE: Route(self.at_once, NoteHeader),
            PARK: Route(self.parked, NoteHeader, "pull"),
        }

    def at_once(self, call: Any, ask: NoteHeader) -> Reply:
        self.count += 1
        return Reply(body=HALF_MIB)

    async def parked(self, call: Any, ask: NoteHeader) -> Reply:
        self.count += 1
        await self.gate.wait()
        return Reply(body=HALF_MIB)


def shut_ears(peer: RawPeer) -> None:
    """Read nothing, and let the kernel take little."""
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    sock = peer.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)


def unsent(served: Any) -> int:
    return max(
        (
            channel._transport.get_write_buffer_size() + channel._unsent_size
            for channel in served.channels
            if channel._transport is not None
        ),
        default=0,
    )


@on_both
async def test_who_does_not_read_is_not_served_on_and_gets_everything_when_it_reads():
    large = Large()
    async with (
        serving(large.routes, limits=LIMITS) as served,
        raw_peer(served.port) as deaf,
        pooling() as pool,
    ):
        shut_ears(deaf)
        await deaf.send(ASK * 400)  # one read: 200 MiB of answers
        await until(lambda: large.count)
        for _ in range(20):
            assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
            assert unsent(served) < 2 << 20
        assert large.count < 40
        assert served.server.connection_count == 2
        deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(400):
            answer = await deaf.command()
            assert answer is not None
            assert len(answer.body) == len(HALF_MIB)
        assert large.count == 400


@on_both
async def test_who_lets_parked_answers_pile_up_is_cut_off():
    large = Large()
    async with (
        serving(large.routes, limits=LIMITS) as served,
        raw_peer(served.port) as deaf,
        pooling() as pool,
    ):
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        shut_ears(deaf)
        await deaf.send(encode_frame(Command(code=PARK)) * 100)
        await until(lambda: large.count == 100)
        large.gate.set()
        await until(lambda: served.server.connection_count == 1)
        assert served.lanes.in_flight("pull") == 0
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0


@on_both
async def test_reading_stops_too():
    """A peer that only writes fills its own buffers, not the server's."""
    large = Large()
    async with serving(large.routes, limits=LIMITS) as served, raw_peer(served.port) as deaf:
        shut_ears(deaf)
        request = encode_frame(Command(code=NOTE, body=bytes(60 << 10)))
        written = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(2000):
                async with asyncio.timeout(0.5):  # ends when nothing more is taken
                    await deaf.send(request)
                written += 1
        assert written < 2000, "120 MiB were taken from a peer that does not read"
        assert large.count < 40
        assert unsent(served) < 2 << 20
        held = sum(len(command.body) for one in served.channels for command, _ in one._unserved)
        assert held < 2 << 20


@on_both
async def test_the_same_inside_tls(tmp_path):
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server", "127.0.0.1")
    tls = ServerTls(TlsMode.ENFORCING, server_context(pair.cert, pair.key))
    context = client_context(authority.pair.cert)
    large = Large()
    async with (
        serving(large.routes, limits=LIMITS, tls=tls) as served,
        raw_peer(served.port, ssl=context, server_hostname="127.0.0.1") as deaf,
        pooling(tls=context) as pool,
    ):
        shut_ears(deaf)
        await deaf.send(ASK * 100)
        await until(lambda: large.count)
        for _ in range(20):
            assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
            assert unsent(served) < 2 << 20
        assert large.count < 40
        deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(100):
            assert await deaf.command()


@on_both
async def test_begun_frames_together_are_bounded():
    limits = Limits(inbound_size_max=1 << 20)
    begun = encode_frame(Command(code=ECHO, body=bytes(8 << 20)))[: 200 << 10]
    async with serving(limits=limits) as served, pooling() as pool:
        async with contextlib.AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(raw_peer(served.port)) for _ in range(20)]
            for peer in peers:
                with contextlib.suppress(ConnectionError):
                    await peer.send(begun)
                assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
            await until(lambda: served.server.connection_count <= 7)
            endpoint = served.server._endpoint
            assert FRAME_SMALL < endpoint.begun_size <= limits.inbound_size_max
        await until(lambda: served.server.connection_count == 1)
        assert endpoint.begun_size == 0
