"""What a push consumer pulls, and what it does with the result.

The next pull is sent before the messages of the last one are consumed. A queue that has reached its
flow limits is not pulled from until its listener has finished some messages.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.consumption import Consumption
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.shared.back_off import needs_heartbeat
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.consumer.shared.pulls import Pull
from cometmq.client.consumer.shared.stats import ConsumerStats
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.durations import duration_ms
from cometmq.client.message import PullResult, PullStatus
from cometmq.protocol.bodies.heartbeat import MessageModel
from cometmq.seams import Clock

log = logging.getLogger(__name__)

_SUSPEND_MS = 15_000  # how long a broker may hold a pull while no message arrives
_TIMEOUT_MS = 30_000


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass(frozen=True, slots=True)
class PushReader:
    """The `QueueReader` of push consumers."""

    config: PushConsumerConfig
    clock: Clock
    offsets: Offsets
    subscriptions: Subscriptions
    stats: ConsumerStats
    consumption: Consumption
    beat: Callable[[], Awaitable[None]]  # sends a heartbeat
    gate: asyncio.Event = field(default_factory=_open_gate, init=False)  # cleared while suspended

    async def next_pull(self, owned: OwnedQueue) -> Pull | None:
        """The next pull; None when the topic is not subscribed to any more."""
        if not self.gate.is_set():
            await self.gate.wait()
        await owned.wait_for_room()
        subscription = self.subscriptions.of(owned.queue.topic)
        if subscription is None:
            return None
        commit = None
        if self.config.message_model is MessageModel.CLUSTERING:
            commit = self.offsets.known(owned.queue)
        return Pull(
            queue=owned.queue,
            offset=owned.next_offset,
            count=self.config.pull_batch_size,
            subscription=subscription,
            with_expression=self.config.post_subscription_when_pull,
            commit=commit,
            suspend_ms=_SUSPEND_MS,
            timeout_ms=_TIMEOUT_MS,
        )

    async def accept(self, owned: OwnedQueue, pull: Pull, result: PullResult, took_ms: int) -> None:
        """Hand the messages to the listener, then wait `pull_interval`."""
        owned.pulled_ms = self.clock.wall_ms()
        if result.messages:
            self.stats.pulled(owned.queue.topic, len(result.messages), took_ms)
        await self._process(owned, pull, result)
        if self.config.pull_interval:
            await self.clock.sleep_ms(duration_ms(self.config.pull_interval))

    async def _process(self, owned: OwnedQueue, pull: Pull, result: PullResult) -> None:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "%s has offsets %d to %d, not %d: continuing at %d",
                owned.queue,
                result.min_offset,
                result.max_offset,
                pull.offset,
                result.next_offset,
            )
            await self.move(owned, result.next_offset)
            return
        owned.next_offset = result.next_offset
        if result.messages:
            owned.process.add(result.messages)
            self.consumption.deliver(owned)
        elif not len(owned.process):
            # All messages are consumed, and the broker skipped some that the filter rejects.
            self.offsets.advance(owned.queue, result.next_offset, only_up=True)

    async def recover(self, owned: OwnedQueue, error: Exception) -> None:
        """Send a heartbeat if the broker may have forgotten this consumer."""
        if needs_heartbeat(error):
            await self.beat()

    async def move(self, owned: OwnedQueue, offset: int) -> None:
        """Continue at `offset`, which is committed first; discard all that was pulled."""
        owned.restart(offset)
        self.offsets.advance(owned.queue, offset)
        await self.offsets.keep([owned.queue])
