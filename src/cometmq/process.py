"""Runs a server as a process: until SIGTERM or SIGINT, then it stops in bounded time."""

import asyncio
import resource
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from cometmq import collector
from cometmq.errors import WorldError
from cometmq.remoting.loops import quick_loop
from cometmq.running import noted

STOP_MS_MAX = 10_000

T = TypeVar("T")


def run_until_stopped(
    kind: str,
    make: Callable[[], AbstractAsyncContextManager[T]],
    started: Callable[[T], None],
) -> None:
    """Enter the server that `make` builds, tell `started`, and leave it when a signal comes."""
    _raise_file_limit()
    with noted(kind), asyncio.Runner(loop_factory=quick_loop) as runner:
        runner.run(_serve(make, started))


async def _serve(
    make: Callable[[], AbstractAsyncContextManager[T]], started: Callable[[T], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    collector.wake()
    server = make()
    try:
        running = await server.__aenter__()
    except OSError as error:
        raise WorldError(f"it cannot start: {error}") from error
    try:
        started(running)
        await stop.wait()
    finally:
        try:
            async with asyncio.timeout(STOP_MS_MAX / 1000):
                await server.__aexit__(None, None, None)
        except TimeoutError:
            raise WorldError(f"it has not stopped within {STOP_MS_MAX} ms: cut short") from None


def _raise_file_limit() -> None:
    """As many descriptors as the machine allows us: each connection takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
