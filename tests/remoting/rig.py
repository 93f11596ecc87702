"""What the tests of connections share: loops that notice leaks, a server, a pool, raw frames."""

import asyncio
import gc
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import uvloop

from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import FrameDecoder
from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int32
from cometmq.remoting.access import OPEN
from cometmq.remoting.channel import Channel
from cometmq.remoting.dispatch import Dispatcher, Guard, Hook, Reply, Role, Route
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.limits import CLIENT_LIMITS, Limits
from cometmq.remoting.pool import Pool
from cometmq.remoting.server import Server
from cometmq.remoting.tls import ServerTls
from cometmq.seams import Clock, Net, RealClock, RealNet

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
TEST_S_MAX = 240
ECHO, PARK, FAIL, NOTE, NOBODY = 1, 2, 3, 4, 999


class NoteHeader(Header):
    """Of every request in these tests."""

    note: str = ""
    number: Int32 = 0


# Loops ------------------------------------------------------------------------------------------


def on_loops(*kinds: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Any]:
    """Run an async test on these loops; it fails if it leaves tasks, errors or files behind."""

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Any:
        @wraps(test)
        def run(loop_kind: str, **given: Any) -> None:
            run_on(loop_kind, test(**given))

        wanted = list(inspect.signature(test).parameters.values())
        kind = inspect.Parameter("loop_kind", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([kind, *wanted])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("loop_kind", kinds)(run)

    return decorate


on_asyncio = on_loops("asyncio")
on_both = on_loops(*LOOPS)


def run_on(kind: str, test: Coroutine[Any, Any, None]) -> None:
    """See `on_loops`."""
    LOOPS[kind]().close()  # the first one of a process opens files that stay
    gc.freeze()  # what is there already is not this test's: the collection need not look at it
    files = open_files()
    errors: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.get_loop().set_exception_handler(lambda loop, context: errors.append(context))
        runner.run(_watched(test))
    gc.collect()
    assert not errors, f"the loop was told of {errors}"
    assert open_files() <= files, "files were left open"


async def _watched(test: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(TEST_S_MAX):
        await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=20)
    assert not left, f"tasks were left running: {left}"


def open_files() -> int:
    """How many descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(true: Callable[[], object], what: str = "it", seconds: float = 60) -> None:
    """Wait for something that has no event of its own."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not come about in {seconds} s"
        await asyncio.sleep(0.005)


# Both ends --------------------------------------------------------------------------------------


class Served:
    """A server that runs, and what its routes have seen."""

    def __init__(self, server: Server, port: int, lanes: Lanes) -> None:
        self.server = server
        self.port = port
        self.lanes = lanes

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def channels(self) -> list[Channel]:
        return list(self.server._channels)


def echo(call: Any, ask: NoteHeader) -> Reply:
    """The answer is the request."""
    return Reply(header=ask, body=call.command.body)


ECHOING = {ECHO: Route(echo, NoteHeader, OPEN)}


@asynccontextmanager
async def serving(
    routes: dict[int, Route] | None = None,
    *,
    hooks: tuple[Hook, ...] = (),
    limits: Limits | None = None,
    clock: Clock | None = None,
    net: Net | None = None,
    tls: ServerTls | None = None,
    lanes: Lanes | None = None,
    guard: Guard | None = None,
    role: Role | None = None,
) -> AsyncIterator[Served]:
    """A server on a free port."""
    lanes = lanes or Lanes(1000)
    server = Server(clock or RealClock(), net or RealNet(), limits=limits, tls=tls)
    dispatcher = Dispatcher(routes or ECHOING, lanes, hooks, guard, role or Role())
    port = server.listen("127.0.0.1", 0, dispatcher)
    try:
        yield Served(server, port, lanes)
    finally:
        await server.close()


@asynccontextmanager
async def pooling(
    routes: dict[int, Route] | None = None,
    *,
    hooks: tuple[Hook, ...] = (),
    limits: Limits = CLIENT_LIMITS,
    clock: Clock | None = None,
    net: Net | None = None,
    tls: Any = None,
) -> AsyncIterator[Pool]:
    """A pool."""
    dispatcher = Dispatcher(routes or {}, Lanes(1000), hooks)
    pool = Pool(clock or RealClock(), net or RealNet(), dispatcher, limits=limits, tls=tls)
    try:
        yield pool
    finally:
        await pool.close()


# Raw frames -------------------------------------------------------------------------------------


class RawPeer:
    """A connection without any of our remoting on this side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()
        self._commands: list[Command] = []

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def command(self, seconds: float = 60) -> Command | None:
        """The next command, or None when the other side has closed."""
        async with asyncio.timeout(seconds):
            while not self._commands:
                try:
                    data = await self.reader.read(1 << 16)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._commands += self._decoder.feed(data)
        return self._commands.pop(0)

    async def closed(self, seconds: float = 60) -> None:
        """Wait until the other side has closed; what it sends before is thrown away."""
        async with asyncio.timeout(seconds):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass


@asynccontextmanager
async def raw_peer(port: int, **how: Any) -> AsyncIterator[RawPeer]:
    """Connect without a pool."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **how)
    try:
        yield RawPeer(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def is_response(command: Command) -> bool:
    return bool(command.flag & CommandFlag.RESPONSE)
