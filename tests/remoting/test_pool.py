"""Connects once, shares, reconnects, gives up in time, and closes."""

import asyncio
import socket
from typing import Any

import pytest

from cometmq.errors import TimedOut, Unreachable
from cometmq.remoting.access import OPEN
from cometmq.remoting.address import parse_address
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.limits import Limits
from cometmq.seams import RealNet
from cometmq.testing.clock import ManualClock
from remoting.rig import ECHO, PARK, NoteHeader, on_asyncio, on_both, pooling, serving, until


class CountingNet(RealNet):
    """Counts connections."""

    def __init__(self) -> None:
        self.count = 0

    async def connect(self, factory: Any, host: str, port: int, tls: Any) -> None:
        self.count += 1
        await super().connect(factory, host, port, tls)


class StuckNet(RealNet):
    """A machine that does not answer, until it is told to."""

    def __init__(self) -> None:
        self.count = 0
        self.answers = asyncio.Event()

    async def connect(self, factory: Any, host: str, port: int, tls: Any) -> None:
        self.count += 1
        await self.answers.wait()
        await super().connect(factory, host, port, tls)


@on_both
async def test_callers_that_come_together_share_one_connection():
    net = CountingNet()
    async with serving() as served, pooling(net=net) as pool:
        answers = await asyncio.gather(
            *(pool.invoke(served.address, ECHO, timeout_ms=5000) for _ in range(100))
        )
        assert [answer.code for answer in answers] == [0] * 100
        assert net.count == 1
        assert served.server.connection_count == 1


@on_asyncio
async def test_a_caller_that_gives_up_does_not_take_the_connection_from_the_others():
    net = CountingNet()
    async with serving() as served, pooling(net=net) as pool:
        first = asyncio.ensure_future(pool.invoke(served.address, ECHO, timeout_ms=5000))
        second = asyncio.ensure_future(pool.invoke(served.address, ECHO, timeout_ms=5000))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).code == 0
        assert net.count == 1
        await asyncio.gather(first, return_exceptions=True)


@on_both
@pytest.mark.parametrize("who", ["server", "client"])
async def test_a_dropped_connection_is_made_again(who):
    net = CountingNet()
    async with serving() as served, pooling(net=net) as pool:
        for turn in range(1, 4):
            assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
            assert net.count == turn
            channel = await pool.connection(served.address)
            if who == "server":
                served.channels[0].close()
                await until(lambda one=channel: not one.is_open)
            else:
                pool.drop(served.address)
                await until(lambda: not served.channels)


@on_both
async def test_a_connection_that_is_being_closed_is_not_used_again():
    async with serving() as served, pooling() as pool:
        channel = await pool.connection(served.address)
        channel.close()  # not lost yet: that takes a turn of the loop
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0


@on_both
async def test_an_address_without_a_listener_is_unreachable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with pooling() as pool:
            for _ in range(3):
                with pytest.raises(Unreachable, match=address):
                    await pool.invoke(address, ECHO, timeout_ms=5000)
            assert not pool._connecting


@on_asyncio
async def test_a_connection_that_does_not_come_is_given_up():
    async with pooling(net=StuckNet(), limits=Limits(connect_ms_max=30)) as pool:
        with pytest.raises(Unreachable, match=r"127.0.0.1:1 within 30 ms"):
            await pool.invoke("127.0.0.1:1", ECHO, timeout_ms=60_000)
        assert not pool._connecting


@on_asyncio
async def test_connecting_takes_no_longer_than_the_call_may():
    async with pooling(net=StuckNet(), limits=Limits(connect_ms_max=60_000)) as pool:
        async with asyncio.timeout(50):
            with pytest.raises(Unreachable, match=r"127.0.0.1:1 within 30 ms"):
                await pool.invoke("127.0.0.1:1", ECHO, timeout_ms=30)
            with pytest.raises(Unreachable, match=r"127.0.0.1:1 within 30 ms"):
                await pool.send_oneway("127.0.0.1:1", ECHO, timeout_ms=30)


@on_asyncio
async def test_a_failed_connect_without_waiting_callers_is_not_reported():
    """The loop would tell of it, and the rig looks."""
    async with pooling(net=StuckNet(), limits=Limits(connect_ms_max=1_500)) as pool:
        with pytest.raises(Unreachable):
            await pool.invoke("127.0.0.1:1", ECHO, timeout_ms=10)
        assert pool._connecting
        await until(lambda: not pool._connecting)


@on_asyncio
async def test_the_time_to_connect_is_part_of_the_timeout():
    async def park(call: Any, ask: NoteHeader) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    clock, net = ManualClock(), StuckNet()
    limits = Limits(connect_ms_max=60_000)
    async with (
        serving({PARK: Route(park, NoteHeader, OPEN)}) as served,
        pooling(clock=clock, net=net, limits=limits) as pool,
    ):
        call = asyncio.ensure_future(pool.invoke(served.address, PARK, timeout_ms=30_000))
        await until(lambda: net.count)
        await clock.advance(20_000)
        net.answers.set()
        await until(lambda: served.lanes.in_flight("admin") == 1)
        await clock.advance(9_900)
        assert not call.done()
        await clock.advance(200)
        with pytest.raises(TimedOut):
            await call


@on_both
async def test_a_server_that_closes_immediately_is_unreachable_and_retried():
    """As a server does that has too many connections."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    listener = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with pooling() as pool:
        for _ in range(5):
            with pytest.raises(Unreachable):
                await pool.invoke(f"127.0.0.1:{port}", ECHO, timeout_ms=5000)
        listener.close()
        await listener.wait_closed()
        async with serving_at(port):
            await until_answered(pool, f"127.0.0.1:{port}")


def serving_at(port: int) -> Any:
    class Fixed(RealNet):
        def listen(self, host: str, _: int, backlog: int) -> socket.socket:
            return super().listen(host, port, backlog)

    return serving(net=Fixed())


async def until_answered(pool: Any, address: str) -> None:
    for _ in range(10):
        try:
            assert (await pool.invoke(address, ECHO, timeout_ms=5000)).code == 0
        except Unreachable:
            continue
        return
    raise AssertionError("the pool does not find back")


@pytest.mark.parametrize(
    "address",
    [
        *("", "host", ":1", "host:", "host:x", "host:65536", "host:-1", "host:1 "),
        *("1²:²", "host:١", "host:" + "9" * 5000),
    ],
)
def test_a_malformed_address_is_unreachable(address):
    with pytest.raises(Unreachable):
        parse_address(address)


@on_both
@pytest.mark.parametrize("host", ["a..b", "x" * 300, "\ud800", "a\0b"])
async def test_a_host_that_no_resolver_takes_is_unreachable(host):
    async with pooling() as pool:
        with pytest.raises(Unreachable):
            await pool.invoke(f"{host}:1", ECHO, timeout_ms=5000)


def test_addresses():
    assert parse_address("a.b:1") == ("a.b", 1)
    assert parse_address("[::1]:9876") == ("::1", 9876)


@on_both
async def test_close_ends_what_waits_and_leaves_nothing():
    async def park(call: Any, ask: NoteHeader) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    async with serving({PARK: Route(park, NoteHeader, OPEN)}) as served:
        before = asyncio.all_tasks()
        async with pooling() as pool, pooling(net=StuckNet()) as stuck:
            waiting = [
                asyncio.ensure_future(pool.invoke(served.address, PARK, timeout_ms=60_000)),
                asyncio.ensure_future(stuck.invoke(served.address, PARK, timeout_ms=60_000)),
            ]
            await until(lambda: served.lanes.in_flight("admin") == 1)
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(errors[0], Unreachable)
        assert isinstance(errors[1], Unreachable)
        assert str(errors[1]) == "the pool is closed"
        await until(lambda: not served.channels)
        await until(lambda: asyncio.all_tasks() <= before, "an end of all tasks")


@on_asyncio
async def test_close_is_final():
    net = CountingNet()
    async with serving() as served, pooling(net=net) as pool:
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        await pool.close()
        for _ in range(2):
            with pytest.raises(Unreachable, match="the pool is closed"):
                await pool.invoke(served.address, ECHO, timeout_ms=5000)
            with pytest.raises(Unreachable, match="the pool is closed"):
                await pool.send_oneway(served.address, ECHO, timeout_ms=5000)
        assert net.count == 1


@on_asyncio
async def test_close_ends_a_connect_that_has_not_begun():
    async with pooling(net=StuckNet()) as pool:
        call = asyncio.ensure_future(pool.invoke("127.0.0.1:1", ECHO, timeout_ms=5000))
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(Unreachable, match="the pool is closed"):
            await call


@on_asyncio
async def test_close_does_not_wait_for_ever_for_a_peer_that_does_not_read():
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    listener = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with pooling() as pool:
        channel = await pool.connection(address)
        await pool.send_oneway(address, ECHO, None, bytes(12 << 20), timeout_ms=5000)
        async with asyncio.timeout(9):  # less than a connection waits for its peer to read
            await pool.close()
        assert not channel.is_open
    await until(lambda: writers)
    writers[0].transport.abort()
    listener.close()
    await listener.wait_closed()


@on_asyncio
async def test_the_pool_closes_idle_connections():
    clock = ManualClock()
    async with serving() as served, pooling(clock=clock) as pool:
        await pool.connection(served.address)
        await until(lambda: served.server.connection_count == 1)
        await clock.advance(130_000)
        await until(lambda: served.server.connection_count == 0)
