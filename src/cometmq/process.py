"""Runs a server as a process until SIGTERM or SIGINT; then stops it in bounded time."""

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from cometmq import collector, descriptors
from cometmq.errors import TooFewDescriptors, WorldError
from cometmq.log_event import LogEvent
from cometmq.remoting.loops import quick_loop
from cometmq.running import noted

log = logging.getLogger(__name__)

STOP_MS_MAX = 10_000
_DESCRIPTORS_LEAST = 64  # fewer do not suffice for the event loop and an empty store
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

T = TypeVar("T")


def run_until_stopped(
    kind: str, make: Callable[[], AbstractAsyncContextManager[T]], started: Callable[[T], None]
) -> None:
    """Start the server that `make` builds, call `started` with it, and stop it at a signal."""
    limit = descriptors.raise_limit()
    if limit < _DESCRIPTORS_LEAST:
        raise _too_few(limit)
    with noted(kind), asyncio.Runner(loop_factory=quick_loop) as runner:
        runner.run(_serve(kind, make, started))


async def _serve(
    kind: str, make: Callable[[], AbstractAsyncContextManager[T]], started: Callable[[T], None]
) -> None:
    loop = asyncio.get_running_loop()
    stop = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if not stop.done():
            stop.set_result(number.name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    collector.resume()
    began = loop.time()
    server = make()
    try:
        running = await server.__aenter__()
    except OSError as error:
        if error.errno in _NO_DESCRIPTOR:
            raise _too_few(descriptors.limit()) from error
        raise WorldError(f"the {kind} cannot start: {error}") from error
    log.info(LogEvent(f"{kind} started", pid=os.getpid(), duration_ms=_ms(loop.time() - began)))
    reason = "failure"
    try:
        started(running)
        reason = await stop
    finally:
        began = loop.time()
        log.info(LogEvent(f"{kind} stopping", reason=reason))
        try:
            async with asyncio.timeout(STOP_MS_MAX / 1000):
                await server.__aexit__(None, None, None)
        except TimeoutError:
            raise WorldError(f"the {kind} did not stop within {STOP_MS_MAX} ms: aborted") from None
        duration_ms = _ms(loop.time() - began)
        log.info(LogEvent(f"{kind} stopped", reason=reason, duration_ms=duration_ms))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _too_few(limit: int) -> TooFewDescriptors:
    return TooFewDescriptors(
        f"`ulimit -n` is {limit}, too few for the files of this server: set it to at least 1024, "
        "plus one for each connection and each file of the log"
    )
