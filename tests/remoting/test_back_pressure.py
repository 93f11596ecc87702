"""Peers that ask and do not read: the server's memory is bounded and the others do not notice."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.limits import FRAME_SMALL
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.endpoint import Backlog
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
            NOTE: Route(self.at_once, NoteHeader, OPEN),
            PARK: Route(self.parked, NoteHeader, OPEN, "pull"),
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


def let_the_kernel_keep_little(served: Any) -> None:
    """Of what is sent to anybody: it keeps up to 4 MiB each, if earlier connections were quick."""
    for channel in served.channels:
        sock = channel._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)


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
async def test_a_peer_that_does_not_read_is_served_later_and_completely():
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
async def test_a_peer_that_lets_parked_responses_pile_up_is_aborted():
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
                async with asyncio.timeout(2):  # ends when nothing more is taken
                    await deaf.send(request)
                written += 1
        assert written < 2000, "120 MiB were taken from a peer that does not read"
        assert large.count < 40
        assert unsent(served) < 2 << 20
        assert 0 < served.server._endpoint.begun_size < 2 << 20


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


@on_both
async def test_unsent_bytes_are_bounded_and_reading_peers_are_not_aborted():
    """60 peers that do not read: 30 MiB and more; one that reads, slowly, before and after them."""
    large = Large()
    limits = Limits(write_high_water=64 << 10, outbound_size_max=8 << 20)
    async with serving(large.routes, limits=limits) as served, contextlib.AsyncExitStack() as stack:
        pool = await stack.enter_async_context(pooling())
        backlog = served.server._endpoint.backlog
        slow = await stack.enter_async_context(raw_peer(served.port, limit=64 << 10))
        await slow.send(ASK * 100)
        deaf = [await stack.enter_async_context(raw_peer(served.port)) for _ in range(60)]
        answered = 0
        for number, peer in enumerate(deaf):
            shut_ears(peer)
            let_the_kernel_keep_little(served)
            await peer.send(ASK * 20)
            await until(lambda wanted=answered + 1: large.count >= wanted)
            answer = await slow.command()
            answered += 1
            assert answer is not None
            assert len(answer.body) == len(HALF_MIB)
            assert backlog.size <= limits.outbound_size_max
            assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0, number
        await until(lambda: served.server.connection_count < 50, "an end of the oldest deaf ones")
        for _ in range(100 - answered):
            assert await slow.command()
        assert sum(one.unsent_size for one in served.channels) <= limits.outbound_size_max
        await stack.aclose()
        await until(lambda: served.server.connection_count == 0)
        assert backlog.size == 0


class Unsent:
    """A connection with so many bytes unsent."""

    def __init__(self, size: int) -> None:
        self.unsent_size = size
        self.is_cut_off = False

    def cut_off(self, reason: str) -> None:
        self.is_cut_off = True


def test_the_peer_that_has_not_read_for_longest_is_aborted_first():
    backlog: Backlog[Unsent] = Backlog(100)
    reading, deaf, late = Unsent(60), Unsent(30), Unsent(5)
    backlog.note(reading, 60, 60)
    backlog.note(deaf, 30, 30)
    reading.unsent_size = 59
    backlog.note(late, 5, 5)
    assert not late.is_cut_off
    late.unsent_size = 15
    backlog.note(late, 10, 15)
    assert deaf.is_cut_off
    assert not reading.is_cut_off
    assert not late.is_cut_off
    assert backlog.size == 59 + 15


def test_a_peer_that_has_read_everything_is_never_aborted():
    backlog: Backlog[Unsent] = Backlog(100)
    done, again, deaf = Unsent(90), Unsent(8), Unsent(0)
    backlog.note(done, 90, 90)
    backlog.note(again, 8, 8)
    done.unsent_size = 0  # and nobody tells
    for size in (30, 60, 90):
        assert not deaf.is_cut_off
        again.unsent_size = 20
        backlog.note(again, 20, 20)  # read the last ones, and is sent as many
        deaf.unsent_size = size
        backlog.note(deaf, 30, size)
    assert deaf.is_cut_off
    assert not done.is_cut_off
    assert not again.is_cut_off
    backlog.forget(again)
    assert backlog.size == 0


@on_both
@pytest.mark.parametrize("size", [512 << 10, 3 << 20])
async def test_what_waits_to_be_served_counts_as_begun(size):
    """A large frame, then small ones that wait with it in memory until the peer reads."""
    large = Large()
    limits = Limits(write_high_water=64 << 10, inbound_size_max=2 << 20)
    async with serving(large.routes, limits=limits) as served, raw_peer(served.port) as deaf:
        await until(lambda: served.channels)
        shut_ears(deaf)
        endpoint = served.server._endpoint
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1):
                await deaf.send(encode_frame(Command(code=NOTE, body=bytes(size))) + ASK * 400)
        await until(lambda: large.count or not served.channels)
        assert endpoint.begun_size <= limits.inbound_size_max
        assert large.count < 40
    await until(lambda: endpoint.begun_size == 0)
