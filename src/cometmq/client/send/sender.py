"""The one path of all sends of a producer: route, queue, attempts, outcome.

`begin` starts a send and returns. The first attempt leaves with the others of this turn of the
loop, through the `SendWriter` of its topic and broker. `end_attempt` receives the outcome of each
attempt that is not a plain success, asks `SendAttempts` what to do, and starts the next attempt or
delivers the final outcome. No send needs a task of its own.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendResult, no_message
from cometmq.client.send.attempts import (
    Done,
    Failed,
    Outcome,
    RetryPolicies,
    RetryPolicy,
    SendAttempts,
    TryAgain,
)
from cometmq.client.send.destinations import Destination, Destinations
from cometmq.client.send.outgoing import Packing
from cometmq.client.send.pending_sends import (
    AwaitedSend,
    CallbackSend,
    PendingSend,
    RouteWaiters,
    SendWriter,
    end_attempt_later,
)
from cometmq.client.send.selectors import ANY_QUEUE, FaultTable, SendOptions
from cometmq.client.send.send_hooks import SendContext, SendHooks
from cometmq.client.session.session import Session
from cometmq.errors import Closed, PartlySent, StoredState, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.limits import CLIENT_ASYNC_MAX
from cometmq.remoting.channel import Channel

log = logging.getLogger(__name__)

R = TypeVar("R")


class MessageSender:
    """Runs the sends of one producer and counts those in flight."""

    def __init__(self, session: Session, config: ProducerConfig, group: str) -> None:
        self.session = session
        self.group = group
        self.hooks = SendHooks()
        self.faults = FaultTable(session.clock) if config.send_latency_fault_enable else None
        self.packing = Packing(config, session.unique_key, session.clock.wall_ms)
        self.destinations = Destinations(session, config, group)
        self.in_flight = 0  # calls that have not ended; the caller adds one, and calls `end`
        self._idle: asyncio.Event | None = None  # set when `in_flight` becomes 0
        self._now_ms = session.clock.monotonic_ms
        self._route_waiters: dict[str, RouteWaiters] = {}  # by topic
        self._backing_off: set[PendingSend] = set()
        self._policies = RetryPolicies(config)

    # Sends

    def begin(self, send: PendingSend) -> None:
        """Start a send; its outcome is delivered in a later turn of the loop.

        Raises what the queue selector raises; then nothing has started.
        """
        message = send.message
        if not isinstance(message, Message):
            raise no_message(message)
        topic = message.topic
        destination = self.destinations.get(topic)
        if send.sent is None and len(message.body) >= self.packing.long_from:
            self._start(send, self._pack_in_thread(send))
        elif destination is None or topic in self._route_waiters:
            self._wait_for_route(send)
        else:
            self._begin_at(destination, send)

    async def result(self, send: AwaitedSend) -> SendResult:
        """Begin a send and wait for its result. A one-way send has None, once it is written."""
        self.begin(send)
        try:
            outcome: SendResult | Exception = await send.future
        except asyncio.CancelledError:
            send.abandon()
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def batch(
        self, messages: Sequence[Message], options: SendOptions, timeout_ms: int
    ) -> list[SendResult]:
        """Send messages in as few frames as brokers accept, one after the other."""
        frames = self.packing.pack_batch(messages)
        results: list[SendResult] = []
        try:
            for part, sent in frames:
                if len(results) == 1:  # the others follow the first into its queue, in order
                    options = SendOptions(results[0].queue)
                send = AwaitedSend(self, part[0], options, timeout_ms, is_special=True)
                send.kind, send.messages, send.sent = "batch", part, sent
                results.append(await self.result(send))
        except Exception as error:
            if not results:
                raise
            stored = sum(len(part) for part, _ in frames[: len(results)])
            text = f"the first {stored} of {len(messages)} messages are stored; then: {error}"
            partly = PartlySent(text, results, messages[stored:])
            partly.stored = getattr(error, "stored", StoredState.NO)
            partly.retryable = getattr(error, "retryable", False)
            raise partly from error
        return results

    def go_on(self, send: PendingSend) -> None:
        """Begin the first attempt of a send that had to wait for its route or its packing."""
        destination = self.destinations.get(send.message.topic)
        if destination is None:
            self._wait_for_route(send)
            return
        try:
            self._begin_at(destination, send)
        except Exception as error:  # noqa: BLE001 - of a selector
            send.deliver(error)

    def _begin_at(self, destination: Destination, send: PendingSend) -> None:
        send.destination = destination
        if send.options is ANY_QUEUE and self.faults is None and not send.message.sharding_key:
            send.queue = destination.queues.turn()
        else:
            send.queue = send.options.queue_of(destination.queues, send.message, self.faults)
        self._attempt(send)

    def _wait_for_route(self, send: PendingSend) -> None:
        topic = send.message.topic
        waiters = self._route_waiters.get(topic)
        if waiters is None:
            fetch = partial(self.destinations.of, is_shared=send.kind == "reply")
            start = self.session.background.start
            waiters = RouteWaiters(topic, self.session.clock, start, fetch, self._route_waiters)
            self._route_waiters[topic] = waiters
        waiters.add(send)

    def _start(self, send: PendingSend, work: Coroutine[Any, Any, None]) -> None:
        def end(task: "asyncio.Task[None]") -> None:
            if task.cancelled() and not send.done():
                send.deliver(Closed("closed before the message was sent"))

        self.session.background.start(work, "send").add_done_callback(end)

    async def _pack_in_thread(self, send: PendingSend) -> None:
        send.deadline_ms = self._now_ms() + send.timeout_ms
        packing = self.packing
        try:
            send.sent = await asyncio.to_thread(packing.pack, send.message, packing.wall_ms())
        except Exception as error:  # noqa: BLE001 - the sender receives it
            if not send.done():
                send.deliver(error)
            return
        if not send.done():
            self.go_on(send)

    # Attempts

    def _attempt(self, send: PendingSend) -> None:
        """Start an attempt at `send.queue`."""
        if self.hooks.are_there or self.faults is not None:
            try:
                self._begin_observing(send)
            except Exception as error:  # noqa: BLE001 - of a check, which forbids the attempt
                end_attempt_later(send, error)
                return
        broker = send.queue.broker_name
        writer = send.destination.writers.get(broker)
        if writer is None:
            writer = send.destination.writers[broker] = self._writer(send.destination, broker)
        writer.add(send)

    def end_attempt(self, send: PendingSend, outcome: Outcome) -> None:
        """Continue after an attempt: with the next one, or with the final outcome."""
        if send.context is not None:
            self._end_observing(send, send.context, outcome)
        if outcome is None or send.queue is None:
            send.deliver(outcome)
            return
        now_ms = self._now_ms()
        if send.attempts is None:
            send.deadline_ms = send.deadline_ms or now_ms + send.timeout_ms
            send.attempts = SendAttempts(
                self._policy(send),
                send.deadline_ms,
                lambda failed: send.destination.queues.next(avoid=failed, faults=self.faults),
                self.session.chance.random,
            )
        if self.session.closed_why:
            now_ms = send.deadline_ms  # no attempt can follow
        step = send.attempts.after(send.queue, outcome, now_ms)
        match step:
            case TryAgain(queue, delay_ms):
                send.queue, send.channel = queue, None
                if delay_ms:
                    again = partial(self._end_backoff, send)
                    self._backing_off.add(send)
                    send.timer = self.session.clock.call_later(delay_ms, again)
                else:
                    self._attempt(send)
            case Done(result):
                send.deliver(result)
            case Failed(error):
                send.deliver(error)

    def _policy(self, send: PendingSend) -> RetryPolicy:
        is_free = send.options.is_free(send.message)
        policies = self._policies
        if isinstance(send, CallbackSend):
            return policies.callback if is_free else policies.callback_chosen
        return policies.awaited if is_free and not send.is_oneway else policies.once

    def _end_backoff(self, send: PendingSend) -> None:
        self._backing_off.remove(send)
        if not send.done():
            self._attempt(send)

    def _writer(self, destination: Destination, broker: str) -> SendWriter:
        session = self.session

        async def connect(deadline_ms: int) -> Channel:
            return await self._connection(writer, broker, deadline_ms)

        writer = SendWriter(
            destination.templates, self.packing, session.clock, session.background.start, connect
        )
        return writer

    async def _connection(self, writer: SendWriter, broker: str, deadline_ms: int) -> Channel:
        """A connection to a broker that accepts a request now."""
        channel = writer.channel
        while channel is None or not channel.is_ready:
            left_ms = deadline_ms - self._now_ms()
            if left_ms <= 0:
                raise TimedOut("no connection in time", stored=StoredState.NO)
            address = self.session.master_of(broker)
            channel = await self.session.pool.connection(address, left_ms)
            writer.channel = channel
            try:
                await channel.until_ready(deadline_ms)
                break
            except Unreachable:
                channel = None  # nothing was sent: connect again
        return channel

    # Hooks

    def _begin_observing(self, send: PendingSend) -> None:
        """Show the attempt to checks and hooks. Raises what a check raises."""
        sent = send.sent
        if sent is None:
            sent = send.sent = self.packing.pack(send.message, self.packing.wall_ms())
        context = SendContext(
            self.group,
            send.messages or (send.message,),
            sent.message_id,
            send.queue,
            self.session.master_of(send.queue.broker_name),
            sent.born_ms,
            sent.sys_flag,
            is_oneway=send.is_oneway,
            begun_ms=self._now_ms(),
        )
        self.hooks.before(context)
        send.context = context

    def _end_observing(self, send: PendingSend, context: SendContext, outcome: Outcome) -> None:
        send.context = None
        context.took_ms = self._now_ms() - context.begun_ms
        if isinstance(outcome, Exception):
            context.error = outcome
        else:
            context.result = outcome
        if self.faults is not None and outcome is not None:
            failed = context.error is not None
            self.faults.observe(context.queue.broker_name, context.took_ms, failed=failed)
        self.hooks.after(context)

    # Callbacks

    @property
    def has_room(self) -> bool:
        """Return whether another callback send may begin."""
        return self.in_flight < CLIENT_ASYNC_MAX

    def call_back(self, callback: Callable[[R], object], outcome: R) -> None:
        """Call the callback of something that was in flight; log what it raises."""
        try:
            returned = callback(outcome)
            if returned is not None and inspect.iscoroutine(returned):
                returned.close()
                log.error("%r is a coroutine function: give a plain function", callback)
        except Exception:
            log.exception("the callback of a send failed")
        self.end()

    def fail_later(self, callback: Callable[[Exception], object], error: Exception) -> None:
        """Report a failure in a later turn: a callback that sends again would recurse otherwise."""
        self.in_flight += 1
        asyncio.get_running_loop().call_soon(self.call_back, callback, error)

    def run(
        self, callback: Callable[[R | Exception], object], work: Coroutine[Any, Any, R]
    ) -> None:
        """Run a coroutine as a task and report its result or exception to the callback."""
        if not self.has_room:
            work.close()
            self.fail_later(callback, too_many())
            return
        self.in_flight += 1
        outcomes: list[R | Exception] = []

        async def note() -> None:
            try:
                outcomes.append(await work)
            except Exception as error:  # noqa: BLE001 - the callback receives it
                outcomes.append(error)

        def end(_: object) -> None:
            work.close()  # in case it never began
            lost = Unreachable("closed before the answer came: the message may be stored")
            self.call_back(callback, outcomes[0] if outcomes else lost)

        self.session.background.start(note(), "send").add_done_callback(end)

    # Sends in flight

    def end(self) -> None:
        """Count a call that has ended."""
        self.in_flight -= 1
        assert self.in_flight >= 0
        if not self.in_flight and self._idle is not None:
            self._idle.set()
            self._idle = None

    async def until_idle(self) -> None:
        """Return when no call is in flight."""
        if self.in_flight:
            if self._idle is None:
                self._idle = asyncio.Event()
            await self._idle.wait()

    def close(self) -> None:
        """Fail the sends that wait for their next attempt, and forget all routes."""
        backing_off, self._backing_off = self._backing_off, set()
        for send in backing_off:
            assert send.timer is not None, "it backs off"
            send.timer.cancel()
            end_attempt_later(send, Closed("closed before the next attempt"))
        self.destinations.close()


def too_many() -> TooManyRequests:
    """The failure of a callback send that cannot begin."""
    return TooManyRequests(f"{CLIENT_ASYNC_MAX} sends are in flight: await flush()")
