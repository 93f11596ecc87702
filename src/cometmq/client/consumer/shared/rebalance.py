"""Rebalance: each member computes for itself which queues it owns.

The members of a group agree without talking to each other, because all of them fetch the same lists
from the brokers and use the same strategy. While the lists differ, a queue may have two owners or
none for a moment. Delivery is at least once for this reason, and orderly consumers lock queues.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from cometmq.client.consumer.shared.allocate import (
    Allocation,
    Queues,
    clients_in_order,
    queues_in_order,
)
from cometmq.client.namespace import Namespace
from cometmq.client.session.connections import failure_level
from cometmq.client.session.session import Session
from cometmq.errors import NoRoute, PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.heartbeat import ConsumerIds, MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.client import ConsumerGroupHeader
from cometmq.protocol.java.fastjson import loads

log = logging.getLogger(__name__)

REBALANCE_MS = 20_000  # the interval, if nothing changes

# Called with a topic and the queues of it that this member owns from now on.
Settle = Callable[[str, Sequence[MessageQueue]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The rebalance of one member."""

    session: Session
    group: str
    model: MessageModel
    allocation: Allocation
    settle: Settle

    async def run(self, topics: Iterable[str]) -> list[str]:
        """Rebalance each topic; return those that failed and keep their queues."""
        unsettled = []
        for topic in list(topics):
            try:
                if await self._run(topic):
                    continue
            except NoRoute as error:
                log.debug("%s", error)  # the topic may be created later
            except (PeerError, WorldError) as error:
                level = failure_level(error)
                log.log(level, "cannot rebalance topic %s, keeping its queues: %s", topic, error)
            unsettled.append(topic)
        return unsettled

    async def _run(self, topic: str) -> bool:
        route = await self.session.routes.of(topic)
        queues = queues_in_order(route.to_read)
        if self.model is MessageModel.BROADCASTING:
            await self.settle(topic, queues)
            return True
        client_id = self.session.client_id
        members = clients_in_order(await self._member_ids(topic))
        if client_id not in members:
            # A new broker, or one that lost our connection, needs a heartbeat.
            await self.session.heart.beat()
            members = clients_in_order(await self._member_ids(topic))
        if not members:
            log.debug("no broker knows group %s of topic %s yet", self.group, topic)
            return False
        shared = self.allocation.allocate(client_id, queues, members) if queues else []
        await self.settle(topic, self._there(topic, shared, queues))
        return client_id in members

    def _there(self, topic: str, shared: Queues, queues: Queues) -> list[MessageQueue]:
        """The allocated queues of this topic that exist, named as on the wire.

        `ByConfig` returns queues of all topics, named by the user.
        """
        wired = map(Namespace(self.session.config.namespace).wire_queue, shared)
        mine = [queue for queue in wired if queue.topic == topic]
        known = set(queues)
        for queue in mine:
            if queue not in known:
                log.warning("%s is allocated to group %s, but does not exist", queue, self.group)
        return [queue for queue in mine if queue in known]

    async def _member_ids(self, topic: str) -> list[str]:
        """The members, from any broker of the topic: clients send heartbeats to all of them."""
        failure: Exception = NoRoute(f"topic {topic} has no broker")
        for broker_name in (await self.session.routes.of(topic)).brokers:
            address = self.session.routes.any_address_of(broker_name)
            if address is None:
                continue
            try:
                response = await self.session.ask(
                    address,
                    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
                    ConsumerGroupHeader(consumer_group=self.group),
                )
                return loads(response.body, ConsumerIds).consumer_id_list
            except (PeerError, WorldError) as error:
                failure = error
        if isinstance(failure, Unreachable):
            await self.session.routes.fetch(topic)
        raise failure
