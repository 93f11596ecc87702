"""Sends: one try at one broker, several tries, and sends that nobody awaits.

A send that may go to any queue is tried again at another broker. To a chosen queue, one that is
awaited is tried once, and one that nobody awaits again at that queue, as in Java. Each has one
deadline for all its tries. What a broker has taken and not answered in time may be stored: then
the failure says so, whatever a later try came to.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cometmq.client.config import ProducerConfig
from cometmq.client.message import SendResult, SendStatus
from cometmq.client.send.destinations import Destination
from cometmq.client.send.outgoing import Packing
from cometmq.client.send.pending_send import Letter
from cometmq.client.send.selectors import FaultTable
from cometmq.client.send.send_hooks import SendContext, SendHooks
from cometmq.client.send.write_batcher import Burst, Outcome, result_of, timed_out
from cometmq.client.session.session import Session
from cometmq.errors import NoRoute, Refused, TimedOut, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.command import Command
from cometmq.remoting.channel import Channel

_UNCERTAIN = (Unreachable, TimedOut)  # after which a broker may have the message, or not


@dataclass(frozen=True, slots=True)
class Sending:
    """The tries of one producer's sends."""

    session: Session
    config: ProducerConfig
    group: str
    hooks: SendHooks
    faults: FaultTable | None  # if slow brokers are left out
    packing: Packing

    # Several tries

    async def elsewhere(
        self, letter: Letter, queue: MessageQueue | None = None, outcome: Outcome | None = None
    ) -> SendResult:
        """Try one queue after another, of another broker each time if there is one.

        The first try may be over: then that was its queue, and its outcome.
        """
        config = self.config
        queues = letter.destination.queues
        avoid: str | None = None
        unsafe: SendResult | None = None
        failures: list[Exception] = []
        for tries_left in range(config.retries, -1, -1):
            if queue is None or outcome is None:
                queue = queues.next(avoid=avoid, faults=self.faults)
                outcome = await self._outcome(letter, queue)
            if isinstance(outcome, Exception):
                failures.append(outcome)
                if not self._may_retry(outcome) or not self._has_time(letter):
                    break
            else:
                if self.is_good(outcome) or not self._has_time(letter) or not tries_left:
                    return outcome
                unsafe = outcome
            avoid, outcome = queue.broker_name, None
        if unsafe is not None:
            return unsafe  # a broker has it, if not as safe as wished
        raise _told_of(failures)

    async def there(
        self, letter: Letter, queue: MessageQueue, before: Sequence[Exception] = ()
    ) -> SendResult:
        """Try again if no answer comes: at this queue, or at any if it is nobody's choice.

        `before` are the failures of the tries that it has behind it, at this queue.
        """
        failures = [*before]
        for _ in range(len(failures), self.config.async_retries + 1):
            if failures and letter.is_free:
                queue = letter.destination.queues.next(avoid=queue.broker_name, faults=self.faults)
            try:
                return await self.once(letter, queue)
            except Exception as error:  # noqa: BLE001 - one before may be what is told
                failures.append(error)
                if not isinstance(error, _UNCERTAIN) or not self._has_time(letter):
                    break
        raise _told_of(failures)

    def is_good(self, result: SendResult) -> bool:
        """It is as safe as is wished."""
        return (
            result.status is SendStatus.OK or not self.config.retry_another_broker_when_not_stored
        )

    async def _outcome(self, letter: Letter, queue: MessageQueue) -> SendResult | Exception:
        try:
            return await self.once(letter, queue)
        except Exception as error:  # noqa: BLE001 - one before may be what is told
            return error

    def _may_retry(self, error: Exception) -> bool:
        if isinstance(error, Refused):
            return error.code in self.config.retry_response_codes
        return isinstance(error, Unreachable | TimedOut | NoRoute)

    def _has_time(self, letter: Letter) -> bool:
        return self.session.clock.monotonic_ms() < letter.deadline_ms

    # One try

    def once(self, letter: Letter, queue: MessageQueue) -> Coroutine[Any, Any, SendResult]:
        """At one queue. Unreachable, TimedOut, TooManyRequests, NoRoute or Refused if it fails."""
        if self.is_observed:
            return self._observed(letter, queue)
        return self._asked(letter, queue)

    @property
    def is_observed(self) -> bool:
        """Somebody wants to see each try."""
        return self.faults is not None or self.hooks.are_there

    @property
    def has_bursts(self) -> bool:
        """Nobody does, nor are requests signed, each by itself."""
        return (
            self.faults is None and not self.hooks.are_there and not self.session.config.access_key
        )

    def burst_to(self, destination: Destination, broker: str) -> Burst:
        """For sends that begin together."""
        session = self.session
        ready = partial(self._ready, destination, broker)
        return Burst(
            destination.single, self.packing, session.clock, ready, session.background.start
        )

    async def oneway(self, letter: Letter, queue: MessageQueue) -> None:
        """Written, and that is all that is known."""
        context = self._context(letter, queue)
        context.is_oneway = True
        self.hooks.before(context)
        channel = await self._ready(letter.destination, queue.broker_name, letter.deadline_ms)
        template, sent = letter.template, letter.sent
        if channel.is_hooked:
            header = template.header(queue.queue_id, sent)
            left_ms = self._left_ms(letter.deadline_ms)
            await channel.send_oneway(template.code, header, sent.body, timeout_ms=left_ms)
        else:
            opaque = channel.next_opaque()
            channel.tell(template.frame(opaque, queue.queue_id, sent, oneway=True))
        self.hooks.after(context)

    async def _asked(self, letter: Letter, queue: MessageQueue) -> SendResult:
        channel = await self._ready(letter.destination, queue.broker_name, letter.deadline_ms)
        if channel.is_hooked:
            return await self._invoked(channel, letter, queue)
        answer: asyncio.Future[Command] = asyncio.Future()  # in C; `create_future` is not
        opaque = channel.next_opaque()
        frame = letter.template.frame(opaque, queue.queue_id, letter.sent)
        channel.ask(opaque, frame, answer, letter.deadline_ms)
        try:
            return result_of(await answer, letter.sent, queue)
        except TimedOut:
            raise timed_out(queue) from None
        except asyncio.CancelledError:
            channel.forget(opaque)
            raise

    async def _invoked(self, channel: Channel, letter: Letter, queue: MessageQueue) -> SendResult:
        """The general way, for connections whose requests are signed."""
        template, sent = letter.template, letter.sent
        header = template.header(queue.queue_id, sent)
        left_ms = self._left_ms(letter.deadline_ms)
        try:
            response = await channel.invoke(template.code, header, sent.body, timeout_ms=left_ms)
        except TimedOut:
            raise timed_out(queue) from None
        return result_of(response, sent, queue)

    async def _observed(self, letter: Letter, queue: MessageQueue) -> SendResult:
        """As `_asked`, seen by hooks and the fault table."""
        clock = self.session.clock
        context = self._context(letter, queue)
        self.hooks.before(context)
        begun_ms = clock.monotonic_ms()
        try:
            context.result = await self._asked(letter, queue)
        except Exception as error:
            context.error = error
            raise
        finally:
            context.took_ms = clock.monotonic_ms() - begun_ms
            if self.faults is not None and (context.result or context.error):
                failed = context.error is not None
                self.faults.observe(queue.broker_name, context.took_ms, failed=failed)
            self.hooks.after(context)
        return context.result

    async def _ready(self, destination: Destination, broker: str, deadline_ms: int) -> Channel:
        """A connection to a broker that takes a request now; the next one, if it breaks."""
        channel = destination.channels.get(broker)
        while channel is None or not channel.is_ready:
            address = self.session.master_of(broker)
            channel = await self.session.pool.connection(address, self._left_ms(deadline_ms))
            destination.channels[broker] = channel
            try:
                await channel.until_ready(deadline_ms)
                break
            except Unreachable:
                channel = None  # nobody has what we would have asked it
        return channel

    def _left_ms(self, deadline_ms: int) -> int:
        left_ms = deadline_ms - self.session.clock.monotonic_ms()
        if left_ms <= 0:
            raise TimedOut("the time for this send is over: give it a longer timeout")
        return left_ms

    def _context(self, letter: Letter, queue: MessageQueue) -> SendContext:
        address = self.session.master_of(queue.broker_name)
        sent = letter.sent
        return SendContext(
            self.group,
            letter.messages,
            sent.message_id,
            queue,
            address,
            sent.born_ms,
            sent.sys_flag,
        )


def _told_of(failures: list[Exception]) -> Exception:
    """The last failure after which the message may be stored, else the last; with all others."""
    told = ([each for each in failures if isinstance(each, _UNCERTAIN)] or failures)[-1]
    if len(failures) > 1:
        told.add_note(f"tried {len(failures)} times: " + "; then ".join(map(str, failures)))
    return told
