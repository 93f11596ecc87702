"""Sends that wait for the route of their topic: who comes after them stands behind them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cometmq.errors import TimedOut


class _Line:
    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = asyncio.Lock()  # which is had in the order of asking


class Lines:
    """One for each topic at which somebody waits."""

    def __init__(self) -> None:
        self.by_topic: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, topic: str, timeout_ms: int) -> AsyncIterator[None]:
        """When those before it have had theirs; TimedOut if that takes too long."""
        line = self.by_topic.setdefault(topic, _Line())
        line.count += 1
        try:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await line.lock.acquire()
            except TimeoutError:
                raise TimedOut(
                    f"sends to topic {topic} still wait for its route: are the name servers up?"
                ) from None
            try:
                yield
            finally:
                line.lock.release()
        finally:
            line.count -= 1
            if not line.count:
                del self.by_topic[topic]
