"""Shared by the connections of one side: clock, limits, permits, and bounds on memory."""

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
    """Bytes that peers have not read yet, by connection. Past the limit, room is made.

    Connections stand in the order in which their peers were last seen to read, and the first is
    cut off: who reads, however slowly, outlasts who does not. A size may be out of date, but is
    never too small: peers read without our hearing of it.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._sizes: dict[C, int] = {}
        self.size = 0

    def note(self, sender: C, written: int, unsent: int) -> None:
        """Note how many bytes of a channel are unsent after a write."""
        known = self._sizes.get(sender, 0)
        if unsent < known + written:
            self._sizes.pop(sender, None)  # something was read: to the end of the order
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
    """See the top of the file. Also reports opened and closed connections."""

    clock: Clock
    limits: Limits
    opened: Callable[[C], None]
    closed: Callable[[C], None]
    begun_size: int = 0  # bytes that were read and not yet served, of all connections
    memory: FrameMemory = field(default_factory=FrameMemory)
    backlog: Backlog[C] = field(init=False)
    oneway_permits: asyncio.Semaphore = field(init=False)
    async_permits: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.backlog = Backlog(self.limits.outbound_size_max)
        self.oneway_permits = asyncio.Semaphore(self.limits.oneway_max)
        self.async_permits = asyncio.Semaphore(self.limits.async_max)

    def until(self, deadline_ms: int) -> asyncio.Timeout:
        """For `async with`: TimeoutError at the deadline.

        Here, and wherever a connection waits for a socket, time is the loop's and not the clock's:
        the kernel and the peer that are waited for do not stand still when a test's clock does.
        """
        return asyncio.timeout((deadline_ms - self.clock.monotonic_ms()) / 1000)
