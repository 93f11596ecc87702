"""Consumption in order: one call a queue at a time, and only while the broker's lock is ours.

Queues stand in line for a worker after each call, so that a long one starves no other. A failure
holds up its queue for a moment, then the same messages come again; one that fails too often leaves
it as a dead letter.
"""

import asyncio
import logging
from collections.abc import Sequence

from cometmq.client.consumer.push.consumption import Consumption
from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.push.queue_locks import LOCK_MS_MAX
from cometmq.client.consumer.push.workplace import Workplace
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Outcome, Rollback, Suspend
from cometmq.client.message import ReceivedMessage
from cometmq.errors import Malformed

log = logging.getLogger(__name__)

TIMES_MAX = 2**31 - 1  # an orderly message may fail so often, unless it is set


class Orderly(Consumption):
    """See the top of the file."""

    def __init__(
        self, at: Workplace, *, needs_lock: bool, reconsume_max: int, suspend_ms: int
    ) -> None:
        super().__init__(at)
        self._needs_lock = needs_lock
        self._reconsume_max = reconsume_max
        self._suspend_ms = suspend_ms
        self._still = asyncio.Event()  # set whenever a call has ended

    def deliver(self, held: OwnedQueue) -> None:
        """Messages wait in this queue, or what kept them from running has ended."""
        if not held.is_in_line and not held.is_running and held.process.waiting:
            held.is_in_line = True
            self._line.append(held)
        self._fill()

    async def wait_until_still(self, held: OwnedQueue) -> None:
        """Return when no listener has messages of this queue."""
        while held.is_running:
            self._still.clear()
            await self._still.wait()

    def _may_run(self, held: OwnedQueue) -> bool:
        now_ms = self._clock.monotonic_ms()
        if held.is_leaving or now_ms < held.suspended_until_ms:
            return False
        if not self._needs_lock:
            return True
        return held.locked_ms is not None and now_ms - held.locked_ms < LOCK_MS_MAX

    def _fill(self) -> None:
        line, workers = self._line, self._workers
        while line and workers.has_room and not self._is_draining:
            held = line.popleft()
            held.is_in_line = False
            if not self._may_run(held):
                continue  # it is delivered again when it may
            messages = held.process.take(self._listener.batch_max)
            if messages:
                held.is_running = True
                call = ListenerCall(held, held.process, messages)
                self._hooks.before(call)
                workers.give(call)

    def _finished(self, calls: list[ListenerCall]) -> None:
        for call in calls:
            held = call.held
            assert held is not None, "a call of a queue"
            self._settle(held, call)

    def _settle(self, held: OwnedQueue, call: ListenerCall) -> None:
        outcome = call.outcome(orderly=True)
        self._hooks.after(call, outcome)
        held.consumed_ms = self._clock.wall_ms()
        process, messages = call.process, call.messages
        if process.is_dropped:  # it begins anew, or is another's
            self._end(held)
            return
        good = self._good(outcome, len(messages))
        self._stats.consumed(held.queue.topic, len(messages), len(messages) - good, call.took_ms)
        if isinstance(outcome, Rollback) and self._listener.commits_itself:
            process.rollback()
            self._suspend(held, self._suspend_ms)
        else:
            self._commit(held, process, outcome, messages[:good])
            if good == len(messages):
                self._end(held)
            else:
                suspend_ms = outcome.ms if isinstance(outcome, Suspend) else None
                self._fail(held, process, messages[good:], suspend_ms or self._suspend_ms)

    def _good(self, outcome: Outcome, count: int) -> int:
        """How many of the first are consumed."""
        if isinstance(outcome, Commit):
            return count
        if isinstance(outcome, Ack):
            return count if outcome.count is None else min(outcome.count, count)
        return 0

    def _commit(
        self,
        held: OwnedQueue,
        process: ProcessQueue,
        outcome: Outcome,
        messages: Sequence[ReceivedMessage],
    ) -> None:
        if isinstance(outcome, Commit):
            self._advance(held, process.commit())
        elif messages and not self._listener.commits_itself:
            self._advance(held, process.done([each.queue_offset for each in messages]))

    def _advance(self, held: OwnedQueue, offset: int | None) -> None:
        if offset is not None:
            self._offsets.advance(held.queue, offset)
        held.made_room()

    def _fail(
        self,
        held: OwnedQueue,
        process: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        suspend_ms: int,
    ) -> None:
        over = [each for each in messages if _times(each) >= self._reconsume_max]
        for message in messages:
            message.failures_here += message not in over
        if over:
            work = self._bury(held, process, messages, over, suspend_ms)
            self._background.start(work, "dead letters")
        else:
            process.give_back([each.queue_offset for each in messages])
            self._suspend(held, suspend_ms)

    async def _bury(
        self,
        held: OwnedQueue,
        process: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        over: Sequence[ReceivedMessage],
        suspend_ms: int,
    ) -> None:
        """Those that failed too often leave the queue; the others come again."""
        buried = []
        try:
            for message in over:
                if self._send_back is None:
                    log.error("%s failed too often and is passed over", message)
                    buried.append(message.queue_offset)
                elif await self._send_back.bury(message):
                    buried.append(message.queue_offset)
                else:
                    message.failures_here += 1
        finally:
            if buried:
                self._advance(held, process.done(buried))
            back = [each.queue_offset for each in messages if each.queue_offset not in buried]
            process.give_back(back)
            self._suspend(held, suspend_ms if back else 0)

    def _suspend(self, held: OwnedQueue, delay_ms: int) -> None:
        if delay_ms:
            held.suspended_until_ms = self._clock.monotonic_ms() + delay_ms
            self._clock.call_later(delay_ms, lambda: self._resume(held))
        self._end(held)

    def _resume(self, held: OwnedQueue) -> None:
        held.suspended_until_ms = 0
        self.deliver(held)

    def _end(self, held: OwnedQueue) -> None:
        held.is_running = False
        self._still.set()
        self.deliver(held)


def _times(message: ReceivedMessage) -> int:
    """How often it has failed; too often, if it cannot be read."""
    try:
        return message.reconsume_times
    except Malformed:
        return TIMES_MAX
