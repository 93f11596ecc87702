"""The pull loop of a queue: ask, hand over what came, ask again, as long as the queue is ours.

The next question is asked before the messages of the last are consumed; a queue whose listener is
slow is not asked for more than its limits allow to wait.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.shared.offsets import Offsets
from cometmq.client.consumer.shared.pulls import Pull, Pulls
from cometmq.client.consumer.shared.stats import ConsumerStats
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.durations import duration_ms
from cometmq.client.message import PullResult, PullStatus
from cometmq.errors import Closed, PeerError, Refused, Unreachable, WorldError
from cometmq.protocol.bodies.heartbeat import MessageModel, Subscription
from cometmq.protocol.codes import ResponseCode
from cometmq.seams import Clock

log = logging.getLogger(__name__)

_SUSPEND_MS = 15_000  # a broker may wait so long for a message
_TIMEOUT_MS = 30_000
_BUSY_MS = 20  # until a broker that is busy is asked again
_UNKNOWN = frozenset(
    {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}
)  # to a broker that has not heard our last heartbeat


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass(frozen=True, slots=True)
class Puller:
    """Pulls for all queues of one consumer: `run` is the loop of one."""

    config: PushConsumerConfig
    error_delay_ms: int
    clock: Clock
    pulls: Pulls
    offsets: Offsets
    subscriptions: Subscriptions
    stats: ConsumerStats
    deliver: Callable[[OwnedQueue], None]  # told when messages wait in a queue
    beat: Callable[[], Awaitable[None]]  # a heartbeat: brokers forget who lost its connection
    gate: asyncio.Event = field(default_factory=_open_gate)  # closed while pulls are suspended

    async def run(self, held: OwnedQueue) -> None:
        """Until it is cancelled, or the topic is subscribed to no more."""
        while True:
            try:
                await self._pull_on(held)
                return
            except Closed:
                return
            except Exception:  # a mistake of ours must not leave the queue to nobody
                log.exception("pulling from %s failed", held.queue)
                await self.clock.sleep_ms(max(self.error_delay_ms, _BUSY_MS))

    async def _pull_on(self, held: OwnedQueue) -> None:
        failures = 0  # in a row
        while True:
            if not self.gate.is_set():
                await self.gate.wait()
            await held.wait_for_room()
            subscription = self.subscriptions.of(held.queue.topic)
            if subscription is None:
                return
            begun_ms = self.clock.monotonic_ms()
            try:
                result = await self.pulls.pull(self._question(held, subscription))
            except (PeerError, WorldError) as error:
                failures += 1
                await self._failed(held, error, failures)
                continue
            failures = 0
            await self._answered(held, result, self.clock.monotonic_ms() - begun_ms)
            if self.config.pull_interval:
                await self.clock.sleep_ms(duration_ms(self.config.pull_interval))

    def _question(self, held: OwnedQueue, subscription: Subscription) -> Pull:
        commit = None
        if self.config.message_model is MessageModel.CLUSTERING:
            commit = self.offsets.known(held.queue)
        return Pull(
            queue=held.queue,
            offset=held.next_offset,
            count=self.config.pull_batch_size,
            subscription=subscription,
            with_expression=self.config.post_subscription_when_pull,
            commit=commit,
            suspend_ms=_SUSPEND_MS,
            timeout_ms=_TIMEOUT_MS,
        )

    async def _answered(self, held: OwnedQueue, result: PullResult, took_ms: int) -> None:
        held.pulled_ms = self.clock.wall_ms()
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "%s has offsets %d to %d, we asked for %d: reading on from %d",
                held.queue,
                result.min_offset,
                result.max_offset,
                held.next_offset,
                result.next_offset,
            )
            await self.move(held, result.next_offset)
            return
        held.next_offset = result.next_offset
        if result.messages:
            self.stats.pulled(held.queue.topic, len(result.messages), took_ms)
            held.process.add(result.messages)
            self.deliver(held)
        elif not len(held.process):
            # Nothing is left and nothing was wanted: what was passed over need not come again.
            self.offsets.advance(held.queue, result.next_offset, only_up=True)

    async def move(self, held: OwnedQueue, offset: int) -> None:
        """Read on from here, whatever was read; the offset is kept before."""
        held.begin_anew(offset)
        self.offsets.advance(held.queue, offset)
        await self.offsets.keep([held.queue])

    async def _failed(self, held: OwnedQueue, error: PeerError | WorldError, failures: int) -> None:
        code = error.code if isinstance(error, Refused) else None
        if code == ResponseCode.FLOW_CONTROL:
            await self.clock.sleep_ms(_BUSY_MS)
            return
        level = logging.WARNING if failures == 1 else logging.DEBUG
        log.log(level, "no messages from %s for now: %s", held.queue, error)
        is_unknown = code in _UNKNOWN
        # A broker that was not told of us is told now; one that still does not know is not pressed.
        quick = is_unknown and failures == 1
        await self.clock.sleep_ms(_BUSY_MS if quick else self.error_delay_ms)
        if is_unknown or isinstance(error, Unreachable):
            await self.beat()
