"""Concurrent consumption: any free worker takes the next messages of any queue.

Queues are served in turn, so that a full queue does not starve the others. Messages that a listener
fails are sent back to the broker for redelivery; while no broker accepts them, they are retried in
this process.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from cometmq.client.consumer.push.consumption import Consumption, ConsumptionParts
from cometmq.client.consumer.push.listener import ListenerCall
from cometmq.client.consumer.push.owned_queue import OwnedQueue, OwnedState
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.shared.outcomes import Ack, Outcome, Retry
from cometmq.client.consumer.shared.send_back import SendBack
from cometmq.client.message import ReceivedMessage

log = logging.getLogger(__name__)

TRY_AGAIN_MS = 5_000  # until a message that no broker accepted back is retried here
_EXPIRED_LEVEL = 3  # delay level of a message whose listener call timed out


class Concurrent(Consumption):
    """See the top of the file."""

    def __init__(self, parts: ConsumptionParts) -> None:
        super().__init__(parts)
        self._out: set[ListenerCall] = set()  # given to workers, neither finished nor expired
        self._returning: set[asyncio.Task[None]] = set()

    async def wait_until_still(self, owned: OwnedQueue) -> None:
        """Return immediately: results of calls that still run are ignored after the release."""

    async def drain(self, *, begun_only: bool) -> None:
        """Also wait until failed messages are sent back."""
        await super().drain(begun_only=begun_only)
        if self._returning:
            await asyncio.wait(self._returning)

    def give_up_expired(self, limit_ms: int) -> None:
        """Send back messages whose call takes longer: they block the commit of later messages."""
        begun_before_ms = self._clock.monotonic_ms() - limit_ms
        expired = [
            call
            for call in self._out
            if call.started_ms is not None and call.started_ms < begun_before_ms
        ]
        self._out.difference_update(expired)
        for call in expired:
            log.error(
                "%s has been processing %s for more than %d ms: sending it back",
                "a function" if call.handler is None else call.handler.name,
                call.messages[0],
                limit_ms,
            )
            if call.owned is not None and call.process is call.owned.process:
                self._later(call.owned, call.messages, _EXPIRED_LEVEL)

    def _redelivery(self, message: ReceivedMessage) -> str:
        if self._send_back is None:
            return "skipped, because broadcasting consumers do not retry"
        return self._send_back.redelivery(message)

    def _fill(self) -> None:
        workers = self._workers
        while workers.has_room and (owned := self._next_in_line()) is not None:
            call = self._take(owned)
            if call is None:
                continue
            owned.become(OwnedState.READY)
            self._line.append(owned)
            self._out.add(call)
            workers.give(call)

    def _finished(self, calls: list[ListenerCall]) -> None:
        self._out.difference_update(calls)
        # Quick calls finish in groups: the offset of a queue is advanced once for all its calls.
        done: dict[OwnedQueue, list[int]] = {}
        for call in calls:
            owned, messages = call.owned, call.messages
            assert owned is not None, "only consume_directly has calls without a queue"
            outcome = self._outcome(call)
            if call.process is not owned.process or owned.process.is_dropped:
                continue  # the queue was released or restarted meanwhile
            good, delay_level = _split(outcome, len(messages))
            failed = len(messages) - good
            self._stats.consumed(owned.queue.topic, len(messages), failed, call.took_ms)
            offsets = done.setdefault(owned, [])
            offsets += [message.queue_offset for message in messages[:good]]
            if failed:
                self._later(owned, messages[good:], delay_level)
        now_ms = self._clock.wall_ms()
        for owned, offsets in done.items():
            owned.consumed_ms = now_ms
            self._done(owned, offsets)
        if not self._is_draining:
            self._fill()

    def _done(self, owned: OwnedQueue, offsets: Iterable[int]) -> None:
        offset = owned.process.done(offsets)
        if offset is not None:
            self._offsets.advance(owned.queue, offset, only_up=True)
        owned.made_room()

    def _later(
        self, owned: OwnedQueue, messages: Sequence[ReceivedMessage], delay_level: int
    ) -> None:
        mine = [each for each in messages if owned.process.is_taken(each.queue_offset)]
        if not mine:
            return  # they were sent back before, when the call expired
        if self._send_back is None:
            log.error(
                "%d failed messages are skipped, because broadcasting consumers do not retry;"
                " the first is %s",
                len(mine),
                mine[0],
            )
            self._done(owned, [each.queue_offset for each in mine])
            return
        work = self._return(owned, owned.process, mine, delay_level, self._send_back)
        task = self._background.start(work, "sending failed messages back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(
        self,
        owned: OwnedQueue,
        process: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        delay_level: int,
        send_back: SendBack,
    ) -> None:
        refused = []
        for message in messages:
            is_accepted = await send_back.send(message, delay_level)
            if owned.process is not process:
                return  # the queue was restarted
            if is_accepted:
                self._done(owned, [message.queue_offset])
            else:
                refused.append(message)
        if refused:
            self._clock.call_later(TRY_AGAIN_MS, lambda: self._try_again(owned, process, refused))

    def _try_again(
        self, owned: OwnedQueue, process: ProcessQueue, messages: Sequence[ReceivedMessage]
    ) -> None:
        if self._is_draining or process.is_dropped:
            return
        for message in messages:
            message.failures_here += 1
        process.give_back(message.queue_offset for message in messages)
        self.deliver(owned)


def _split(outcome: Outcome, count: int) -> tuple[int, int]:
    """How many of the first messages are consumed, and the delay level of the others."""
    if isinstance(outcome, Retry):
        return 0, outcome.delay_level
    assert isinstance(outcome, Ack), "ListenerCall.outcome maps all others to Retry"
    done = count if outcome.count is None else min(outcome.count, count)
    return done, outcome.delay_level
