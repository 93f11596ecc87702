"""Pending sends: from the call to the outcome.

A `PendingSend` says what is sent, where to and until when; its subclass says who receives the
outcome. A send joins the `SendWriter` of its topic and broker. When the connection is about to
write, all sends that joined get their keys, properties and frames in one loop: what the processor
repeats stays in its caches, and the clocks are read once for all (bench/client.py). While there is
no connection, or it accepts nothing, the sends wait, and later ones queue behind them: sends leave
in the order in which they joined. `RouteWaiters` keeps the same order while a route is fetched.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from cometmq.client.message import Message, SendResult, SendStatus
from cometmq.client.send.attempts import Outcome, SendAttempts
from cometmq.client.send.destinations import Destination
from cometmq.client.send.outgoing import Outgoing, Packing, SendKind, SendTemplate, result_of
from cometmq.client.send.selectors import SendOptions
from cometmq.client.send.send_hooks import SendContext
from cometmq.errors import Closed, PeerError, StoredState, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.command import Command
from cometmq.remoting.calls import Answer
from cometmq.remoting.channel import Channel
from cometmq.seams import Clock, Timer

# Frames and bytes between two checks whether the connection accepts more: bounds its buffer.
_CHECK_EVERY = 64
_CHECK_BYTES = 1 << 20
# The first sends of a loop turn leave immediately and the rest at its end. Otherwise client and
# broker would take turns in working: a fifth fewer sends per second (bench/client.py).
_FIRST_LEAVE = 32
_OVERDUE_CHECK_MS = 50

Callback = Callable[[SendResult | Exception], object]
Connect = Callable[[int], Awaitable[Channel]]  # a connection that is ready, before a deadline
Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]  # `Background.start`
_deadline_of = attrgetter("deadline_ms")


class SendOwner(Protocol):
    """Decides what follows an attempt: `MessageSender`."""

    def go_on(self, send: "PendingSend") -> None: ...
    def end_attempt(self, send: "PendingSend", outcome: Outcome) -> None: ...
    def call_back(self, callback: Callback, outcome: SendResult | Exception) -> None: ...
    def end(self) -> None: ...


class PendingSend(msgspec.Struct, eq=False):
    """One send. A Struct, because it is created in C (bench/client.py).

    A connection uses it as the `Answer` of the request that is in flight.
    """

    sender: "SendOwner"
    message: Message  # of a batch, the first
    options: SendOptions
    timeout_ms: int  # for all attempts
    is_special: bool = False  # not a single message, or one-way
    kind: SendKind = "single"
    is_oneway: bool = False
    messages: Sequence[Message] = ()  # of a batch
    sent: Outgoing | None = None  # from the first attempt on: each attempt sends the same bytes
    deadline_ms: int = 0  # from the first write or wait on
    destination: Destination = None  # type: ignore[assignment] # set before the first attempt
    queue: MessageQueue = None  # type: ignore[assignment] # of this attempt
    channel: Channel | None = None  # that has this attempt
    opaque: int = 0
    context: SendContext | None = None  # of this attempt, for hooks
    attempts: SendAttempts | None = None  # once an attempt has failed
    timer: Timer | None = None  # of the next attempt

    @abstractmethod
    def deliver(self, outcome: Outcome) -> None:
        """Hand over the final outcome; only while not `done`."""

    def done(self) -> bool:
        """Return whether the outcome is delivered, or no longer wanted."""
        return False

    def abandon(self) -> None:
        """Drop the answer of the attempt in flight."""
        if self.channel is not None:
            self.channel.forget(self.opaque)

    # As the answer of a request in flight

    def set_result(self, response: Command, /) -> None:
        """Receive the answer of the broker."""
        assert self.sent is not None, "it was written"
        try:
            result = result_of(response, self.sent, self.queue)
        except PeerError as error:
            self.sender.end_attempt(self, error)
            return
        if result.status is SendStatus.OK and self.context is None:
            self.deliver(result)
        else:
            self.sender.end_attempt(self, result)

    def set_exception(self, error: Exception, /) -> None:
        """The answer was lost: the message may be stored."""
        if isinstance(error, TimedOut):
            error = TimedOut(
                f"broker {self.queue.broker_name} did not answer in time:"
                " it may have stored the message, or not"
            )
        self.sender.end_attempt(self, error)


class AwaitedSend(PendingSend):
    """A send whose outcome a coroutine awaits."""

    # Exceptions are results of this future: asyncio would log one that is not retrieved.
    future: "asyncio.Future[Any]" = msgspec.field(default_factory=asyncio.Future)

    def done(self) -> bool:
        return self.future.done()  # or canceled

    def deliver(self, outcome: Outcome) -> None:
        self.future.set_result(outcome)


class CallbackSend(PendingSend):
    """A send whose outcome a callback receives."""

    callback: Callback = None  # type: ignore[assignment] # always given

    def deliver(self, outcome: Outcome) -> None:
        assert outcome is not None, "a one-way send has no callback"
        self.sender.call_back(self.callback, outcome)


class WaitingSends(ABC):
    """Sends in order that wait for the same event, each until its own deadline."""

    __slots__ = ("_clock", "_sends", "_start", "_task", "_timer")

    def __init__(self, clock: Clock, start: Start) -> None:
        self._clock = clock
        self._start = start
        self._sends: list[PendingSend] = []
        self._task: asyncio.Task[None] | None = None  # while they wait
        self._timer: Timer | None = None  # while they wait

    @abstractmethod
    async def _proceed(self, deadline_ms: int) -> None:
        """Wait for the event, then remove the sends that go on from `_sends`."""

    @abstractmethod
    def _overdue(self, send: PendingSend) -> Exception:
        """The failure of a send whose deadline passed while it waited."""

    def _queue(self, send: PendingSend) -> None:
        if not send.deadline_ms:
            send.deadline_ms = self._clock.monotonic_ms() + send.timeout_ms
        self._sends.append(send)

    def _begin_waiting(self) -> None:
        self._task = self._start(self._wait(), "waiting sends")
        self._task.add_done_callback(self._waited)
        self._check_overdue()

    async def _wait(self) -> None:
        while self._sends:
            try:
                await self._proceed(max(map(_deadline_of, self._sends)))
            except (TooManyRequests, TimedOut):
                self._fail_overdue()
            except Exception as error:  # noqa: BLE001 - the senders receive it
                self._fail_all(error)
        self._end_waiting()

    def _waited(self, task: "asyncio.Task[None]") -> None:
        if task is self._task:  # it was canceled
            self._end_waiting()
            self._fail_all(Closed("closed before the message was sent"))

    def _end_waiting(self) -> None:
        assert self._timer is not None, "they wait"
        self._timer.cancel()
        self._task = None

    def _check_overdue(self) -> None:
        self._fail_overdue()
        self._timer = self._clock.call_later(_OVERDUE_CHECK_MS, self._check_overdue)

    def _fail_overdue(self) -> None:
        now_ms = self._clock.monotonic_ms()
        overdue = [send for send in self._sends if send.deadline_ms <= now_ms]
        self._sends = [send for send in self._sends if send.deadline_ms > now_ms]
        for send in overdue:
            end_attempt_later(send, self._overdue(send))

    def _fail_all(self, error: Exception) -> None:
        sends, self._sends = self._sends, []
        for send in sends:
            end_attempt_later(send, _copy(error))


class RouteWaiters(WaitingSends):
    """Sends to a topic whose route is being fetched."""

    __slots__ = ("_fetch", "_topic", "_waiters")

    def __init__(
        self,
        topic: str,
        clock: Clock,
        start: Start,
        fetch: Callable[[str], Awaitable[object]],
        waiters: "dict[str, RouteWaiters]",  # by topic; it removes itself when it is empty
    ) -> None:
        super().__init__(clock, start)
        self._topic = topic
        self._fetch = fetch
        self._waiters = waiters

    def add(self, send: PendingSend) -> None:
        """Queue a send behind the others."""
        self._queue(send)
        if self._task is None:
            self._begin_waiting()

    async def _proceed(self, deadline_ms: int) -> None:
        try:
            async with asyncio.timeout((deadline_ms - self._clock.monotonic_ms()) / 1000):
                await self._fetch(self._topic)
        except TimeoutError:
            raise TimedOut("no route in time", stored=StoredState.NO) from None
        sends, self._sends = self._sends, []
        for send in sends:
            if not send.done():
                send.sender.go_on(send)

    def _end_waiting(self) -> None:
        super()._end_waiting()
        del self._waiters[self._topic]

    def _overdue(self, send: PendingSend) -> Exception:
        return TimedOut(
            f"no name server sent the route of topic {self._topic} in time: are they up?",
            stored=StoredState.NO,
        )


class SendWriter(WaitingSends):
    """Writes the sends to one topic at one broker."""

    __slots__ = ("_connect", "_first_left", "_pack", "_templates", "channel")

    def __init__(
        self,
        templates: dict[SendKind, SendTemplate],
        packing: Packing,
        clock: Clock,
        start: Start,
        connect: Connect,
    ) -> None:
        super().__init__(clock, start)
        self._templates = templates
        self._pack = packing.pack
        self._connect = connect
        self._first_left = False  # in this turn of the loop
        self.channel: Channel | None = None  # the last connection that accepted a send

    def add(self, send: PendingSend) -> None:
        """Write a send in this turn of the loop, or after those that wait."""
        if self._task is not None:
            self._queue(send)
            return
        sends = self._sends
        if not sends:
            if self.channel is None:
                asyncio.get_running_loop().call_soon(self._leave)
            else:
                self.channel.write_later(self._leave)
        sends.append(send)
        if len(sends) == _FIRST_LEAVE and not self._first_left and self.channel is not None:
            self._first_left = True
            asyncio.get_running_loop().call_soon(self._end_turn)
            self.channel.flush()

    def _end_turn(self) -> None:
        self._first_left = False

    def _leave(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for send in self._sends:
            if not send.deadline_ms:
                send.deadline_ms = now_ms + send.timeout_ms
        if self.channel is not None:
            self._write_some(self.channel, self.channel.room)
        if self._sends and self._task is None:
            self._begin_waiting()

    def _write_some(self, channel: Channel, room: int) -> None:
        """Write as many sends as the connection accepts; it has room for `room` requests."""
        sends, self._sends = [send for send in self._sends if not send.done()], []
        at = 0
        for deadline_ms, group in groupby(sends, _deadline_of):
            left = list(group)
            while left and room > 0:
                count = self._write(channel, left[: min(room, _CHECK_EVERY)], deadline_ms)
                left = left[count:]
                at += count
                room = channel.room
            if left:
                break
        # Hooks and callbacks run in turns of their own, so that nothing joined meanwhile.
        assert not self._sends
        self._sends = sends[at:]

    def _write(self, channel: Channel, sends: Sequence[PendingSend], deadline_ms: int) -> int:
        """Write the first sends; return how many."""
        pack, single = self._pack, self._templates["single"].frame
        now_ms = self._clock.wall_ms()
        frames = []
        expected: dict[int, Answer] = {}
        size = count = 0
        is_plain = not channel.is_hooked
        for opaque, send in zip(channel.next_opaques(len(sends)), sends, strict=True):
            count += 1
            try:
                sent = send.sent
                if sent is None:
                    sent = send.sent = pack(send.message, now_ms)
                if is_plain and not send.is_special:
                    frame = single(opaque, send.queue.queue_id, sent)
                    expected[opaque] = send
                else:
                    frame = self._special(channel, opaque, send, expected)
            except Exception as error:  # noqa: BLE001 - the sender receives it
                end_attempt_later(send, error)
                continue
            send.channel = channel
            send.opaque = opaque
            frames.append(frame)
            size += len(frame)
            if size > _CHECK_BYTES:
                break
        channel.ask_all(expected, frames, deadline_ms)
        return count

    def _special(
        self, channel: Channel, opaque: int, send: PendingSend, expected: dict[int, Answer]
    ) -> bytes:
        """The frame of a batch, a reply or a one-way send, or of any send that is signed."""
        assert send.sent is not None, "it is packed"
        template = self._templates[send.kind]
        queue_id = send.queue.queue_id
        answer: Answer | None = None if send.is_oneway else send
        if channel.is_hooked:
            header = template.header(queue_id, send.sent)
            frame, answer = channel.hooked(opaque, template.code, header, send.sent.body, answer)
        else:
            frame = template.frame(opaque, queue_id, send.sent, oneway=send.is_oneway)
        if answer is None:
            end_attempt_later(send, None)
        else:
            expected[opaque] = answer
        return frame

    async def _proceed(self, deadline_ms: int) -> None:
        self.channel = await self._connect(deadline_ms)
        self._write_some(self.channel, self.channel.room_in_turn)

    def _overdue(self, send: PendingSend) -> Exception:
        broker = send.queue.broker_name
        if self.channel is None or not self.channel.is_open:
            return Unreachable(
                f"no connection to broker {broker} in time: is it up?", stored=StoredState.NO
            )
        return TooManyRequests(f"broker {broker} is overloaded or does not read: send less")


def end_attempt_later(send: PendingSend, outcome: Outcome) -> None:
    """End an attempt in a later turn of the loop: a flush may happen in the middle of anything."""

    def end() -> None:
        if not send.done():
            send.sender.end_attempt(send, outcome)

    asyncio.get_running_loop().call_soon(end)


def _copy(error: Exception) -> Exception:
    """An exception of its own for a send that was not written: exceptions collect notes."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__, stored=StoredState.NO)
    return copy
