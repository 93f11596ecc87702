"""Queue locks of orderly consumers."""

import logging
from dataclasses import dataclass

from cometmq.broker.tables.queue_locks import QueueLockTable
from cometmq.broker.tables.topics import TopicTable
from cometmq.protocol.bodies.queues import LockedQueues, LockQueues, MessageQueue
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.names import check_group
from cometmq.remoting.dispatch import Call, Outcome, Reply
from cometmq.seams import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockHandlers:
    """Lock and unlock requests of orderly consumers."""

    topics: TopicTable
    locks: QueueLockTable
    clock: Clock

    def lock(self, call: Call, ask: NoHeader) -> Outcome:
        """LOCK_BATCH_MQ. A change of holder is on disk before the answer (queue_locks.py)."""
        wanted = self._read(call)
        now_ms = self.clock.monotonic_ms()
        # One queue that is gone must not cost the client the others.
        there = [queue for queue in wanted.mq_set if self._is_there(queue)]
        held = self.locks.lock(wanted.consumer_group, there, wanted.client_id, now_ms)
        reply = Reply(body=dumps(LockedQueues(locked=held)))
        return reply if self.locks.file.is_saved else self._saved(reply)

    def unlock(self, call: Call, ask: NoHeader) -> Reply:
        wanted = self._read(call)
        self.locks.unlock(wanted.consumer_group, wanted.mq_set, wanted.client_id)
        return Reply()

    async def _saved(self, reply: Reply) -> Reply:
        try:
            await self.locks.file.save()
        except OSError as error:
            # Consumption goes on: refusing the lock would stop the group on a full disk.
            log.error(
                "%s cannot be written: %s. If the broker is killed now, two members of an"
                " orderly group may consume one queue after its restart",
                self.locks.path,
                error,
            )
        return reply

    def _read(self, call: Call) -> LockQueues:
        wanted = loads(call.command.body, LockQueues)
        check_group(wanted.consumer_group)
        return wanted

    def _is_there(self, queue: MessageQueue) -> bool:
        topic = self.topics.get(queue.topic)
        return topic is not None and 0 <= queue.queue_id < topic.read_queue_nums
