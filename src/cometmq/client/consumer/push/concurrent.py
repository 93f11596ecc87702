"""Consumption side by side: any free worker takes the next messages of any queue.

Queues stand in line and are served in turn, so that a full one starves no other. What a listener
fails is sent back to the broker; while no broker takes it, it is tried again here.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from cometmq.client.consumer.push.consumption import Consumption
from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.push.send_back import SendBack
from cometmq.client.consumer.push.workplace import Workplace
from cometmq.client.consumer.shared.outcomes import Ack, Outcome, Retry
from cometmq.client.message import ReceivedMessage

log = logging.getLogger(__name__)

TRY_AGAIN_MS = 5_000  # here, when no broker takes a message back
_EXPIRED_LEVEL = 3  # the delay of a message whose listener did not come back


class Concurrent(Consumption):
    """See the top of the file."""

    def __init__(self, at: Workplace) -> None:
        super().__init__(at)
        self._out: set[ListenerCall] = set()  # given to workers, and neither finished nor given up
        self._returning: set[asyncio.Task[None]] = set()

    def deliver(self, held: OwnedQueue) -> None:
        """Messages wait in this queue."""
        if not held.is_in_line:
            held.is_in_line = True
            self._line.append(held)
        self._fill()

    async def wait_until_still(self, held: OwnedQueue) -> None:
        """A queue that is given up need not wait: what is out counts no more."""

    async def drain(self, *, begun_only: bool) -> None:
        """Return when all that was pulled is done, or only what a listener has by now."""
        await super().drain(begun_only=begun_only)
        if self._returning:
            await asyncio.wait(self._returning)

    def give_up_expired(self, limit_ms: int) -> None:
        """Send back what a listener has had for longer: it holds up the commit of all behind it."""
        begun_before_ms = self._clock.monotonic_ms() - limit_ms
        expired = [
            call
            for call in self._out
            if call.started_ms is not None and call.started_ms < begun_before_ms
        ]
        self._out.difference_update(expired)
        for call in expired:
            log.error("a listener has had %s for over %d ms", call.messages[0], limit_ms)
            if call.held is not None and call.process is call.held.process:
                self._later(call.held, call.messages, _EXPIRED_LEVEL)

    def _fill(self) -> None:
        line, workers, batch_max = self._line, self._workers, self._listener.batch_max
        while line and workers.has_room:
            held = line.popleft()
            messages = held.process.take(batch_max)
            if not messages:
                held.is_in_line = False
                continue
            line.append(held)
            call = ListenerCall(held, held.process, messages)
            self._out.add(call)
            self._hooks.before(call)
            workers.give(call)

    def _finished(self, calls: list[ListenerCall]) -> None:
        self._out.difference_update(calls)
        # Quick listeners come back in groups: a queue is advanced once for all calls of its own.
        done: dict[OwnedQueue, list[int]] = {}
        for call in calls:
            held, messages = call.held, call.messages
            assert held is not None, "a call of a queue"
            outcome = call.outcome(orderly=False)
            self._hooks.after(call, outcome)
            if call.process is not held.process or held.process.is_dropped:
                continue  # the queue is another's by now, or begins anew
            good, delay_level = _split(outcome, len(messages))
            failed = len(messages) - good
            self._stats.consumed(held.queue.topic, len(messages), failed, call.took_ms)
            offsets = done.setdefault(held, [])
            offsets += [message.queue_offset for message in messages[:good]]
            if failed:
                self._later(held, messages[good:], delay_level)
        now_ms = self._clock.wall_ms()
        for held, offsets in done.items():
            held.consumed_ms = now_ms
            self._done(held, offsets)
        if not self._is_draining:
            self._fill()

    def _done(self, held: OwnedQueue, offsets: Iterable[int]) -> None:
        offset = held.process.done(offsets)
        if offset is not None:
            self._offsets.advance(held.queue, offset, only_up=True)
        held.made_room()

    def _later(
        self, held: OwnedQueue, messages: Sequence[ReceivedMessage], delay_level: int
    ) -> None:
        mine = [each for each in messages if held.process.is_taken(each.queue_offset)]
        if not mine:
            return  # they were given up before
        if self._send_back is None:
            log.error("%d messages are passed over, the first is %s", len(mine), mine[0])
            self._done(held, [each.queue_offset for each in mine])
            return
        work = self._return(held, held.process, mine, delay_level, self._send_back)
        task = self._background.start(work, "sending back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(
        self,
        held: OwnedQueue,
        process: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        delay_level: int,
        send_back: SendBack,
    ) -> None:
        kept = []
        for message in messages:
            is_taken = await send_back.send(message, delay_level)
            if held.process is not process:
                return  # it begins anew
            if is_taken:
                self._done(held, [message.queue_offset])
            else:
                kept.append(message)
        if kept:
            self._clock.call_later(TRY_AGAIN_MS, lambda: self._try_again(held, process, kept))

    def _try_again(
        self, held: OwnedQueue, process: ProcessQueue, messages: Sequence[ReceivedMessage]
    ) -> None:
        if self._is_draining or process.is_dropped:
            return
        for message in messages:
            message.failures_here += 1
        process.give_back(message.queue_offset for message in messages)
        self.deliver(held)


def _split(outcome: Outcome, count: int) -> tuple[int, int]:
    """How many of the first are consumed, and the delay level for the others."""
    if isinstance(outcome, Retry):
        return 0, outcome.delay_level
    assert isinstance(outcome, Ack), "what a listener of side by side messages may say"
    done = count if outcome.count is None else min(outcome.count, count)
    return done, outcome.delay_level
