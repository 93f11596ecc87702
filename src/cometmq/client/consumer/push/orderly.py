"""Orderly consumption: one call per queue at a time, and only while we hold the broker's lock.

After each call a queue waits for a worker again, so that a long queue does not starve the others. A
failure suspends its queue; then the same messages are redelivered. A message that has failed too
often is sent to the dead letter topic.
"""

import asyncio
import logging
from collections.abc import Sequence

from cometmq.client.consumer.push.consumption import Consumption, ConsumptionParts
from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue, OwnedState
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.push.queue_locks import LOCK_MS_MAX
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Outcome, Rollback, Suspend
from cometmq.client.consumer.shared.send_back import TIMES_MAX, reconsume_max
from cometmq.client.durations import duration_ms
from cometmq.client.message import ReceivedMessage
from cometmq.errors import Malformed

log = logging.getLogger(__name__)


class Orderly(Consumption):
    """See the top of the file."""

    def __init__(self, parts: ConsumptionParts) -> None:
        super().__init__(parts)
        self._needs_lock = parts.send_back is not None  # broadcasting members share no queues
        self._reconsume_max = reconsume_max(parts.config, orderly=True)
        self._suspend_ms = duration_ms(parts.config.suspend_current_queue_time)
        self._still = asyncio.Event()  # set whenever a call has ended

    async def wait_until_still(self, owned: OwnedQueue) -> None:
        """Return when no listener call has messages of this queue."""
        while owned.is_running:
            self._still.clear()
            await self._still.wait()

    def _is_locked(self, owned: OwnedQueue) -> bool:
        if not self._needs_lock:
            return True
        lock = owned.lock
        return lock is not None and self._clock.monotonic_ms() - lock.monotonic_ms < LOCK_MS_MAX

    def _redelivery(self, message: ReceivedMessage) -> str:
        if _times(message) >= self._reconsume_max:
            return "it failed too often and becomes a dead letter"
        return f"its queue waits {self._suspend_ms} ms, then it is redelivered"

    def _fill(self) -> None:
        workers = self._workers
        while workers.has_room and not self._is_draining:
            owned = self._next_in_line()
            if owned is None:
                return
            if not self._is_locked(owned):
                continue  # delivered again when the lock is renewed
            call = self._take(owned)
            if call is not None:
                owned.become(OwnedState.RUNNING)
                workers.give(call)

    def _finished(self, calls: list[ListenerCall]) -> None:
        for call in calls:
            owned = call.owned
            assert owned is not None, "only consume_directly has calls without a queue"
            self._settle(owned, call)

    def _settle(self, owned: OwnedQueue, call: ListenerCall) -> None:
        assert owned.is_running, "one call per queue at a time"
        outcome = self._outcome(call)
        owned.consumed_ms = self._clock.wall_ms()
        process, messages = call.process, call.messages
        if process.is_dropped:  # the queue was lost or restarted meanwhile
            self._end(owned)
            return
        good = self._good(outcome, len(messages))
        self._stats.consumed(owned.queue.topic, len(messages), len(messages) - good, call.took_ms)
        if isinstance(outcome, Rollback) and self._listener.commits_itself:
            process.rollback()
            self._end(owned, self._suspend_ms)
        else:
            self._commit(owned, process, outcome, messages[:good])
            if good == len(messages):
                self._end(owned)
            else:
                suspend_ms = outcome.ms if isinstance(outcome, Suspend) else None
                self._fail(owned, process, messages[good:], suspend_ms or self._suspend_ms)

    def _good(self, outcome: Outcome, count: int) -> int:
        """How many of the first messages are consumed."""
        if isinstance(outcome, Commit):
            return count
        if isinstance(outcome, Ack):
            return count if outcome.count is None else min(outcome.count, count)
        return 0

    def _commit(
        self,
        owned: OwnedQueue,
        process: ProcessQueue,
        outcome: Outcome,
        messages: Sequence[ReceivedMessage],
    ) -> None:
        if isinstance(outcome, Commit):
            self._advance(owned, process.commit())
        elif messages and not self._listener.commits_itself:
            self._advance(owned, process.done([each.queue_offset for each in messages]))

    def _advance(self, owned: OwnedQueue, offset: int | None) -> None:
        if offset is not None:
            self._offsets.advance(owned.queue, offset)
        owned.made_room()

    def _fail(
        self,
        owned: OwnedQueue,
        process: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        suspend_ms: int,
    ) -> None:
        over = [each for each in messages if _times(each) >= self._reconsume_max]
        for message in messages:
            message.failures_here += message not in over
        if over:
            work = self._bury(owned, process, messages, over, suspend_ms)
            self._background.start(work, "sending dead letters")
        else:
            process.give_back([each.queue_offset for each in messages])
            self._end(owned, suspend_ms)

    async def _bury(
        self,
        owned: OwnedQueue,
        process: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        over: Sequence[ReceivedMessage],
        suspend_ms: int,
    ) -> None:
        """Make dead letters of the messages in `over`; redeliver the others."""
        buried = []
        try:
            for message in over:
                if self._send_back is None:
                    log.error("%s failed too often and is skipped", message)
                    buried.append(message.queue_offset)
                elif await self._send_back.bury(message):
                    buried.append(message.queue_offset)
                else:
                    message.failures_here += 1
        finally:
            if buried:
                self._advance(owned, process.done(buried))
            back = [each.queue_offset for each in messages if each.queue_offset not in buried]
            process.give_back(back)
            self._end(owned, suspend_ms if back else 0)

    def _end(self, owned: OwnedQueue, suspend_ms: int = 0) -> None:
        """The call has ended: suspend the queue, or let it wait for a worker again."""
        self._still.set()
        if owned.state is OwnedState.DRAINING:
            owned.become(OwnedState.RELEASING)
        elif suspend_ms:
            owned.become(OwnedState.SUSPENDED)
            owned.resume_timer = self._clock.call_later(suspend_ms, lambda: self._resume(owned))
        else:
            owned.become(OwnedState.IDLE)
        self.deliver(owned)

    def _resume(self, owned: OwnedQueue) -> None:
        owned.become(OwnedState.IDLE)
        self.deliver(owned)


def _times(message: ReceivedMessage) -> int:
    """How often it has failed; `TIMES_MAX` if it is unreadable."""
    try:
        return message.reconsume_times
    except Malformed:
        return TIMES_MAX
