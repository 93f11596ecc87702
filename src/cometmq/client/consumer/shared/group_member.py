"""A member of a consumer group: what push and lite pull consumers share.

It subscribes, sends heartbeats, rebalances, and owns the consumer offsets. Subclasses decide what
owning a queue means: `_settle` receives the queues of a topic that are theirs.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Sequence

from cometmq.client.config import LitePullConsumerConfig, PushConsumerConfig
from cometmq.client.consumer.shared.rebalance import REBALANCE_MS, Rebalance
from cometmq.client.consumer.shared.rebalance_trigger import RebalanceTrigger
from cometmq.client.consumer.shared.start_offset import start_offsets_for
from cometmq.client.consumer.shared.subscriptions import Subscriptions, introduce
from cometmq.client.namespace import Namespace
from cometmq.client.session.members import ConsumerMember
from cometmq.client.session.route import ClientRoute
from cometmq.client.session.session import Session
from cometmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from cometmq.protocol.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


class GroupMember(ConsumerMember):
    """See the top of the file. It joins once, and leaves once."""

    consume_type: ConsumeType

    def __init__(
        self,
        session: Session,
        config: PushConsumerConfig | LitePullConsumerConfig,
        subscriptions: Subscriptions,
    ) -> None:
        self._session = session
        self.namespace = Namespace(session.config.namespace)
        self._member_config = config
        self.group = self.namespace.wire(config.group)
        self.subscriptions = subscriptions
        self._starts = start_offsets_for(session, self.group, config)
        self.offsets = self._starts.offsets
        self.queries = self._starts.queries
        self._trigger = RebalanceTrigger(session.clock, REBALANCE_MS)
        self._rebalance = Rebalance(
            session, self.group, config.message_model, config.allocation, self._settle
        )

    # Requests of brokers

    def data(self) -> ConsumerData:
        """What heartbeats say about this member."""
        config = self._member_config
        return ConsumerData(
            consume_from_where=config.consume_from,
            consume_type=self.consume_type,
            group_name=self.group,
            message_model=config.message_model,
            subscription_data_set=list(self.subscriptions),
            unit_mode=config.unit_mode,
        )

    def rebalance_soon(self) -> None:
        """The members of the group, or the queues of a topic, have changed."""
        self._trigger.fire()

    # Rebalance

    @abstractmethod
    async def _settle(self, topic: str, mine: Sequence[MessageQueue]) -> None:
        """Own exactly these queues of a topic."""

    @abstractmethod
    def _shared_topics(self) -> list[str]:
        """The topics whose queues are shared with the other members."""

    async def _rebalanced(self, unsettled: list[str]) -> None:
        """Called after each rebalance, with the topics that must be repeated."""

    async def keep_rebalancing(self) -> None:
        """Rebalance now, on changes and at intervals, until cancelled."""
        forget_routes = self._session.routes.on_change(self._route_changed)
        try:
            while True:
                unsettled = topics = self._shared_topics()
                try:
                    unsettled = await self._rebalance.run(topics)
                except Exception:  # raised by an allocation strategy, for example
                    log.exception("rebalance of group %s failed, trying again", self.group)
                await self._rebalanced(unsettled)
                if unsettled:
                    self._trigger.fire_later()
                else:
                    self._trigger.reset_delay()
                await self._trigger.wait()
        finally:
            self._trigger.close()
            forget_routes()

    async def _introduce(self, subscriptions: Subscriptions) -> None:
        await asyncio.gather(
            *(introduce(self._session, self.group, each) for each in subscriptions)
        )

    async def _leave_group(self) -> None:
        if self._session.members.consumers.get(self.group) is self:  # else it never joined
            await self._session.leave_consumer(self)

    def _route_changed(self, route: ClientRoute) -> None:
        if self.subscriptions.of(route.topic) is not None:
            self.rebalance_soon()
