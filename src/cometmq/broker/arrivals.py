"""Parked reads: a read that found nothing waits here until its queue grows.

The parking invariant: **a read parks in the turn of the loop in which it found nothing.** There is
no `await` between the read of the store and `park`. The store announces each message in the turn
that appends it. So a message is either found by the read or announced to the parked read, and
nobody has to read a second time before parking.

A parked read leaves the table when it is woken: by a wanted message, by its deadline, or by the
stop of the broker. The deadline is set by `park`, so a reader that is canceled before it waits
leaves at its deadline at the latest.
"""

import asyncio
from collections.abc import Callable

from cometmq.seams import Clock, Timer

TagFilter = Callable[[int], bool]
Queue = tuple[str, int]  # topic and queue id


class ParkedRead:
    """One reader in the table of `Arrivals`, until it is woken."""

    __slots__ = ("_arrivals", "_woken", "offset", "queue", "timer", "wants")

    def __init__(
        self, arrivals: "Arrivals", queue: Queue, offset: int, wants: TagFilter | None
    ) -> None:
        self._arrivals = arrivals
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue = queue
        self.offset = offset
        self.wants = wants
        self.timer: Timer | None = None  # calls `wake` at the deadline; None once it is woken

    def wake(self) -> None:
        """Leave the table and let `wait` return; idempotent."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self._arrivals.remove(self)
        if not self._woken.done():
            self._woken.set_result(None)

    async def wait(self) -> None:
        """Return when it is woken. A canceled wait leaves the table immediately."""
        try:
            await self._woken
        finally:
            if self.timer is not None:
                self.wake()


class Arrivals:
    """Parked reads by queue. The store calls `announce` for each message."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parked: dict[Queue, dict[ParkedRead, None]] = {}
        self.count = 0  # parked reads
        self.is_over = False  # the broker stops: no read may park

    def announce(self, topic: str, queue_id: int, end: int, tag_code: int) -> None:
        """Wake the reads that want a message with this tag code; `end` is the queue's new end."""
        parked = self._parked.get((topic, queue_id))
        if parked is None:
            return
        for read in list(parked):
            if end > read.offset and (read.wants is None or read.wants(tag_code)):
                read.wake()

    def deadline_ms(self, patience_ms: int) -> int:
        """The monotonic time at which a patience that starts now ends."""
        return self._clock.monotonic_ms() + patience_ms

    def may_park(self, deadline_ms: int) -> bool:
        """The deadline is in the future and the broker does not stop."""
        return not self.is_over and self._clock.monotonic_ms() < deadline_ms

    def park(
        self, topic: str, queue_id: int, offset: int, wants: TagFilter | None, deadline_ms: int
    ) -> ParkedRead:
        """Register a read that found nothing from `offset` on; see the invariant above."""
        assert offset >= 0, "queue offsets start at 0"
        queue = topic, queue_id
        read = ParkedRead(self, queue, offset, wants)
        wait_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        read.timer = self._clock.call_later(wait_ms, read.wake)
        self._parked.setdefault(queue, {})[read] = None
        self.count += 1
        return read

    def remove(self, read: ParkedRead) -> None:
        """Forget a read that was woken."""
        parked = self._parked[read.queue]
        del parked[read]
        if not parked:
            del self._parked[read.queue]
        self.count -= 1
        assert self.count >= len(self._parked), "every listed queue has a parked read"

    async def wait_past(
        self, topic: str, queue_id: int, offset: int, wants: TagFilter | None, patience_ms: int
    ) -> None:
        """Park and wait, for callers that read in the same turn."""
        deadline_ms = self._clock.monotonic_ms() + patience_ms
        await self.park(topic, queue_id, offset, wants, deadline_ms).wait()

    def end(self) -> None:
        """Wake all parked reads, because the broker stops."""
        self.is_over = True
        for parked in list(self._parked.values()):
            for read in list(parked):
                read.wake()
