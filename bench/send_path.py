"""CPU of a send in process: a broker whose connection has a fake transport, on the real disk.

The figures are CPU of the loop's thread per message, the best of several rounds. They leave out the
socket, which costs the same however the broker handles the message.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import broker_load as load
from measure import machine, show

from cometmq.broker.broker import Broker
from cometmq.broker.config import BrokerConfig
from cometmq.broker.handlers.routes import build_routes
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.remoting.channel import Channel
from cometmq.remoting.dispatch import Dispatcher
from cometmq.store.config import StoreConfig

ROUNDS = 30
MESSAGES = 2_048  # per round: a few ms, so that some rounds are undisturbed on a busy machine
STORE = {"max_hash_slot_num": 5_000_000, "max_index_num": 20_000_000}


class FakeTransport:
    """Counts the bytes that are written to it."""

    def __init__(self) -> None:
        self.size = 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 7

    def write(self, data: bytes) -> None:
        self.size += len(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int) -> None:
        """Everything is written immediately."""

    def pause_reading(self) -> None:
        """The benchmark decides what is read."""

    resume_reading = abort = close = pause_reading


def reads(make: Callable[..., bytes], body: bytes, per_read: int, per_frame: int) -> list[bytes]:
    """The bytes of each read, for one round."""
    count = MESSAGES // per_frame
    frames = [make(body, n % load.QUEUES) for n in range(count)]
    return [b"".join(frames[at : at + per_read]) for at in range(0, count, per_read)]


async def measured(broker: Broker, rows: Sequence[tuple[str, list[bytes]]]) -> None:
    channel = Channel(
        broker._server._endpoint, Dispatcher(build_routes(broker.parts), broker.parts.context.lanes)
    )
    transport = FakeTransport()
    channel.connection_made(transport)  # type: ignore[arg-type]
    best = dict.fromkeys((name for name, _ in rows), float("inf"))
    for _ in range(ROUNDS):
        for name, each in rows:
            before = transport.size
            begun = time.thread_time()
            for data in each:
                channel.data_received(data)
            spent = time.thread_time() - begun
            assert transport.size - before > MESSAGES, "the replies"
            best[name] = min(best[name], spent / MESSAGES * 1e6)
        await asyncio.sleep(0)
    for name, value in best.items():
        show(name, value, "us CPU")
    channel.connection_lost(None)


async def main() -> None:
    small, large = b"x" * 128, b"x" * 1024
    rows = [
        (f"send of {size} B, {count} per read", reads(load.send, body, count, 1))
        for size, body in ((128, small), (1024, large))
        for count in (1, 8, 32)
    ]
    rows += [
        (f"batch of {load.BATCH} x {len(body)} B", reads(load.send_batch, body, 1, load.BATCH))
        for body in (small, large)
    ]
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
        config = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", listen_port=0)
        store = StoreConfig(store_path_root_dir=str(Path(folder)), **STORE)
        async with Broker(config, store) as broker:
            broker.parts.tables.topics.put(
                TopicConfig(topic_name=load.TOPIC, read_queue_nums=4, write_queue_nums=4)
            )
            await broker.parts.tables.topics.file.save()
            await measured(broker, rows)


if __name__ == "__main__":
    print(f"send path, {machine()}")
    asyncio.run(main())
