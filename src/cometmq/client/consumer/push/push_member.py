"""The group member of a push consumer: it joins, consumes, answers brokers, and leaves."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.direct import consume_directly
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import Listener
from cometmq.client.consumer.push.push_parts import PushParts, assemble
from cometmq.client.consumer.push.queue_locks import RENEW_MS
from cometmq.client.consumer.push.running import running_info, running_properties
from cometmq.client.consumer.shared.group_member import GroupMember
from cometmq.client.consumer.shared.queue_events import QueueEvents
from cometmq.client.consumer.shared.stats import SAMPLE_MS
from cometmq.client.consumer.shared.subscriptions import Subscriptions, introduce
from cometmq.client.durations import duration_ms
from cometmq.client.message import ReceivedMessage
from cometmq.client.session.session import Session
from cometmq.errors import Closed
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, DirectConsumption
from cometmq.protocol.bodies.heartbeat import ConsumeType, MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.protocol.records.message import StoredMessage

log = logging.getLogger(__name__)

_CLOSE_MS = 3_000  # for running listener calls, and again for the last requests to brokers
_EXPIRY_CHECKS = 4  # within `consume_timeout`


class PushMember(GroupMember):
    """See the top of the file."""

    consume_type = ConsumeType.PASSIVELY

    def __init__(
        self,
        session: Session,
        config: PushConsumerConfig,
        listener: Listener,
        subscriptions: Subscriptions,
        hooks: Hooks,
        events: QueueEvents,
    ) -> None:
        super().__init__(session, config, subscriptions)
        self._events = events
        self._config = config
        self._listener = listener
        self._beating: asyncio.Task[None] | None = None
        self._parts: PushParts = assemble(
            session, listener, hooks, subscriptions, self._starts, self._trigger, events, self._beat
        )
        self._background = self._parts.background
        self._owned = self._parts.owned
        self._properties: dict[str, str] = {}
        self.is_ready = asyncio.Event()  # set after the first complete rebalance, or when closed

    # Life

    async def join(self) -> None:
        """Join the group. Raises Refused if a broker rejects a subscription."""
        session, config, background = self._session, self._config, self._background
        await self.offsets.load()
        self._properties = running_properties(
            config,
            session.config.name_servers,
            session.clock.wall_ms(),
            orderly=self._listener.is_orderly,
        )
        await self._introduce(self.subscriptions)
        if config.message_model is MessageModel.CLUSTERING:
            self.subscriptions.add_retries(self.group)  # brokers create it at the first heartbeat
        await session.join_consumer(self)
        for interval_ms, work, what in (
            (
                duration_ms(session.config.persist_consumer_offset_interval),
                self._owned.keep_offsets,
                "commit of offsets",
            ),
            (RENEW_MS, self._owned.renew, "renewal of locks"),
            (SAMPLE_MS, self._parts.stats.sample, "statistics"),
            (
                max(1, duration_ms(config.consume_timeout) // _EXPIRY_CHECKS),
                self._parts.give_up_expired,
                "expiry of listener calls",
            ),
        ):
            background.every(partial(int, interval_ms), work, what)
        background.start(self.keep_rebalancing(), "rebalance")

    async def leave(self, drain_ms: int) -> None:
        """Stop pulling, finish listener calls, commit offsets and leave the group.

        With `drain_ms`, all pulled messages are consumed within that time; otherwise running calls
        get `_CLOSE_MS`.
        """
        self._owned.stop_pulling()
        consumption = self._parts.consumption
        try:
            await self._within(
                max(drain_ms, _CLOSE_MS),
                consumption.drain(begun_only=not drain_ms),
                "listener calls still run",
            )
            await self._within(_CLOSE_MS, self._owned.close(), "queues are not released")
        except Closed as error:  # a shared session was closed first
            log.warning("offsets of %s are not committed: %s", self.group, error)
        finally:
            self.is_ready.set()  # `ready` raises Closed
            consumption.close()
            await self._events.close()
            await self._background.close()
            await self._leave_group()

    async def _within(self, patience_ms: int, work: Coroutine[Any, Any, None], what: str) -> None:
        working = asyncio.ensure_future(work)

        def give_up() -> None:
            working.cancel()

        task = asyncio.current_task()
        assert task is not None, "coroutines run in tasks"
        cancels = task.cancelling()  # not 0 if the consumer closes because its task was cancelled
        timer = self._session.clock.call_later(patience_ms, give_up)
        try:
            await working
        except asyncio.CancelledError:
            if task.cancelling() > cancels:  # this task was cancelled, and not only the work
                raise
            log.warning("group %s: closed after %d ms although %s", self.group, patience_ms, what)
        finally:
            timer.cancel()

    # Subscriptions

    def subscribed(self, topic: str) -> None:
        """The subscription of a topic (as on the wire) is new or changed."""
        self._owned.pull_anew(topic)
        self._background.start(self._announce(topic), "subscription")

    def unsubscribed(self, topic: str) -> None:
        """A topic (as on the wire) is not subscribed to any more."""
        self._parts.stats.forget(topic)
        self._background.start(self._forget(topic), "end of a subscription")

    def suspend(self) -> None:
        """Stop pulling until `resume`; pulled messages are still consumed."""
        self._owned.reader.gate.clear()

    def resume(self) -> None:
        """Pull again."""
        self._owned.reader.gate.set()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member owns, without those of the retry topic."""
        own = [queue for queue in self._owned.table if not queue.topic.startswith(RETRY_PREFIX)]
        return self.namespace.bare_queues(own)

    async def _announce(self, topic: str) -> None:
        subscription = self.subscriptions.of(topic)
        if subscription is not None:
            await introduce(self._session, self.group, subscription)
        await self._beat()
        self.rebalance_soon()

    async def _forget(self, topic: str) -> None:
        await self._owned.give_up(self._owned.of(topic))
        await self._beat()

    async def _beat(self) -> None:
        """Send a heartbeat; concurrent callers share one."""
        if self._beating is None or self._beating.done():
            self._beating = self._background.start(self._session.heart.beat(), "heartbeat")
        await asyncio.wait([self._beating])

    # Rebalance

    async def _settle(self, topic: str, mine: Sequence[MessageQueue]) -> None:
        await self._owned.settle(topic, mine)

    def _shared_topics(self) -> list[str]:
        return self.subscriptions.topics

    async def _rebalanced(self, unsettled: list[str]) -> None:
        await self._owned.give_up(
            [
                owned
                for owned in self._owned.table.values()
                if self.subscriptions.of(owned.queue.topic) is None  # unsubscribed meanwhile
            ]
        )
        if all(topic.startswith(RETRY_PREFIX) for topic in unsettled):
            self.is_ready.set()

    # Requests of brokers

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Discard what was pulled, and continue at these offsets."""
        chosen = {queue: offset for queue, offset in offsets.items() if queue.topic == topic}
        log.warning("offsets of topic %s are reset to %s", topic, chosen)
        self._background.start(self._owned.move(chosen), "reset of offsets")

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """The consumer offsets of the owned queues of a topic."""
        known = {owned.queue: self.offsets.known(owned.queue) for owned in self._owned.of(topic)}
        return {queue: offset for queue, offset in known.items() if offset is not None}

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Queues, rates and settings, for operators."""
        return running_info(
            self._properties,
            self.subscriptions,
            self._owned.table.values(),
            self.offsets,
            self._parts.stats,
            with_stacks=with_stacks,
        )

    async def consume_directly(self, message: StoredMessage, broker_name: str) -> DirectConsumption:
        """Give this message to the listener now, on behalf of an operator."""
        received = ReceivedMessage.of(message, broker_name, self.namespace.name)
        return await consume_directly(self._listener, received)
