"""Who consumes which queue: computed by each member for itself, from what the brokers know.

The members of a group agree without talking to each other, as all of them ask for the same lists
and give them to the same strategy. While the lists differ, a queue may have two owners or none for
a moment: that is at-least-once's price, and orderly consumers lock their queues for it.
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
from cometmq.client.session.session import Session
from cometmq.errors import NoRoute, PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.heartbeat import ConsumerIds, MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.client import ConsumerGroupHeader
from cometmq.protocol.java.fastjson import loads

log = logging.getLogger(__name__)

REBALANCE_MS = 20_000  # at the latest, each member looks again

# Given the topic, and those of its queues that are ours from now on.
Settle = Callable[[str, Sequence[MessageQueue]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Of one member."""

    session: Session
    group: str
    model: MessageModel
    allocation: Allocation
    settle: Settle

    async def run(self, topics: Iterable[str]) -> list[str]:
        """Settle each topic; those are returned that could not be, and stay as they are."""
        unsettled = []
        for topic in list(topics):
            try:
                if await self._run(topic):
                    continue
            except NoRoute as error:
                log.info("%s", error)  # a topic may come later
            except (PeerError, WorldError) as error:
                log.warning("queues of %s stay as they are: %s", topic, error)
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
            # A broker that is new, or has lost our connection, waits for our next heartbeat.
            await self.session.heart.beat()
            members = clients_in_order(await self._member_ids(topic))
        if not members:
            log.info("no broker knows group %s of topic %s yet", self.group, topic)
            return False
        shared = self.allocation.allocate(client_id, queues, members) if queues else []
        await self.settle(topic, self._there(topic, shared, queues))
        return client_id in members

    def _there(self, topic: str, shared: Queues, queues: Queues) -> list[MessageQueue]:
        """Queues that somebody chose by hand are given for each topic: they may be of another.

        They are named without the namespace, and may be none.
        """
        wired = map(Namespace(self.session.config.namespace).wire_queue, shared)
        mine = [queue for queue in wired if queue.topic == topic]
        known = set(queues)
        for queue in mine:
            if queue not in known:
                log.warning("%s was chosen for group %s, and is not there", queue, self.group)
        return [queue for queue in mine if queue in known]

    async def _member_ids(self, topic: str) -> list[str]:
        """As a broker of the topic knows them; any will do, as clients beat to all."""
        failure: Exception = NoRoute(f"no broker of topic {topic} is known")
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
