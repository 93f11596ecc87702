"""Reads one queue ahead of its poller: finds where to begin, then pulls while there is room."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from cometmq.client.consumer.lite.read_ahead import ReadAhead
from cometmq.client.consumer.shared.pulls import Pull
from cometmq.client.message import PullResult, PullStatus
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import Clock

log = logging.getLogger(__name__)

_RETRY_MS_MIN = 50  # after the first failure; twice as long after each further one
_HELD_MS_MIN = 20  # a broker that answers sooner with nothing does not hold pulls: ask less often
_UNHELD_PAUSE_MS = 100


class Puller(Protocol):
    """Whoever asks brokers: `Pulls`."""

    async def pull(self, ask: Pull) -> PullResult:
        """What was found."""

    def forget(self, queue: MessageQueue) -> None:
        """The queue is not ours any more."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """What it needs, for any queue."""

    pulls: Puller
    clock: Clock
    ask_of: Callable[[MessageQueue, int], Pull]  # what to ask, from this offset on
    start_of: Callable[[MessageQueue], Awaitable[int]]  # where the group begins
    room: Callable[[ReadAhead], Awaitable[None]]  # returns when the queue may be pulled from
    arrived: Callable[[ReadAhead, int], None]  # so many messages more wait
    retry_ms_max: int

    async def run(self, ahead: ReadAhead) -> None:
        """Until it is cancelled, whatever brokers do."""
        failures = 0
        while True:
            try:
                await self._step(ahead)
                failures = 0
                continue
            except (PeerError, WorldError) as error:
                if not failures:  # once, not every second until it is mended
                    log.warning("cannot read %s just now: %s", ahead.queue, error)
            except Exception:
                log.exception("reading %s failed", ahead.queue)
            failures += 1
            await self.clock.sleep_ms(min(self.retry_ms_max, _RETRY_MS_MIN << min(failures, 16)))

    async def _step(self, ahead: ReadAhead) -> None:
        if ahead.next_offset is None:
            generation = ahead.generation
            ahead.begin(generation, await self.start_of(ahead.queue))
            return
        await self.room(ahead)
        generation, offset = ahead.generation, ahead.next_offset
        begun_ms = self.clock.monotonic_ms()
        result = await self.pulls.pull(self.ask_of(ahead.queue, offset))
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "offset %d of %s is not there: going on from %d",
                offset,
                ahead.queue,
                result.next_offset,
            )
        if ahead.add(generation, result) and result.messages:
            self.arrived(ahead, len(result.messages))
        elif result.next_offset == offset and self.clock.monotonic_ms() < begun_ms + _HELD_MS_MIN:
            await self.clock.sleep_ms(_UNHELD_PAUSE_MS)
