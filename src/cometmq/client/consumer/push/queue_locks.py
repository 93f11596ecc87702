"""The locks of an orderly consumer on its queues. Brokers grant them for a limited time."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.client.consumer.push.owned_queue import LockTime
from cometmq.client.session.connections import failure_level
from cometmq.client.session.session import Session
from cometmq.errors import PeerError, WorldError
from cometmq.protocol.bodies.queues import LockedQueues, LockQueues, MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import dumps, loads

log = logging.getLogger(__name__)

LOCK_MS_MAX = 30_000  # an older lock is not trusted; the broker releases it after 60 s
RENEW_MS = 20_000
_TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Locked:
    """The answers to a lock request. Queues of brokers that did not answer are in neither set."""

    ours: frozenset[MessageQueue]
    not_ours: frozenset[MessageQueue]
    asked: LockTime


@dataclass(frozen=True, slots=True)
class QueueLocks:
    """Locks queues for one member. Locking a queue again renews the lock."""

    session: Session
    group: str

    async def lock(self, queues: Iterable[MessageQueue]) -> Locked:
        """Request locks from the masters of these queues. A broker without an answer is logged."""
        asked = _by_broker(queues)
        clock = self.session.clock
        time = LockTime(clock.monotonic_ms(), clock.wall_ms())
        answers = await asyncio.gather(*(self._lock(*each) for each in asked.items()))
        ours = [queue for answer in answers if answer is not None for queue in answer]
        answered = [
            queue
            for chosen, answer in zip(asked.values(), answers, strict=True)
            if answer is not None
            for queue in chosen
        ]
        return Locked(frozenset(ours), frozenset(answered) - frozenset(ours), time)

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release the locks. A broker that cannot be reached releases them after a minute."""
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
            log.log(
                failure_level(error),
                "broker %s did not lock %d queues: %s",
                broker_name,
                len(queues),
                error,
            )
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
            log.debug("broker %s did not unlock our queues, which expire: %s", broker_name, error)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return dumps(
            LockQueues(client_id=self.session.client_id, consumer_group=self.group, mq_set=queues)
        )


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
