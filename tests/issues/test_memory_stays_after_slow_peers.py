"""About 290 MB stayed allocated after 1 500 peers had begun large frames and left."""

import asyncio
import contextlib
from random import Random

from cometmq.protocol.command import Command
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.remoting.memory import FrameMemory
from hostile.rig import healthy, name_server_process
from hostile.test_floods import MIB, many_sockets
from remoting.rig import on_asyncio, until

PEERS = 1500
ROUNDS = 2
# Buffers of the loop, code that was not in use before and what the heap keeps of small objects:
# about 8 MiB. Before the fix it was 230 MiB.
STAYS_MAX = 64 * MIB


@on_asyncio
async def test_memory_returns_to_the_system_when_slow_peers_leave(tmp_path):
    begun = encode_frame(Command(code=105, body=bytes(15 * MIB)))[: 256 << 10]
    loop = asyncio.get_running_loop()

    async def send(sock):
        with contextlib.suppress(OSError):
            await loop.sock_sendall(sock, begun)

    with name_server_process(tmp_path, log_level="warning") as server:
        async with healthy(server, slowest_s=60) as client:
            files, before = server.file_count(), server.rss()
            for _ in range(ROUNDS):
                async with many_sockets(server.port, PEERS) as socks:
                    await asyncio.gather(*map(send, socks))
                    await until(lambda count=client.count: client.count > count + 5)
                await until(lambda: server.file_count() <= files)
            assert server.peak_rss() - before > 2 * STAYS_MAX, "there was something to return"
            # A connection that is gone may be in its last turn of the loop.
            await until(lambda: server.rss() - before < STAYS_MAX, "the return of memory")


def test_large_frames_cut_anywhere_are_decoded_the_same():
    sizes = [0, 10, 16_000, 16_385, 70_000, 3, 200_000, 1]
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(encode_frame(Command(code=1, body=body)) for body in bodies)
    for seed in range(50):
        chance = Random(seed)
        decoder = FrameDecoder(FrameMemory())
        found, at = [], 0
        while at < len(stream):
            after = at + chance.choice([1, 7, 100, 5_000, 16_384, 66_000, 1 << 20])
            found += [command.body for command in decoder.feed(stream[at:after])]
            at = after
        assert found == bodies
        assert decoder.pending_size == 0


def test_a_large_begun_frame_is_counted():
    frame = encode_frame(Command(code=1, body=bytes(100_000)))
    decoder = FrameDecoder(FrameMemory())
    assert list(decoder.feed(frame[:30_000])) == []
    assert decoder.pending_size == 30_000
    assert decoder.wanted_size == len(frame)
    assert list(decoder.feed(frame[30_000:-1])) == []
    assert decoder.pending_size == len(frame) - 1
    (command,) = decoder.feed(frame[-1:])
    assert len(command.body) == 100_000
