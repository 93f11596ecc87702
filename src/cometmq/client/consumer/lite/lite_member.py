"""The member of a group that a lite pull consumer is: its queues, and its answers to brokers.

Queues are assigned by rebalance (`subscribe`) or by the user (`assign`), never by both.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from cometmq.client.config import LitePullConsumerConfig
from cometmq.client.consumer.lite.assignment import Assignment
from cometmq.client.consumer.lite.polling_info import polling_info
from cometmq.client.consumer.shared.group_member import GroupMember
from cometmq.client.consumer.shared.pulls import Pull, Pulls
from cometmq.client.consumer.shared.queue_events import QueueEvents
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.client.durations import duration_ms
from cometmq.client.session.session import Session
from cometmq.errors import BadSetting, Closed, PeerError, Refused, WorldError
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, DirectConsumption
from cometmq.protocol.bodies.heartbeat import ConsumeType
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.records.message import StoredMessage

log = logging.getLogger(__name__)

_PULL_COUNT_MIN = 32  # the most that a broker returns by default; fewer would cost more pulls


class LiteMember(GroupMember):
    """See the top of the file."""

    consume_type = ConsumeType.ACTIVELY

    def __init__(
        self, session: Session, config: LitePullConsumerConfig, events: QueueEvents
    ) -> None:
        super().__init__(session, config, Subscriptions(session.config.namespace, session.clock))
        self._config = config
        self.by_hand: Subscriptions | None = None  # of queues that the user assigned
        self.assignment = Assignment(
            session.clock,
            session.background.start,
            Pulls(session, self.group, self.namespace.name),
            self,
            config.flow_limits,
            config.pull_threshold_for_all,
            max(1, duration_ms(session.config.pull_delay_when_exception)),
        )
        self._announced: set[str] = set()  # topics that a heartbeat has announced
        self._events = events
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._start_ms = 0

    # Subscriptions

    def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Share the queues of this topic with the other members."""
        if self.by_hand is not None:
            raise BadSetting("queues are assigned by hand here: subscribe in another consumer")
        self.subscriptions.add(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Leave its queues to the other members."""
        wire_topic = self.subscriptions.remove(topic)
        for queue in [each for each in self.assignment.queues if each.topic == wire_topic]:
            self._give_up(queue)

    def assign(self, queues: Iterable[MessageQueue], tags: str, sql: str | None) -> None:
        """Read exactly these queues, named as on the wire."""
        if len(self.subscriptions):
            raise BadSetting("it subscribes to topics already: assign in another consumer")
        chosen = Subscriptions(self._session.config.namespace, self._session.clock)
        wanted = list(dict.fromkeys(queues))
        for topic in {queue.topic for queue in wanted}:
            chosen.add(topic, tags, sql)
        self.by_hand = chosen
        self._have(self.assignment.queues, wanted)

    def known_topics(self) -> list[str]:
        """All topics that it reads, named as on the wire."""
        return self._wanted.topics

    @property
    def _wanted(self) -> Subscriptions:
        return self.by_hand or self.subscriptions

    # Life

    async def join(self) -> None:
        """Join the group. Raises Refused if a broker rejects a subscription.

        Routes are fetched first, so that the first heartbeat reaches the brokers of all topics.
        """
        self._start_ms = self._session.clock.wall_ms()
        await self.offsets.load()
        topics = self.known_topics()
        await self._introduce(self._wanted)
        await self._session.join_consumer(self)
        self._announced.update(topics)

    async def announce(self) -> None:
        """Announce changed subscriptions: a broker must know the group before we rebalance."""
        topics = self.known_topics()
        try:
            await self._introduce(self._wanted)
        except Refused as refused:
            log.error("a broker rejects a subscription of group %s: %s", self.group, refused)
        await self._session.heart.beat()
        self._announced.update(topics)
        self.rebalance_soon()

    async def keep_done(self) -> None:
        """Commit the offsets of all messages that are done."""
        done = self.assignment.done()
        for queue, offset in done.items():
            self.offsets.advance(queue, offset)
        await self.offsets.keep(done)

    async def leave(self) -> None:
        """Commit, and leave the group."""
        await self.assignment.stop()
        try:
            if self._config.auto_commit:
                await self.keep_done()
            if self._leaving:
                await asyncio.wait(list(self._leaving.values()))
        except Closed as error:
            log.warning("offsets of %s are not committed: %s", self.group, error)
        finally:
            await self._leave_group()
            if self.by_hand is None:
                self._events.revoked(self.assignment.queues)
            await self._events.close()

    # Requests of brokers

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Seek to these offsets, and commit them."""
        mine = {queue: offset for queue, offset in offsets.items() if queue in self.assignment}
        for queue, offset in mine.items():
            log.warning("the offset of %s is reset to %d", queue, offset)
            self.assignment.seek(queue, offset)
            self._session.background.start(self._commit(queue, offset), "reset of offsets")

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """The consumer offsets of the assigned queues of a topic."""
        done = self.assignment.done()
        return {queue: offset for queue, offset in done.items() if queue.topic == topic}

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Queues and buffered messages, for operators."""
        return polling_info(
            self._session.config.name_servers,
            self._start_ms,
            list(self._wanted),
            self.assignment.queues,
            with_stacks=with_stacks,
        )

    async def consume_directly(self, message: StoredMessage, broker_name: str) -> DirectConsumption:
        """Raise Refused: a lite pull consumer has no listener."""
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"group {self.group} polls for its messages: it has no listener to give one to",
        )

    # Rebalance

    def _shared_topics(self) -> list[str]:
        return [topic for topic in self.subscriptions.topics if topic in self._announced]

    async def _settle(self, topic: str, mine: Sequence[MessageQueue]) -> None:
        if self.subscriptions.of(topic) is not None:  # else it was unsubscribed meanwhile
            self._have([each for each in self.assignment.queues if each.topic == topic], mine)

    def _have(self, before: Iterable[MessageQueue], now: Sequence[MessageQueue]) -> None:
        for queue in before:
            if queue not in now:
                self._give_up(queue)
        fresh = [queue for queue in now if queue not in self.assignment]
        for queue in fresh:
            self.assignment.add(queue)
        if self.by_hand is None:
            self._events.assigned(fresh)

    def _give_up(self, queue: MessageQueue) -> None:
        done = self.assignment.drop(queue)
        if self._config.auto_commit and done is not None:
            self.offsets.advance(queue, done)
        task = self._session.background.start(self._leave_queue(queue), f"leaving {queue}")
        self._leaving[queue] = task
        task.add_done_callback(partial(self._left, queue))

    async def _leave_queue(self, queue: MessageQueue) -> None:
        await self.offsets.leave(queue)
        if self.by_hand is None:
            self._events.revoked([queue])

    def _left(self, queue: MessageQueue, task: "asyncio.Task[None]") -> None:
        if self._leaving.get(queue) is task:
            del self._leaving[queue]

    # What the assignment asks

    async def start_of(self, queue: MessageQueue) -> int:
        """The first offset to pull."""
        leaving = self._leaving.get(queue)
        if leaving is not None:  # we owned it a moment ago: wait until its offset is committed
            await asyncio.wait([leaving])
        return await self._starts.of(queue)

    def pull_of(self, queue: MessageQueue, offset: int, generation: int) -> Pull:
        """The pull request for a queue."""
        subscription = self._wanted.of(queue.topic)
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
            generation=generation,
        )

    async def _commit(self, queue: MessageQueue, offset: int) -> None:
        try:
            await self.offsets.commit(queue, offset)
        except (PeerError, WorldError) as error:
            log.warning("offset %d of %s is not committed yet: %s", offset, queue, error)
