"""Floods and slow peers: memory and descriptors stay bounded, and other clients are served."""

import asyncio
import contextlib
import json
import resource
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq.namesrv.config import NamesrvConfig
from cometmq.namesrv.server import NameServer
from cometmq.protocol.codes import RequestCode as Code
from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers import namesrv as headers
from cometmq.protocol.limits import INBOUND_SIZE_MAX, OUTBOUND_SIZE_MAX, WRITE_SIZE_MAX
from cometmq.protocol.records.message import body_crc
from cometmq.testing.clock import ManualClock
from hostile.rig import (
    Here,
    NameServerProcess,
    fields_of,
    healthy,
    json_frame,
    name_server_process,
    register_fields,
)
from remoting.rig import RawPeer, on_asyncio, on_both, raw_peer, until

MIB = 1 << 20
ROUTE = json_frame(105, fields_of(topic="Healthy"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NameServerProcess]:
    with name_server_process(tmp_path) as process:
        yield process


def sockets(port: int, count: int) -> Iterator[socket.socket]:
    for _ in range(count):
        sock = socket.socket()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(("127.0.0.1", port))
        yield sock


@contextlib.asynccontextmanager
async def many_sockets(port: int, count: int) -> Any:
    """Open many sockets; some may still be connecting."""
    socks = []
    for number, sock in enumerate(sockets(port, count)):
        socks.append(sock)
        if number % 50 == 0:
            await asyncio.sleep(0.001)  # the accept queue is bounded
    try:
        yield socks
    finally:
        for sock in socks:
            sock.close()


# Slow -------------------------------------------------------------------------------------------


def in_process(folder: Path, clock: ManualClock) -> NameServer:
    config = NamesrvConfig(
        kv_config_path=str(folder / "kv.json"),
        config_store_path=str(folder / "config"),
        listen_port=0,
        bind_address="127.0.0.1",
    )
    return NameServer(config, clock=clock)


@on_both
async def test_incomplete_frame_times_out(tmp_path):
    clock = ManualClock()
    async with in_process(tmp_path, clock) as server, healthy(Here(server.port)) as client:
        async with (
            raw_peer(server.port) as prefix,
            raw_peer(server.port) as half,
            raw_peer(server.port) as dripping,
            raw_peer(server.port) as late,
        ):
            await prefix.send(ROUTE[:3])
            await half.send(ROUTE[: len(ROUTE) // 2])
            await until(lambda: begun(server) == 3 + len(ROUTE) // 2)
            for byte in ROUTE[:14]:  # one byte per second for 14 seconds
                with contextlib.suppress(ConnectionError):
                    await dripping.send(bytes([byte]))
                await client.check()
                await clock.advance(1_000)
            for peer in (prefix, half, dripping):
                await peer.closed()
            await late.send(ROUTE)
            answer = await late.command()
            assert answer is not None
            assert answer.code == 0
        await until(lambda: server._server.connection_count == 1)
        assert begun(server) == 0


def begun(server: NameServer) -> int:
    return server._server._endpoint.begun_size


# Many -------------------------------------------------------------------------------------------


@on_asyncio
async def test_1000_idle_sockets(server):
    async with healthy(server) as client:
        files, memory = server.file_count(), server.rss()
        async with many_sockets(server.port, 1000):
            await until(lambda: server.file_count() >= files + 1000)
            count = client.count
            await until(lambda: client.count > count + 20)
            assert server.rss() - memory < 64 * MIB
        await until(lambda: server.file_count() <= files)


@on_asyncio
async def test_excess_connections_are_closed(tmp_path):
    with name_server_process(tmp_path, files_max=140) as server:  # 35 are reserved for files
        async with healthy(server) as client:
            files = server.file_count()
            for _ in range(3):
                async with many_sockets(server.port, 500):
                    await until(lambda: server.file_count() >= files + 90)
                    await until(lambda count=client.count: client.count > count + 20)
                    assert server.file_count() <= files + 110
                await until(lambda: server.file_count() <= files)
            async with raw_peer(server.port) as peer:
                await peer.send(ROUTE)
                assert await peer.command()


@on_asyncio
async def test_short_connections_do_not_leak(server):
    async with healthy(server) as client:
        files = server.file_count()
        for number in range(2000):
            sock = next(sockets(server.port, 1))
            with contextlib.suppress(OSError):
                sock.send(ROUTE[: number % len(ROUTE)])
            sock.close()
            if number % 50 == 0:
                await asyncio.sleep(0.001)
        await client.check()
        await until(lambda: server.file_count() <= files)


# Large ------------------------------------------------------------------------------------------


@on_asyncio
async def test_announced_frame_sizes_do_not_reserve_memory(server):
    begun = encode_frame(Command(code=105, body=bytes(15 * MIB)))[: 256 << 10]
    loop = asyncio.get_running_loop()

    async def send(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            await loop.sock_sendall(sock, begun)

    async with healthy(server) as client:
        files, memory = server.file_count(), server.rss()
        async with many_sockets(server.port, 1500) as socks:
            await asyncio.gather(*map(send, socks))
            count = client.count
            await until(lambda: client.count > count + 20)
            grown = server.peak_rss() - memory
            assert grown < INBOUND_SIZE_MAX * 1.5 + 64 * MIB, f"{grown >> 20} MiB"
            print(f"grew by {grown >> 20} MiB; slowest answer {client.slowest_s:.3f} s")
        await until(lambda: server.file_count() <= files)


@on_asyncio
async def test_zlib_bomb_is_rejected(server):
    deflator = zlib.compressobj(9)
    zeros = bytes(16 * MIB)
    first, again = (
        deflator.compress(zeros) + deflator.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )  # a part after a full flush does not depend on those before it
    bomb = first + again * 63  # of 1 GiB
    assert len(bomb) < 2 * MIB
    async with healthy(server) as client, raw_peer(server.port) as peer:
        before, memory = await client.state(), server.rss()
        for crc in (0, body_crc(bomb)):
            fields = register_fields(compressed="true", bodyCrc32=crc)
            await peer.send(json_frame(103, fields, bomb))
            answer = await peer.command()
            assert answer is not None
            assert answer.code == 1
        assert await client.state() == before
        grown = server.peak_rss() - memory
        print(f"grew by {grown >> 20} MiB; slowest answer {client.slowest_s:.3f} s")
        assert grown < 192 * MIB, f"{grown >> 20} MiB"


TOPIC_LINE = b"T 1 1 6 SINGLE_TAG"
TOPIC_COUNT = 1_500_000
# Bodies of a few MiB that are expensive to parse. Nonstandard JSON is rewritten first.
COSTLY = {
    "keys in keys": b"{" * 24 + b'"a":1}' + b":1}" * 23,
    "a long string": b'{a:"' + b"x" * (4 * MIB) + b'"}',
    "a string that does not end": b'{a:"' + b"x" * (4 * MIB),
    "many brackets": b"{a:" + b"[" * (8 * MIB),
    "many numbers": b"{a:[" + b"1," * (4 * MIB) + b"1]}",
    "many keys": b"{" + b"{}:1," * (2 * MIB) + b"a:1}",
    "many topics": zlib.compress(
        b"\0\0\0\2{}"
        + TOPIC_COUNT.to_bytes(4)
        + (len(TOPIC_LINE).to_bytes(4) + TOPIC_LINE) * TOPIC_COUNT
        + b"\0\0\0\2[]"
    ),
}


@pytest.mark.parametrize("name", COSTLY)
@on_asyncio
async def test_expensive_bodies_are_bounded(server, name):
    asking = json_frame(
        Code.QUERY_DATA_VERSION,
        fields_of(brokerName="b", brokerAddr="x", clusterName="c", brokerId=0),
        COSTLY[name],
    )
    if name == "many topics":
        asking = json_frame(103, register_fields(compressed="true"), COSTLY[name])
    async with healthy(server) as client, raw_peer(server.port) as peer:
        memory, begun_s = server.rss(), server.cpu_s()
        await peer.send(asking)
        assert await peer.command(seconds=60)
        assert server.cpu_s() - begun_s < 4, "the server spent too long on one body"
        await client.check()
        grown = server.peak_rss() - memory
        print(f"{name}: {grown >> 20} MiB")
        assert grown < 128 * MIB, f"{grown >> 20} MiB"


COSTLY_FLOOD = [json_frame(Code.GET_UNIT_TOPIC_LIST, opaque=n) for n in range(2000)]


async def register_10_000_topics(peer: RawPeer) -> None:
    table = {f"Topic{n}": {"topicName": f"Topic{n}"} for n in range(10_000)}
    told = {"topicConfigSerializeWrapper": {"topicConfigTable": table}}
    await peer.send(json_frame(103, register_fields(), json.dumps(told).encode()))
    assert await peer.command()


@on_asyncio
async def test_2000_expensive_requests_in_one_send(server):
    """Each request visits 10 000 topics. Other clients are served meanwhile."""
    async with healthy(server) as client, raw_peer(server.port) as peer:
        await register_10_000_topics(peer)
        count = client.count
        await peer.send(b"".join(COSTLY_FLOOD))
        for number in range(len(COSTLY_FLOOD)):
            answer = await peer.command()
            assert answer is not None
            assert answer.opaque == number
        assert client.count > count + 10
        print(f"{client.count - count} checks; slowest answer {client.slowest_s:.3f} s")


@on_asyncio
async def test_stop_does_not_wait_for_expensive_requests(tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        ended_s = children_s()
        with name_server_process(tmp_path) as server:
            peer = await stack.enter_async_context(raw_peer(server.port))
            await register_10_000_topics(peer)
            await peer.send(b"".join(COSTLY_FLOOD * 3))
            assert await peer.command()
            begun_s = server.cpu_s()
        assert children_s() - ended_s - begun_s < 3


def children_s() -> float:
    """Return the CPU time of ended child processes in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Responses that are not read ----------------------------------------------------------------------


def shut_ears(peer: RawPeer) -> None:
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    sock = peer.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)


@on_asyncio
async def test_peers_that_never_read_responses(server):
    """Ten peers request a value of 900 kB 400 times each: 3.6 GB of responses."""
    ask = json_frame(Code.GET_KV_CONFIG, fields_of(namespace="n", key="k"))
    async with healthy(server) as client, contextlib.AsyncExitStack() as stack:
        value = headers.PutKvHeader(namespace="n", key="k", value="v" * 900_000)
        assert (await client.invoke(Code.PUT_KV_CONFIG, value)).code == 0
        files, memory = server.file_count(), server.rss()
        deaf = [await stack.enter_async_context(raw_peer(server.port)) for _ in range(10)]
        for peer in deaf:
            shut_ears(peer)
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(1):
                    await peer.send(ask * 400)
        count = client.count
        await until(lambda: client.count > count + 50)
        grown = server.peak_rss() - memory
        print(f"grew by {grown >> 20} MiB; slowest answer {client.slowest_s:.3f} s")
        assert grown < 2 * WRITE_SIZE_MAX, f"{grown >> 20} MiB"
        await stack.aclose()
        await until(lambda: server.file_count() <= files)


@on_asyncio
async def test_400_peers_that_never_read_responses(server):
    """Each peer stays below its own limits; together they would use more than 1 GB."""
    ask = json_frame(Code.GET_KV_CONFIG, fields_of(namespace="n", key="k"))
    async with healthy(server) as client:
        value = headers.PutKvHeader(namespace="n", key="k", value="v" * 900_000)
        assert (await client.invoke(Code.PUT_KV_CONFIG, value)).code == 0
        files, memory = server.file_count(), server.rss()
        with contextlib.ExitStack() as stack:
            for _ in range(400):
                sock = stack.enter_context(socket.socket())
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 10)
                sock.connect(("127.0.0.1", server.port))
                sock.sendall(ask * 30)
                await asyncio.sleep(0.005)
            log_says = "others need the memory"
            await until(lambda: log_says in server.log.read_text(), "an end of some of them")
            count = client.count
            await until(lambda: client.count > count + 50)
            grown = server.peak_rss() - memory
            print(f"grew by {grown >> 20} MiB; slowest answer {client.slowest_s:.3f} s")
            assert grown < OUTBOUND_SIZE_MAX * 1.5 + 64 * MIB, f"{grown >> 20} MiB"
        await until(lambda: server.file_count() <= files)


@on_asyncio
async def test_server_stops_reading_from_a_peer_that_never_reads(server):
    async with healthy(server) as client, raw_peer(server.port) as deaf:
        memory = server.rss()
        shut_ears(deaf)
        sent = 0
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(2000):
                async with asyncio.timeout(1):  # ends when the server stops reading
                    await deaf.send(ROUTE * 500)
                sent += 1
        assert sent < 2000
        await client.check()
        assert server.rss() - memory < 64 * MIB


@on_asyncio
async def test_large_registration_is_accepted(server):
    """A large cluster is legitimate: it is accepted, and other clients are served meanwhile."""
    table = {f"Topic{n}": {"topicName": f"Topic{n}"} for n in range(20_000)}
    told = {"topicConfigSerializeWrapper": {"topicConfigTable": table}}
    async with healthy(server) as client, raw_peer(server.port) as peer:
        await peer.send(json_frame(103, register_fields(), json.dumps(told).encode()))
        answer = await peer.command()
        assert answer is not None
        assert answer.code == 0
        await client.check()
