"""Requests in flight, by opaque, each with a deadline.

Deadlines are grouped in buckets of 50 ms with one timer each. A timer per request would cost a
microsecond, and no caller needs that precision.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from cometmq.errors import TimedOut, Unreachable
from cometmq.protocol.command import Command
from cometmq.seams import Clock, Timer

_BUCKET_MS = 50
_OPAQUE_BITS = 0x7FFFFFFF


class Answer(Protocol):
    """Receives a response: a future, or an object that acts immediately, without a loop turn."""

    def done(self) -> bool:
        """Whether the caller has stopped waiting."""

    def set_result(self, response: Command, /) -> None:
        """Deliver the response of the peer."""

    def set_exception(self, error: Exception, /) -> None:
        """Report why there is no response."""


class WaitingCalls:
    """The opaque table of one connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_opaque = 0
        self.answers: dict[int, Answer] = {}  # by opaque
        self._room: asyncio.Event | None = None  # set when the number falls; at most one task waits
        self._buckets: dict[int, tuple[Timer, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.answers)

    def next_opaque(self) -> int:
        """A number that no request in flight has."""
        while True:
            self._last_opaque = self._last_opaque + 1 & _OPAQUE_BITS
            if self._last_opaque not in self.answers:
                return self._last_opaque

    def next_opaques(self, count: int) -> Sequence[int]:
        """So many of them."""
        first = self._last_opaque + 1
        found = range(first, first + count)
        if found.stop <= _OPAQUE_BITS and self.answers.keys().isdisjoint(found):
            self._last_opaque = found.stop - 1
            return found
        return [self.next_opaque() for _ in found]  # once round

    def wait_for(self, opaque: int, deadline_ms: int) -> "asyncio.Future[Command]":
        """A future of the response. Raises TimedOut at the deadline or up to 50 ms later."""
        future = asyncio.get_running_loop().create_future()
        self.expect(opaque, future, deadline_ms)
        return future

    def expect(self, opaque: int, answer: Answer, deadline_ms: int) -> None:
        """As `wait_for`, with a callback object in place of a future."""
        self.answers[opaque] = answer
        self._bucket(deadline_ms).append(opaque)

    def expect_all(self, answers: Mapping[int, Answer], deadline_ms: int) -> None:
        """As `expect`, of several."""
        self.answers.update(answers)
        self._bucket(deadline_ms).extend(answers)

    def _bucket(self, deadline_ms: int) -> list[int]:
        bucket = deadline_ms // _BUCKET_MS + 1
        known = self._buckets.get(bucket)
        if known is None:
            delay_ms = bucket * _BUCKET_MS - self._clock.monotonic_ms()
            timer = self._clock.call_later(delay_ms, partial(self._expire, bucket))
            known = self._buckets[bucket] = timer, []
        return known[1]

    async def until_fewer(self, limit: int) -> None:
        """Wait until fewer than `limit` requests are in flight. Only one task may wait."""
        while len(self.answers) >= limit:
            self._room = asyncio.Event()
            await self._room.wait()

    def settle(self, responses: Sequence[Command]) -> None:
        """Deliver responses. A response without a waiting caller is dropped."""
        waiting = self.answers
        for response in responses:
            answer = waiting.pop(response.opaque, None)
            if answer is not None and not answer.done():
                answer.set_result(response)
        if self._room is not None:
            self._make_room()

    def forget(self, opaque: int) -> None:
        """Drop a request whose caller has stopped waiting."""
        self.answers.pop(opaque, None)
        if self._room is not None:
            self._make_room()

    def fail_all(self, reason: str) -> None:
        """Fail all requests because the connection is closed."""
        for timer, _ in self._buckets.values():
            timer.cancel()
        self._buckets.clear()
        futures = list(self.answers.values())
        self.answers.clear()
        for future in futures:
            if not future.done():
                future.set_exception(Unreachable(reason))  # its own: it collects a traceback
        if self._room is not None:
            self._make_room()

    def _expire(self, bucket: int) -> None:
        _, opaques = self._buckets.pop(bucket)
        for opaque in opaques:
            future = self.answers.pop(opaque, None)
            if future is not None and not future.done():
                future.set_exception(TimedOut("no answer in time"))
        if self._room is not None:
            self._make_room()

    def _make_room(self) -> None:
        assert self._room is not None
        self._room.set()
        self._room = None
