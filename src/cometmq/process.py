"""Runs a server as a process: until SIGTERM or SIGINT, then it stops in bounded time."""

import asyncio
import errno
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from cometmq import collector, descriptors
from cometmq.errors import TooFewDescriptors, WorldError
from cometmq.remoting.loops import quick_loop
from cometmq.running import noted

STOP_MS_MAX = 10_000
_DESCRIPTORS_LEAST = 64  # with fewer not even the loop and an empty store can be opened
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

T = TypeVar("T")


def run_until_stopped(
    kind: str, make: Callable[[], AbstractAsyncContextManager[T]], started: Callable[[T], None]
) -> None:
    """Enter the server that `make` builds, tell `started`, and leave it when a signal comes."""
    limit = descriptors.raise_limit()
    if limit < _DESCRIPTORS_LEAST:
        raise _too_few(limit)
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
        if error.errno in _NO_DESCRIPTOR:
            raise _too_few(descriptors.limit()) from error
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


def _too_few(limit: int) -> TooFewDescriptors:
    return TooFewDescriptors(
        f"`ulimit -n` is {limit}, too few for the files of this server: set it to at least 1024, "
        "and higher by one for each connection and each file of the log"
    )
