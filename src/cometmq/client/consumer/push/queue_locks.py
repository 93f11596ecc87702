"""The locks of an orderly consumer on its queues: granted by brokers, for a time."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.client.session.session import Session
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.queues import LockedQueues, LockQueues, MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import dumps, loads

log = logging.getLogger(__name__)

LOCK_MS_MAX = 30_000  # an older one is not trusted; the broker lets go of it after 60 s
RENEW_MS = 20_000
_TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Locked:
    """What brokers said of the queues they were asked for; of the others, they said nothing."""

    ours: frozenset[MessageQueue]
    not_ours: frozenset[MessageQueue]


@dataclass(frozen=True, slots=True)
class QueueLocks:
    """Of one member. To lock a queue again is to keep it longer."""

    session: Session
    group: str

    async def lock(self, queues: Iterable[MessageQueue]) -> Locked:
        """Ask for these, each of its master. A broker that does not answer is logged."""
        asked = _by_broker(queues)
        answers = await asyncio.gather(*(self._lock(*each) for each in asked.items()))
        ours = [queue for answer in answers if answer is not None for queue in answer]
        told = [
            queue
            for chosen, answer in zip(asked.values(), answers, strict=True)
            if answer is not None
            for queue in chosen
        ]
        return Locked(frozenset(ours), frozenset(told) - frozenset(ours))

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Let others have these. A broker that does not answer lets go of them after a minute."""
        asked = _by_broker(queues)
        await asyncio.gather(*(self._unlock(*each) for each in asked.items()))

    async def _lock(
        self, broker_name: str, queues: list[MessageQueue]
    ) -> frozenset[MessageQueue] | None:
        try:
            response = await self.session.ask(
                self.session.master_of(broker_name),
                RequestCode.LOCK_BATCH_MQ,
                None,
                self._body(queues),
                timeout_ms=_TIMEOUT_MS,
            )
            return frozenset(loads(response.body, LockedQueues).locked)
        except (PeerError, WorldError) as error:
            log.warning("broker %s grants no locks: %s", broker_name, error)
            return None

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        try:
            await self.session.ask(
                self.session.master_of(broker_name),
                RequestCode.UNLOCK_BATCH_MQ,
                None,
                self._body(queues),
                timeout_ms=_TIMEOUT_MS,
            )
        except (PeerError, WorldError) as error:
            log.info("broker %s keeps our locks for a while: %s", broker_name, error)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return dumps(
            LockQueues(client_id=self.session.client_id, consumer_group=self.group, mq_set=queues)
        )


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
