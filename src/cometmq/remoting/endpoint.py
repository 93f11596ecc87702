"""State shared by all connections of a client or server: clock, limits, permits, memory bounds."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from cometmq.remoting.limits import Limits
from cometmq.remoting.memory import FrameMemory
from cometmq.seams import Clock


class Sender(Protocol):
    """A connection with unsent bytes."""

    @property
    def unsent_size(self) -> int:
        """The number of bytes that the peer has not read."""

    def cut_off(self, reason: str) -> None:
        """Abort the connection and log the reason."""


C = TypeVar("C", bound=Sender)


class Backlog(Generic[C]):
    """The unsent bytes of each connection, with a limit on their sum.

    Above the limit, connections are aborted. They are ordered by the time of the last observed
    read of the peer, oldest first, so a slow peer outlives a peer that does not read at all.
    Recorded sizes may be outdated, but never too small, because reads of a peer are not reported.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._sizes: dict[C, int] = {}
        self.size = 0

    def note(self, sender: C, written: int, unsent: int) -> None:
        """Record the unsent bytes of a connection after a write, and enforce the limit."""
        known = self._sizes.get(sender, 0)
        if unsent < known + written:
            self._sizes.pop(sender, None)  # the peer has read: move it to the end
        self._sizes[sender] = unsent
        self.size += unsent - known
        if self.size > self._size_max:
            self._make_room()

    def forget(self, sender: C) -> None:
        """Remove a connection that is closed or has sent everything."""
        self.size -= self._sizes.pop(sender, 0)

    def _make_room(self) -> None:
        for sender, known in list(self._sizes.items()):
            unsent = sender.unsent_size
            if unsent < known:
                self.forget(sender)
                if unsent:
                    self._sizes[sender] = unsent
                    self.size += unsent
        while self.size > self._size_max:
            sender = next(iter(self._sizes))
            self.forget(sender)
            sender.cut_off("it does not read what it is sent, and others need the memory")


@dataclass(slots=True)
class Endpoint(Generic[C]):
    """The shared state. `opened` and `closed` are called for each connection."""

    clock: Clock
    limits: Limits
    opened: Callable[[C], None]
    closed: Callable[[C], None]
    begun_size: int = 0  # bytes read but not yet served, summed over all connections
    memory: FrameMemory = field(default_factory=FrameMemory)
    backlog: Backlog[C] = field(init=False)
    oneway_permits: asyncio.Semaphore = field(init=False)
    async_permits: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.backlog = Backlog(self.limits.outbound_size_max)
        self.oneway_permits = asyncio.Semaphore(self.limits.oneway_max)
        self.async_permits = asyncio.Semaphore(self.limits.async_max)

    def until(self, deadline_ms: int) -> asyncio.Timeout:
        """Return a context manager for `async with` that raises TimeoutError at the deadline.

        Waits for a socket always use the time of the event loop instead of `clock`: the kernel
        and the peer do not stop when the clock of a test stops.
        """
        return asyncio.timeout((deadline_ms - self.clock.monotonic_ms()) / 1000)
