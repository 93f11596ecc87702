"""Traces walks: which functions, in which files, run for one send, pull, delivery or check.

    bench/run walks            one row per walk: calls, files, calls back
    bench/run walks --show     and every call, indented by depth

"Back" counts calls from one file into another that is already on the stack. A walk with many of
them is hard to follow. The tracer sees every Python function of the package between two moments,
in one thread. Clocks and test doubles are left out. The same walk runs once before it is traced:
caches and imports are warm.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

import cometmq
from broker.test_joint_sends import Wire
from broker.whole import open_whole, pull_header, send_header
from cometmq import Message, Producer, PushConsumer
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.channel import Channel
from cometmq.remoting.dispatch import Dispatcher
from cometmq.testing.embedded import EmbeddedCluster

ROOT = f"{Path(cometmq.__file__).parent}/"
CLOCKS = ("seams.py", "testing/")
# Timers of other parts that end while the traced one runs.
OTHERS = ("store/retention.py", "store/housekeeping.py", "broker/statistics/", "remoting/server.py")
REST_S = 0.05
PULL_AND_SUSPEND = 2 | 4


@dataclass
class Call:
    """One call of a function of the package."""

    file: str
    function: str
    waiting: tuple[str, ...]  # files on the stack, outermost first


@dataclass
class Walk:
    """The calls between two moments."""

    calls: list[Call] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """Each file once, in the order of its first call."""
        return list(dict.fromkeys(call.file for call in self.calls))

    @property
    def back(self) -> int:
        """Calls from another file into a file that is on the stack."""
        return sum(
            call.file in call.waiting and call.waiting[-1] != call.file for call in self.calls
        )


@contextmanager
def traced(skip: tuple[str, ...] = ()):
    """Record the calls of this thread."""
    walk, stack = Walk(), []
    skipped = (*CLOCKS, *skip)

    def profile(frame, event, _argument):
        if event == "call":
            path = frame.f_code.co_filename
            name = path.removeprefix(ROOT) if path.startswith(ROOT) else None
            if name is not None and not name.startswith(skipped):
                waiting = tuple(each for each in stack if each is not None)
                walk.calls.append(Call(name, frame.f_code.co_qualname, waiting))
            stack.append(name)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(profile)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def report(title: str, walk: Walk, messages: int = 1) -> None:
    """A row of the table; with --show, every call."""
    each = f"{len(walk.calls) / messages:6.1f} calls" if messages > 1 else ""
    print(f"{title:44} {len(walk.calls):5} {len(walk.files):6} {walk.back:5}  {each}")
    if "--show" in sys.argv:
        for call in walk.calls:
            print(f"    {'  ' * len(call.waiting)}{call.file}  {call.function}")
        print(f"    files: {', '.join(walk.files)}")


def properties(number: int, **more: str) -> bytes | str:
    """Properties as a Java producer sends them."""
    usual = {"UNIQ_KEY": f"7F00000100002A139A551234{number:08X}", "WAIT": "true", "TAGS": "a"}
    return encode_properties(usual | more)


async def broker_walks() -> None:
    """Requests at a whole broker, over a connection that writes into memory."""
    async with open_whole() as whole:
        whole.make_topic("T", 2)

        def connect() -> Channel:
            dispatcher = Dispatcher(whole.routes, whole.lanes)
            channel = Channel(whole.broker._server._endpoint, dispatcher)
            channel.connection_made(Wire())
            return channel

        sender, puller = connect(), connect()

        async def rest() -> None:
            for _ in range(30):
                await asyncio.sleep(0.002)
            await whole.clock.advance(0)

        def send(number: int, **fields: object) -> bytes:
            fields = {"born_timestamp": whole.clock.wall_ms(), "topic": "T"} | fields
            header = write_header(send_header(**fields))
            command = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=number, language="JAVA")
            return encode_frame(msgspec.structs.replace(command, fields=header, body=bytes(100)))

        for number in range(1, 4):
            sender.data_received(send(number, properties=properties(number)))
        await rest()
        frames = send(4, properties=properties(4))
        with traced() as walk:
            sender.data_received(frames)
        report("broker: one send in a read", walk)
        frames = b"".join(send(n, properties=properties(n)) for n in range(5, 37))
        sender.data_received(frames)
        await rest()
        with traced() as walk:
            sender.data_received(frames)
        report("broker: 32 sends in a read", walk, 32)
        await pull_walks(whole, sender, puller, send, rest)
        await delay_walks(whole, sender, send, rest)
        await transaction_walks(whole, sender, send, rest)


async def pull_walks(whole, sender, puller, send: Callable[..., bytes], rest) -> None:
    """A pull that parks, and the send that wakes it."""
    whole.groups.keep(whole.groups.known("G"))
    sender.data_received(send(40, queue_id=1, properties=properties(40)))
    await rest()
    header = pull_header(
        topic="T",
        queue_id=1,
        queue_offset=1,
        sys_flag=PULL_AND_SUSPEND,
        suspend_timeout_millis=15_000,
        subscription="*",
    )
    pull = encode_frame(
        Command(
            code=RequestCode.PULL_MESSAGE, opaque=9, language="JAVA", fields=write_header(header)
        )
    )
    with traced() as walk:
        puller.data_received(pull)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    report("broker: a pull parks", walk)
    await rest()
    frames = send(41, queue_id=1, properties=properties(41))
    with traced() as walk:
        sender.data_received(frames)
        for _ in range(4):
            await asyncio.sleep(0)
    report("broker: a send wakes a parked pull", walk)


async def delay_walks(whole, sender, send: Callable[..., bytes], rest) -> None:
    """A delayed message, and its delivery."""
    sender.data_received(send(50, properties=properties(50, DELAY="1")))
    await rest()
    await whole.clock.advance(3000)
    await rest()
    frames = send(51, properties=properties(51, DELAY="1"))
    with traced() as walk:
        sender.data_received(frames)
    report("broker: a delayed send", walk)
    await rest()
    with traced(OTHERS) as walk:
        await whole.clock.advance(1000)
    report("broker: its delivery", walk)


async def transaction_walks(whole, sender, send: Callable[..., bytes], rest) -> None:
    """A half message, and the check of its transaction."""
    await whole.produce("P")
    half = {"TRAN_MSG": "true", "PGROUP": "P"}
    sender.data_received(send(60, properties=properties(60, **half)))
    await rest()
    await whole.clock.advance(7000)
    await rest()
    frames = send(61, properties=properties(61, **half))
    with traced() as walk:
        sender.data_received(frames)
    report("broker: a half message", walk)
    await rest()
    await whole.clock.advance(5900)
    await rest()
    with traced(OTHERS) as walk:
        await whole.clock.advance(200)
    report("broker: its check", walk)


class Served:
    """A cluster on a thread of its own: its calls are not traced."""

    def __init__(self) -> None:
        self.address = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> "Served":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with EmbeddedCluster() as cluster:
            await cluster.create_topic("T", 1)
            self.address = cluster.name_server
            self._ready.set()
            await self._stop.wait()


async def client_walks(address: str) -> None:
    """Sends of a producer, and one message through a push consumer."""
    async with Producer("g", address) as producer:
        for number in range(3):
            await producer.send(Message("T", bytes(100), tags="a", keys=f"k{number}"))
        await asyncio.sleep(REST_S)
        with traced() as walk:
            await producer.send(Message("T", bytes(100), tags="a", keys="k"))
        report("client: an awaited send", walk)
        for _ in range(2):
            done = asyncio.Event()
            with traced() as walk:
                producer.send_soon(Message("T", bytes(100), tags="a"), partial(_set, done))
                await done.wait()
        report("client: a callback send", walk)
        seen = asyncio.Event()
        async with PushConsumer("readers", address) as consumer:

            @consumer.on("T")
            async def read(_message) -> None:
                seen.set()

            await consumer.ready()
            for _ in range(2):
                await seen.wait()
                await asyncio.sleep(1)
                seen.clear()
                await producer.send_oneway(Message("T", bytes(100)))
                with traced(("client/session/heartbeats.py",)) as walk:
                    await seen.wait()
                    await asyncio.sleep(REST_S)
        report("client: a push consumer, pull to ack", walk)


def _set(event: asyncio.Event, _result: object) -> None:
    event.set()


def spark_walk(address: str) -> None:
    """The rows of one Spark partition, read in this process."""
    from cometmq.spark.read.batches import batches
    from cometmq.spark.read.cluster import Cluster
    from cometmq.spark.read.link import Access
    from cometmq.spark.read.offsets import Range
    from cometmq.spark.read.pull import RangePull, Reading

    cluster = Cluster((address,), Access())
    (name,) = cluster.route("T").brokers
    columns = ("topic", "queueId", "queueOffset", "msgId", "body", "tags", "keys", "properties")

    def read() -> int:
        pull = RangePull(Reading(cluster, "spark"), Range(MessageQueue("T", name, 0), 0, 6))
        return sum(
            batch.num_rows
            for records in pull.records()
            for batch in batches(records, name, columns)
        )

    read()
    with traced() as walk:
        read()
    report("Spark: one partition of 6 rows", walk)


def main() -> None:
    """All walks, one after the other."""
    print(f"{'walk':44} {'calls':>5} {'files':>6} {'back':>5}")
    asyncio.run(broker_walks())
    with Served() as served:
        asyncio.run(client_walks(served.address))
        spark_walk(served.address)


if __name__ == "__main__":
    main()
