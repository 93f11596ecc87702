"""The member of a group that a push consumer is: the parts, wired; its life; what brokers ask."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from cometmq.background import Background
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.push.concurrent import Concurrent
from cometmq.client.consumer.push.direct import consume_directly
from cometmq.client.consumer.push.hooks import Hooks
from cometmq.client.consumer.push.listener import Listener
from cometmq.client.consumer.push.orderly import TIMES_MAX, Orderly
from cometmq.client.consumer.push.owned_queues import OwnedQueues
from cometmq.client.consumer.push.puller import Puller
from cometmq.client.consumer.push.queue_locks import RENEW_MS, QueueLocks
from cometmq.client.consumer.push.running import running_info, running_properties
from cometmq.client.consumer.push.send_back import RETRIES_UNLESS_SET, SendBack
from cometmq.client.consumer.push.workers import Finished, LoopWorkers, ThreadWorkers, Workers
from cometmq.client.consumer.push.workplace import Workplace
from cometmq.client.consumer.shared.offsets import offsets_for
from cometmq.client.consumer.shared.pulls import Pulls
from cometmq.client.consumer.shared.rebalance import REBALANCE_MS, Rebalance
from cometmq.client.consumer.shared.rebalance_trigger import Soon
from cometmq.client.consumer.shared.start_offset import start_offset
from cometmq.client.consumer.shared.stats import SAMPLE_MS, ConsumerStats
from cometmq.client.consumer.shared.subscriptions import Subscriptions, introduce
from cometmq.client.durations import duration_ms
from cometmq.client.message import ReceivedMessage
from cometmq.client.namespace import Namespace
from cometmq.client.session.queries import Queries
from cometmq.client.session.route import ClientRoute
from cometmq.client.session.session import Session
from cometmq.errors import Closed
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, DirectConsumption
from cometmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.protocol.records.message import StoredMessage

log = logging.getLogger(__name__)

_CLOSE_MS = 3_000  # for the calls that a listener is in, and for the last words with brokers
_EXPIRY_LOOKS = 4  # in the time that a listener may take


class PushMember:
    """See the top of the file. It joins once, and leaves once."""

    def __init__(
        self,
        session: Session,
        config: PushConsumerConfig,
        listener: Listener,
        subscriptions: Subscriptions,
        hooks: Hooks,
    ) -> None:
        self._session = session
        self._config = config
        self._listener = listener
        self._subscriptions = subscriptions
        self._namespace = Namespace(session.config.namespace)
        self.group = self._namespace.wire(config.group)
        self._is_shared = config.message_model is MessageModel.CLUSTERING
        self._background = Background(session.clock)
        self._stats = ConsumerStats(session.clock)
        self._offsets = offsets_for(session, self.group, config.message_model, config.offset_folder)
        self._beating: asyncio.Task[None] | None = None
        self._consumption = self._make_consumption(hooks)
        self._holdings = self._make_holdings()
        self._rebalance = Rebalance(
            session, self.group, config.message_model, config.allocation, self._holdings.settle
        )
        self._soon = Soon(session.clock, REBALANCE_MS)
        self._properties: dict[str, str] = {}
        self._forget_routes: Callable[[], None] = lambda: None
        self.is_ready = asyncio.Event()  # the queues of its topics were shared out once

    # The parts

    def _make_consumption(self, hooks: Hooks) -> Concurrent | Orderly:
        config, clock = self._config, self._session.clock
        is_orderly = self._listener.is_orderly
        reconsume_max = config.max_reconsume_times
        if reconsume_max < 0:
            reconsume_max = TIMES_MAX if is_orderly else RETRIES_UNLESS_SET
        send_back = SendBack(self._session, self.group, reconsume_max, config.unit_mode)
        workplace = Workplace(
            self._listener,
            self._make_workers,
            send_back if self._is_shared else None,
            self._offsets,
            clock,
            self._background,
            self._stats,
            hooks,
        )
        if not is_orderly:
            return Concurrent(workplace)
        return Orderly(
            workplace,
            needs_lock=self._is_shared,
            reconsume_max=reconsume_max,
            suspend_ms=duration_ms(config.suspend_current_queue_time),
        )

    def _make_workers(self, finished: Finished) -> Workers:
        count = self._config.consume_threads
        if self._listener.is_async:
            return LoopWorkers(count, finished, self._listener, self._session.clock)
        return ThreadWorkers(count, finished, self._listener, f"consume-{self._config.group}")

    def _make_holdings(self) -> OwnedQueues:
        session, config, is_orderly = self._session, self._config, self._listener.is_orderly
        puller = Puller(
            config,
            duration_ms(session.config.pull_delay_when_exception),
            session.clock,
            Pulls(session, self.group, self._namespace.name),
            self._offsets,
            self._subscriptions,
            self._stats,
            self._consumption.deliver,
            self._beat,
        )
        queries = Queries(session)
        return OwnedQueues(
            config,
            session.clock,
            self._background,
            puller,
            self._consumption,
            self._offsets,
            lambda queue: start_offset(queue, config, self._offsets, queries),
            is_orderly,
            QueueLocks(session, self.group) if is_orderly and self._is_shared else None,
            lambda: self._soon.try_again(),
        )

    # Its life

    async def join(self) -> None:
        """Be a member from now on; Refused if a broker cannot do what is subscribed to."""
        session, config, background = self._session, self._config, self._background
        await self._offsets.load()
        self._properties = running_properties(
            config,
            session.config.name_servers,
            session.clock.wall_ms(),
            orderly=self._listener.is_orderly,
        )
        await asyncio.gather(
            *(introduce(session, self.group, each) for each in self._subscriptions)
        )
        if self._is_shared:  # brokers make the topic when they first hear of the group
            self._subscriptions.add_retries(self.group)
        await session.join_consumer(self)
        self._forget_routes = session.routes.on_change(self._route_changed)
        for interval_ms, work, what in (
            (
                duration_ms(session.config.persist_consumer_offset_interval),
                self._holdings.keep_offsets,
                "keeping offsets",
            ),
            (RENEW_MS, self._holdings.renew, "renewing locks"),
            (SAMPLE_MS, self._stats.sample, "statistics"),
            (
                max(1, duration_ms(config.consume_timeout) // _EXPIRY_LOOKS),
                self._give_up_expired,
                "looking for expired messages",
            ),
        ):
            background.every(partial(int, interval_ms), work, what)
        background.start(self._rebalancing(), "rebalance")
        self._soon.ask()

    async def leave(self) -> None:
        """Pull no more, finish what a listener has, keep offsets, tell brokers. Bounded."""
        self._forget_routes()
        self._soon.close()
        self._holdings.stop_pulling()
        patience_ms = duration_ms(self._config.await_termination_when_shutdown)
        try:
            await self._within(
                max(patience_ms, _CLOSE_MS),
                self._consumption.drain(begun_only=not patience_ms),
                "listeners still run",
            )
            await self._within(_CLOSE_MS, self._holdings.close(), "queues are given up by force")
        except Closed as error:  # a session that others share may end before us
            log.warning("offsets of %s are not committed: %s", self.group, error)
        finally:
            self.is_ready.set()  # who waits for it learns that it is closed
            self._consumption.close()
            await self._background.close()
            if self._session.members.consumers.get(self.group) is self:  # else it could not join
                await self._session.leave_consumer(self)

    async def _within(self, patience_ms: int, work: Coroutine[Any, Any, None], what: str) -> None:
        working = asyncio.ensure_future(work)

        def give_up() -> None:
            working.cancel()

        task = asyncio.current_task()
        assert task is not None, "coroutines run in tasks"
        cancels = task.cancelling()  # of who closes because it was cancelled itself
        timer = self._session.clock.call_later(patience_ms, give_up)
        try:
            await working
        except asyncio.CancelledError:
            if task.cancelling() > cancels:  # we are, and not only the work
                raise
            log.warning("consumer of %s ends while %s after %d ms", self.group, what, patience_ms)
        finally:
            timer.cancel()

    def subscribed(self, topic: str) -> None:
        """A topic of the wire has another subscription than before, or is new."""
        self._holdings.pull_anew(topic)
        self._background.start(self._tell_brokers(topic), "subscription")

    def unsubscribed(self, topic: str) -> None:
        """A topic of the wire is nothing to us any more."""
        self._stats.forget(topic)
        self._background.start(self._forget(topic), "end of a subscription")

    def suspend(self) -> None:
        """Pull no more until `resume`; what was pulled is consumed."""
        self._holdings.puller.gate.clear()

    def resume(self) -> None:
        """Pull again."""
        self._holdings.puller.gate.set()

    @property
    def queues(self) -> list[MessageQueue]:
        """Those of its topics that are ours just now, as their owner names them."""
        own = [queue for queue in self._holdings.held if not queue.topic.startswith(RETRY_PREFIX)]
        return self._namespace.bare_queues(own)

    async def _tell_brokers(self, topic: str) -> None:
        subscription = self._subscriptions.of(topic)
        if subscription is not None:
            await introduce(self._session, self.group, subscription)
        await self._beat()
        self._soon.ask()

    async def _forget(self, topic: str) -> None:
        await self._holdings.give_up(self._holdings.of(topic))
        await self._beat()

    async def _rebalancing(self) -> None:
        while True:
            await self._soon.wait()
            unsettled = topics = self._subscriptions.topics
            try:
                unsettled = await self._rebalance.run(topics)
            except Exception:  # of a strategy that is not ours, say: the next time may go well
                log.exception("queues of %s stay as they are", self.group)
            await self._holdings.give_up(
                [
                    held
                    for held in self._holdings.held.values()
                    if self._subscriptions.of(held.queue.topic) is None  # not any more
                ]
            )
            if unsettled:
                self._soon.try_again()
            else:
                self._soon.went_well()
            if all(topic.startswith(RETRY_PREFIX) for topic in unsettled):
                self.is_ready.set()

    async def _give_up_expired(self) -> None:
        if isinstance(self._consumption, Concurrent):
            self._consumption.give_up_expired(duration_ms(self._config.consume_timeout))

    async def _beat(self) -> None:
        """A heartbeat; who asks for one meanwhile shares it."""
        if self._beating is None or self._beating.done():
            self._beating = self._background.start(self._session.heart.beat(), "heartbeat")
        await asyncio.wait([self._beating])

    def _route_changed(self, route: ClientRoute) -> None:
        if self._subscriptions.of(route.topic) is not None:
            self._soon.ask()

    # What brokers ask

    def data(self) -> ConsumerData:
        """For a heartbeat."""
        return ConsumerData(
            consume_from_where=self._config.consume_from,
            consume_type=ConsumeType.PASSIVELY,
            group_name=self.group,
            message_model=self._config.message_model,
            subscription_data_set=list(self._subscriptions),
            unit_mode=self._config.unit_mode,
        )

    def rebalance_soon(self) -> None:
        """The group has changed."""
        self._soon.ask()

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Forget what was pulled, and read on from these."""
        chosen = {queue: offset for queue, offset in offsets.items() if queue.topic == topic}
        log.warning("offsets of %s are reset: %s", topic, chosen)
        self._background.start(self._holdings.move(chosen), "reset of offsets")

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """How far it is with the queues of a topic."""
        known = {held.queue: self._offsets.known(held.queue) for held in self._holdings.of(topic)}
        return {queue: offset for queue, offset in known.items() if offset is not None}

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Its queues, rates and settings."""
        return running_info(
            self._properties,
            self._subscriptions,
            self._holdings.held.values(),
            self._offsets,
            self._stats,
            with_stacks=with_stacks,
        )

    async def consume_directly(self, message: StoredMessage, broker_name: str) -> DirectConsumption:
        """Give this message to the listener now, whatever else runs."""
        received = ReceivedMessage.of(message, broker_name, self._namespace.name)
        return await consume_directly(self._listener, received)
