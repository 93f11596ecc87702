"""Sends of one message: the first try goes with a burst if it can, the others by themselves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeGuard

from cometmq.client.durations import Timeout, duration_ms
from cometmq.client.message import Message, SendResult
from cometmq.client.send.callback_sends import Callback, Told, ToldTry
from cometmq.client.send.destinations import Destination
from cometmq.client.send.in_flight import UnderWay
from cometmq.client.send.outgoing import LONG
from cometmq.client.send.pending_send import Letter, Letters
from cometmq.client.send.queue_request import QueueRequest
from cometmq.client.send.route_waiters import Lines
from cometmq.client.send.sending import Sending
from cometmq.client.send.write_batcher import AwaitedTry, Outcome, Try
from cometmq.errors import Unreachable


@dataclass(frozen=True, slots=True)
class Singles:
    """Of one producer."""

    sending: Sending
    letters: Letters
    under_way: UnderWay
    timeout_ms: int  # where no other is given
    check_open: Callable[[], None]  # of the producer
    lines: Lines = field(default_factory=Lines)

    # The first try, with others of the same turn

    def quick_way(self, message: Message) -> Destination | None:
        """If it can go with a burst: the topic is known, the body not long, nobody looks at it."""
        if len(message.body) >= LONG or not self.sending.has_bursts:
            return None
        if message.topic in self.lines.by_topic:
            return None
        return self.letters.destinations.get(message.topic)

    def begin(self, one: Try, destination: Destination) -> None:
        """It is under way from now on; whoever is told of it says when it has ended."""
        self.under_way.count += 1
        broker = one.queue.broker_name
        burst = destination.bursts.get(broker)
        if burst is None:
            burst = destination.bursts[broker] = self.sending.burst_to(destination, broker)
        burst.add(one)

    def begin_told(
        self,
        message: Message,
        choice: QueueRequest,
        timeout: Timeout,
        told: Told,
        callback: Callback | None = None,
    ) -> ToldTry | None:
        """As `begin`; None, and nothing happens, if it cannot go with a burst."""
        destination = self.quick_way(message)
        if destination is None:
            return None
        timeout_ms = self.timeout_ms if timeout is None else duration_ms(timeout)
        queue = choice.one_of(destination, message)
        one = ToldTry(
            message, queue, timeout_ms, None, None, 0, 0, destination, choice, told, callback
        )
        self.begin(one, destination)
        return one

    def is_final(self, outcome: Outcome) -> TypeGuard[SendResult]:
        """No other try follows."""
        return type(outcome) is SendResult and self.sending.is_good(outcome)

    def ended(self) -> None:
        """One that was begun."""
        self.under_way.end()

    # The others

    async def finish(
        self, one: Try, destination: Destination, choice: QueueRequest, outcome: Outcome
    ) -> SendResult:
        """The tries after the first one, if any: it came to this."""
        if choice.is_free(one.message) and not self.is_final(outcome):
            letter = self.letters.rest_of(one, destination)
            return await self.sending.elsewhere(letter, one.queue, outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def resume(self, one: ToldTry, failure: Exception) -> SendResult:
        """The same of one that nobody awaits."""
        return await self._again(one, one.destination, one.choice, failure)

    # Those that must wait before the first

    async def send(self, message: Message, choice: QueueRequest, timeout: Timeout) -> SendResult:
        """All tries of one that is awaited."""
        self.check_open()
        self.under_way.count += 1
        try:
            letter = await self.letters.of(message, self.deadline_ms(timeout))
            return await self.to(letter, choice)
        finally:
            self.under_way.end()

    async def to(self, letter: Letter, choice: QueueRequest) -> SendResult:
        """Where the choice says."""
        chosen = choice.of(letter.destination, letter.messages[0])
        if chosen is None:
            return await self.sending.elsewhere(letter)
        return await self.sending.once(letter, chosen)

    async def send_there(
        self, message: Message, choice: QueueRequest, timeout: Timeout
    ) -> SendResult:
        """All tries of one that nobody awaits."""
        deadline_ms = self.deadline_ms(timeout)
        async with self.lines.turn(message.topic, self.in_ms(timeout)):
            destination = await self.letters.destination(message.topic, deadline_ms)
            if len(message.body) < LONG and self.sending.has_bursts:
                queue = choice.one_of(destination, message)
                one = AwaitedTry(message, queue, max(1, deadline_ms - self.letters.now_ms()))
                self.begin(one, destination)
            else:
                one = None
        if one is None:
            return await self._by_itself(message, choice, deadline_ms)
        try:
            outcome = await one.answer
        except asyncio.CancelledError:
            one.forget()
            raise
        finally:
            self.under_way.end()
        if isinstance(outcome, Exception):
            return await self._again(one, destination, choice, outcome)
        return outcome

    async def _by_itself(
        self, message: Message, choice: QueueRequest, deadline_ms: int
    ) -> SendResult:
        letter = await self.letters.of(message, deadline_ms)
        letter.is_free = choice.is_free(message)
        chosen = choice.one_of(letter.destination, message, self.sending.faults)
        return await self.sending.there(letter, chosen)

    async def _again(
        self, one: Try, destination: Destination, choice: QueueRequest, failure: Exception
    ) -> SendResult:
        if not isinstance(failure, Unreachable) or not self.sending.config.async_retries:
            raise failure
        letter = self.letters.rest_of(one, destination)
        letter.is_free = choice.is_free(one.message)
        return await self.sending.there(letter, one.queue, [failure])

    # Times

    def in_ms(self, timeout: Timeout) -> int:
        """The given one, or the producer's own."""
        return self.timeout_ms if timeout is None else duration_ms(timeout)

    def deadline_ms(self, timeout: Timeout) -> int:
        """Of a send that begins now."""
        return self.letters.now_ms() + self.in_ms(timeout)
