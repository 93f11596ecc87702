"""Runs a server as a process: until SIGTERM or SIGINT, then it stops in bounded time."""

import asyncio
import resource
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import TypeVar

STOP_MS_MAX = 10_000

T = TypeVar("T")


def run_until_stopped(
    make: Callable[[], AbstractAsyncContextManager[T]], started: Callable[[T], None]
) -> None:
    """Enter the server that `make` builds, tell `started`, and leave it when a signal comes."""
    _raise_file_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(make, started))


async def _serve(
    make: Callable[[], AbstractAsyncContextManager[T]], started: Callable[[T], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = make()
    started(await server.__aenter__())
    await stop.wait()
    async with asyncio.timeout(STOP_MS_MAX / 1000):
        await server.__aexit__(None, None, None)


def _raise_file_limit() -> None:
    """As many descriptors as the machine allows us: each connection takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; else the standard loop."""
    try:
        import uvloop
    except ImportError:
        return None
    module: ModuleType = uvloop
    factory: Callable[[], asyncio.AbstractEventLoop] = module.new_event_loop
    return factory
