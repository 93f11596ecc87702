"""The member of a group that a lite pull consumer is: its queues, and what it tells brokers."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from cometmq.client.config import LitePullConsumerConfig
from cometmq.client.consumer.lite.assignment import Assignment
from cometmq.client.consumer.lite.polling_info import polling_info
from cometmq.client.consumer.shared.offsets import offsets_for
from cometmq.client.consumer.shared.pulls import Pull, Pulls
from cometmq.client.consumer.shared.rebalance import REBALANCE_MS, Rebalance
from cometmq.client.consumer.shared.rebalance_trigger import Soon
from cometmq.client.consumer.shared.start_offset import start_offset
from cometmq.client.consumer.shared.subscriptions import Subscriptions, introduce
from cometmq.client.durations import duration_ms
from cometmq.client.namespace import Namespace
from cometmq.client.session.queries import Queries
from cometmq.client.session.route import ClientRoute
from cometmq.client.session.session import Session
from cometmq.errors import BadSetting, Closed, PeerError, Refused, WorldError
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, DirectConsumption
from cometmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.records.message import StoredMessage

log = logging.getLogger(__name__)

_PULL_COUNT_MIN = 32  # what a broker gives at most, unless it is set; fewer only cost more pulls


class LiteMember:
    """See the top of the file. Queues come by rebalance, or are assigned by hand; never both."""

    def __init__(self, session: Session, config: LitePullConsumerConfig) -> None:
        self._session = session
        self._config = config
        namespace = Namespace(session.config.namespace)
        self.group = namespace.wire(config.group)
        self.subscriptions = Subscriptions(namespace.name, session.clock)
        self.by_hand: Subscriptions | None = None  # what is wanted of queues that are assigned
        self.offsets = offsets_for(session, self.group, config.message_model, config.offset_folder)
        self.queries = Queries(session)
        self.assignment = Assignment(
            session.clock,
            session.background.start,
            Pulls(session, self.group, namespace.name),
            self._ask_of,
            self._start_of,
            config.flow_limits,
            config.pull_threshold_for_all,
            max(1, duration_ms(session.config.pull_delay_when_exception)),
        )
        self._rebalance = Rebalance(
            session, self.group, config.message_model, config.allocation, self._settle
        )
        self._announced: set[str] = set()  # topics that a heartbeat has told of
        self._soon = Soon(session.clock, REBALANCE_MS)
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._start_ms = 0

    # What it reads

    def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Share the queues of this topic with the others of the group."""
        if self.by_hand is not None:
            raise BadSetting("queues are assigned by hand here: subscribe in another consumer")
        self.subscriptions.add(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Leave its queues to the others."""
        wire_topic = self.subscriptions.remove(topic)
        for queue in [each for each in self.assignment.queues if each.topic == wire_topic]:
            self._give_up(queue)

    def assign(self, queues: Iterable[MessageQueue], tags: str, sql: str | None) -> None:
        """Have these and no others; they are as the wire has them."""
        if len(self.subscriptions):
            raise BadSetting("it subscribes to topics already: assign in another consumer")
        chosen = Subscriptions(self._session.config.namespace, self._session.clock)
        wanted = list(dict.fromkeys(queues))
        for topic in {queue.topic for queue in wanted}:
            chosen.add(topic, tags, sql)
        self.by_hand = chosen
        self._have(self.assignment.queues, wanted)

    def known_topics(self) -> list[str]:
        """All that it reads, as the wire has them."""
        return (self.by_hand or self.subscriptions).topics

    # Life

    async def join(self) -> None:
        """Be a member; Refused if a broker cannot do what is subscribed to.

        Routes come first, so that the first heartbeat reaches their brokers.
        """
        self._start_ms = self._session.clock.wall_ms()
        await self.offsets.load()
        topics = self.known_topics()
        await self._introduce()
        await self._session.join_consumer(self)
        self._announced.update(topics)

    async def announce(self) -> None:
        """Have brokers know what it reads by now: who asks them before is told of no such group."""
        topics = self.known_topics()
        try:
            await self._introduce()
        except Refused as refused:
            log.error("what is subscribed to cannot be had: %s", refused)
        await self._session.heart.beat()
        self._announced.update(topics)
        self.rebalance_soon()

    async def keep_rebalancing(self) -> None:
        """Until it is cancelled: from time to time, and when something changes."""
        forget = self._session.routes.on_change(self._route_changed)
        try:
            while True:
                if await self._are_shared():
                    self._soon.went_well()
                else:
                    self._soon.try_again()
                await self._soon.wait()
        finally:
            self._soon.close()
            forget()

    async def keep_done(self) -> None:
        """Commit what is done."""
        done = self.assignment.done()
        for queue, offset in done.items():
            self.offsets.advance(queue, offset)
        await self.offsets.keep(done)

    async def leave(self) -> None:
        """Be no member any more, with what is done committed."""
        await self.assignment.stop()
        try:
            if self._config.auto_commit:
                await self.keep_done()
            if self._leaving:
                await asyncio.wait(list(self._leaving.values()))
        except Closed as error:
            log.warning("offsets of %s are not committed: %s", self.group, error)
        finally:
            if self._session.members.consumers.get(self.group) is self:
                await self._session.leave_consumer(self)

    # What brokers ask

    def data(self) -> ConsumerData:
        """For a heartbeat. Topics of queues that are assigned by hand are nobody's to share."""
        return ConsumerData(
            consume_from_where=self._config.consume_from,
            consume_type=ConsumeType.ACTIVELY,
            group_name=self.group,
            message_model=self._config.message_model,
            subscription_data_set=list(self.subscriptions),
            unit_mode=self._config.unit_mode,
        )

    def rebalance_soon(self) -> None:
        """The group or a topic has changed."""
        self._soon.ask()

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Seek, and commit that: an operator wants it so."""
        mine = {queue: offset for queue, offset in offsets.items() if queue in self.assignment}
        for queue, offset in mine.items():
            log.warning("offset of %s is reset to %d", queue, offset)
            self.assignment.seek(queue, offset)
            self._session.background.start(self._commit(queue, offset), "reset of offsets")

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """How far it is with the queues of a topic."""
        done = self.assignment.done()
        return {queue: offset for queue, offset in done.items() if queue.topic == topic}

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Its queues, and what waits of each."""
        return polling_info(
            self._session.config.name_servers,
            self._start_ms,
            list(self.by_hand or self.subscriptions),
            self.assignment.queues,
            with_stacks=with_stacks,
        )

    async def consume_directly(self, message: StoredMessage, broker_name: str) -> DirectConsumption:
        """Refused: there is no listener."""
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"group {self.group} polls for its messages: it has no listener to give one to",
        )

    # Queues that come and go

    async def _introduce(self) -> None:
        wanted = self.by_hand or self.subscriptions
        await asyncio.gather(*(introduce(self._session, self.group, each) for each in wanted))

    async def _are_shared(self) -> bool:
        """Share the queues of its topics; False if some could not be."""
        topics = [topic for topic in self.subscriptions.topics if topic in self._announced]
        try:
            return not await self._rebalance.run(topics)
        except Exception:  # of a strategy that is not ours, say: the next time may go well
            log.exception("queues of %s stay as they are", self.group)
            return False

    async def _settle(self, topic: str, mine: Sequence[MessageQueue]) -> None:
        if self.subscriptions.of(topic) is not None:  # else it was given up meanwhile
            self._have([each for each in self.assignment.queues if each.topic == topic], mine)

    def _have(self, before: Iterable[MessageQueue], now: Sequence[MessageQueue]) -> None:
        for queue in before:
            if queue not in now:
                self._give_up(queue)
        for queue in now:
            self.assignment.add(queue)

    def _give_up(self, queue: MessageQueue) -> None:
        done = self.assignment.drop(queue)
        if self._config.auto_commit and done is not None:
            self.offsets.advance(queue, done)
        task = self._session.background.start(self.offsets.leave(queue), f"leaving {queue}")
        self._leaving[queue] = task
        task.add_done_callback(partial(self._left, queue))

    def _left(self, queue: MessageQueue, task: "asyncio.Task[None]") -> None:
        if self._leaving.get(queue) is task:
            del self._leaving[queue]

    def _route_changed(self, route: ClientRoute) -> None:
        if self.subscriptions.of(route.topic) is not None:
            self.rebalance_soon()

    # What fetchers ask

    async def _start_of(self, queue: MessageQueue) -> int:
        leaving = self._leaving.get(queue)
        if leaving is not None:  # it was ours a moment ago: its offset is on its way
            await asyncio.wait([leaving])
        return await start_offset(queue, self._config, self.offsets, self.queries)

    def _ask_of(self, queue: MessageQueue, offset: int) -> Pull:
        subscription = (self.by_hand or self.subscriptions).of(queue.topic)
        assert subscription is not None, "a queue is dropped with its subscription"
        return Pull(
            queue=queue,
            offset=offset,
            count=max(_PULL_COUNT_MIN, self._config.pull_batch_size),
            subscription=subscription,
            with_expression=True,
            suspend_ms=duration_ms(self._config.broker_suspend_max_time),
            timeout_ms=duration_ms(self._config.consumer_timeout_when_suspend),
            is_lite=True,
        )

    async def _commit(self, queue: MessageQueue, offset: int) -> None:
        try:
            await self.offsets.commit(queue, offset)
        except (PeerError, WorldError) as error:
            log.warning("offset %d of %s is not committed yet: %s", offset, queue, error)
