"""The pull loop of a queue: wait for room, pull, hand the result over, repeat.

Push and lite pull consumers share the loop. They differ in the reader, which says what to pull next
and what happens to the result, and in the back-off policy after a failure.

The loop of a queue ends when it is cancelled, when the reader has nothing to pull any more, or when
the session is closed. No other failure ends it: a queue without a loop would never be consumed.
"""

import logging
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cometmq.client.consumer.shared.back_off import BackOff, is_busy
from cometmq.client.consumer.shared.pulls import Pull
from cometmq.client.message import PullResult
from cometmq.client.session.connections import failure_level
from cometmq.errors import Closed, PeerError, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.seams import Clock

log = logging.getLogger(__name__)


class HasQueue(Protocol):
    """The state that a consumer has of one queue."""

    queue: MessageQueue


Q = TypeVar("Q", bound=HasQueue)
Q_contra = TypeVar("Q_contra", bound=HasQueue, contravariant=True)


class PullSource(Protocol):
    """Pulls from brokers; implemented by `Pulls`."""

    async def pull(self, ask: Pull) -> PullResult:
        """Send one pull request and return its result."""

    def forget(self, queue: MessageQueue) -> None:
        """Forget which broker node is suggested for this queue."""


class QueueReader(Protocol[Q_contra]):
    """Says what to pull from a queue, and receives what was pulled."""

    async def next_pull(self, owned: Q_contra) -> Pull | None:
        """Wait until the queue may be pulled from. Return None to end its loop."""

    async def accept(self, owned: Q_contra, pull: Pull, result: PullResult, took_ms: int) -> None:
        """Process the result of a pull."""

    async def recover(self, owned: Q_contra, error: Exception) -> None:
        """Do what the next pull needs after this error; called after the delay."""


@dataclass(frozen=True, slots=True)
class QueuePuller(Generic[Q]):
    """Pulls for all queues of one consumer; `run` is the loop of one queue."""

    source: PullSource
    reader: QueueReader[Q]
    back_off: BackOff
    clock: Clock

    async def run(self, owned: Q) -> None:
        """Pull until cancelled, until the reader returns None, or until the session is closed."""
        failures = 0  # in a row
        while True:
            try:
                if not await self._pull(owned):
                    return
                if failures:
                    log.debug("pulling from %s again", owned.queue)
                failures = 0
                continue
            except Closed:
                return
            except (PeerError, WorldError) as error:
                failure: Exception = error
                _report(owned.queue, error, is_first=not failures)
            except Exception as error:
                failure = error
                log.exception("pulling from %s failed", owned.queue)
            failures += 1
            await self.clock.sleep_ms(self.back_off.delay_ms(failure, failures))
            await self.reader.recover(owned, failure)

    async def _pull(self, owned: Q) -> bool:
        pull = await self.reader.next_pull(owned)
        if pull is None:
            return False
        begun_ms = self.clock.monotonic_ms()
        result = await self.source.pull(pull)
        await self.reader.accept(owned, pull, result, self.clock.monotonic_ms() - begun_ms)
        return True


def _report(queue: MessageQueue, error: Exception, *, is_first: bool) -> None:
    # Flow control is normal operation.
    level = failure_level(error) if is_first and not is_busy(error) else logging.DEBUG
    log.log(level, "cannot pull from %s, trying again: %s", queue, error)
