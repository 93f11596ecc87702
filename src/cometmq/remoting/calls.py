"""Requests of ours that wait for their answer, by opaque, each with a deadline.

Deadlines are kept in buckets of 50 ms with one timer each: a timer of its own for every request
would cost a microsecond for a precision that nobody asked for.
"""

import asyncio
from functools import partial

from cometmq.errors import TimedOut, Unreachable
from cometmq.protocol.command import Command
from cometmq.seams import Clock, Timer

_BUCKET_MS = 50
_OPAQUE_BITS = 0x7FFFFFFF


class WaitingCalls:
    """The opaque table of one connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_opaque = 0
        self._futures: dict[int, asyncio.Future[Command]] = {}
        self._buckets: dict[int, tuple[Timer, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def next_opaque(self) -> int:
        """A number that no waiting call has."""
        while True:
            self._last_opaque = self._last_opaque + 1 & _OPAQUE_BITS
            if self._last_opaque not in self._futures:
                return self._last_opaque

    def wait_for(self, opaque: int, deadline_ms: int) -> "asyncio.Future[Command]":
        """The answer to come; TimedOut at the deadline, by the clock, or up to 50 ms later."""
        future = asyncio.get_running_loop().create_future()
        self._futures[opaque] = future
        bucket = deadline_ms // _BUCKET_MS + 1
        if bucket not in self._buckets:
            delay_ms = bucket * _BUCKET_MS - self._clock.monotonic_ms()
            timer = self._clock.call_later(delay_ms, partial(self._expire, bucket))
            self._buckets[bucket] = timer, []
        self._buckets[bucket][1].append(opaque)
        return future

    def settle(self, response: Command) -> None:
        """An answer has come; one that nobody waits for any more is dropped."""
        future = self._futures.pop(response.opaque, None)
        if future is not None and not future.done():
            future.set_result(response)

    def forget(self, opaque: int) -> None:
        """Nobody waits for it any more."""
        self._futures.pop(opaque, None)

    def fail_all(self, reason: str) -> None:
        """The connection is gone, and with it every answer."""
        for timer, _ in self._buckets.values():
            timer.cancel()
        self._buckets.clear()
        for future in self._futures.values():
            if not future.done():
                future.set_exception(Unreachable(reason))  # its own: it collects a traceback
        self._futures.clear()

    def _expire(self, bucket: int) -> None:
        _, opaques = self._buckets.pop(bucket)
        for opaque in opaques:
            future = self._futures.pop(opaque, None)
            if future is not None and not future.done():
                future.set_exception(TimedOut("no answer in time"))
