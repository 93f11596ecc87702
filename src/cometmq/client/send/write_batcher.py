"""Sends to one topic at one broker that begin in one turn of the loop: made ready side by side.

A send that begins only joins the burst. When the connection is about to write, all of them get
their keys, properties and frames in one go: what the processor does again and again stays in its
caches, and the clocks are read once for all (bench/client.py). While there is no connection, or it
takes nothing, they stand in line, and whoever joins stands behind them: they leave in their order.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from cometmq.client.message import SEND_STATUS_OF, Message, SendResult
from cometmq.client.send.outgoing import Outgoing, Packing
from cometmq.client.send.send_template import SendTemplate
from cometmq.errors import Closed, NoRoute, PeerError, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.send import SendReplyHeader
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.refusal import refusal_of
from cometmq.remoting.channel import Channel
from cometmq.seams import Clock, Timer

# Made ready between two looks at whether the connection takes more. What it did not want is then
# 6 MiB at the most: bodies in a burst have less than 64 KiB each, their properties less than 32.
_LOOK_EVERY = 64
# Of a turn, the first so many leave at once, and the rest at its end. Else the broker and we would
# take turns, each waiting for all of the other's: a fifth fewer sends a second (bench/client.py).
_FIRST_LEAVE = 32
_IN_LINE_MS = 50  # between two looks at who has stood in line for too long

Outcome = SendResult | Exception


class Try(msgspec.Struct):
    """One send at one queue, from its beginning to its answer. A Struct, as it is made in C."""

    message: Message
    queue: MessageQueue
    timeout_ms: int
    sent: Outgoing | None = None  # as it was written, and the rest of it
    channel: Channel | None = None
    opaque: int = 0
    deadline_ms: int = 0  # once it has left, or stands in line

    def done(self) -> bool:
        """Nobody waits any more."""
        return False

    def forget(self) -> None:
        """Nobody waits any more from now on."""
        if self.channel is not None:
            self.channel.forget(self.opaque)

    @abstractmethod
    def tell(self, outcome: Outcome) -> None:
        """It is over, but for tries that may follow; only while somebody waits."""

    # For the connection it is what waits for the answer

    def set_result(self, response: Command, /) -> None:
        """The broker has answered."""
        sent = self.sent
        assert sent is not None, "it was written"
        outcome: Outcome
        try:
            outcome = result_of(response, sent, self.queue)
        except PeerError as error:
            outcome = error
        self.tell(outcome)

    def set_exception(self, error: Exception, /) -> None:
        """No answer came."""
        self.tell(timed_out(self.queue) if isinstance(error, TimedOut) else error)


class AwaitedTry(Try):
    """By who awaits its answer."""

    answer: "asyncio.Future[Outcome]" = msgspec.field(default_factory=asyncio.Future)

    def done(self) -> bool:
        """Nobody waits any more."""
        return self.answer.done()

    def tell(self, outcome: Outcome) -> None:
        """It is over."""
        self.answer.set_result(outcome)


_deadline_of = attrgetter("deadline_ms")
Ready = Callable[[int], Awaitable[Channel]]  # a connection that takes requests, until a deadline
Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]  # as `Background.start`


class Burst:
    """See the top of the file."""

    __slots__ = (
        "_alarm",
        "_clock",
        "_first_left",
        "_line",
        "_pack",
        "_ready",
        "_start",
        "_template",
        "_tries",
        "channel",
    )

    def __init__(
        self, template: SendTemplate, packing: Packing, clock: Clock, ready: Ready, start: Start
    ) -> None:
        self._template = template
        self._pack = packing.pack
        self._clock = clock
        self._ready = ready
        self._start = start
        self._tries: list[Try] = []  # of this turn; or in line
        self._first_left = False  # in this turn
        self._line: asyncio.Task[None] | None = None  # who waits for all of them, if there is one
        self._alarm: Timer | None = None  # while there is
        self.channel: Channel | None = None  # which was the last to take any

    def add(self, one: Try) -> None:
        """It leaves at the end of this turn if not before, or when those in line before it have."""
        if self._line is not None:
            one.deadline_ms = self._clock.monotonic_ms() + one.timeout_ms
        elif not self._tries:
            if self.channel is None:
                asyncio.get_running_loop().call_soon(self._leave)
            else:
                self.channel.write_later(self._leave)
        self._tries.append(one)
        if len(self._tries) == _FIRST_LEAVE and not self._first_left:
            self._let_first_leave()

    def _let_first_leave(self) -> None:
        if self.channel is not None and self._line is None:
            self._first_left = True
            asyncio.get_running_loop().call_soon(self._end_turn)
            self.channel.flush()

    def _end_turn(self) -> None:
        self._first_left = False

    def _leave(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for one in self._tries:
            one.deadline_ms = now_ms + one.timeout_ms
        if self.channel is not None:
            self._write_some(self.channel, self.channel.room)
        if self._tries:
            self._line = self._start(self._wait(), "sends in line")
            self._line.add_done_callback(self._waited)
            self._look_later()

    def _write_some(self, channel: Channel, room: int) -> None:
        """As many as it takes, of which there is room for so many in any case."""
        tries, self._tries = [one for one in self._tries if not one.done()], []
        at = 0
        for deadline_ms, alike in groupby(tries, _deadline_of):
            left = list(alike)
            while left and room > 0:
                count = min(room, _LOOK_EVERY, len(left))
                self._write(channel, left[:count], deadline_ms)
                left = left[count:]
                at += count
                room = channel.room
        self._tries = tries[at:]

    def _write(self, channel: Channel, tries: Sequence[Try], deadline_ms: int) -> None:
        pack, frame = self._pack, self._template.frame
        now_ms = self._clock.wall_ms()
        frames = []
        expected: dict[int, Try] = {}
        for opaque, one in zip(channel.next_opaques(len(tries)), tries, strict=True):
            try:
                sent = one.sent = pack(one.message, now_ms)
                frames.append(frame(opaque, one.queue.queue_id, sent))
            except Exception as error:  # noqa: BLE001 - whoever sent it is told
                _tell_later(one, error)
                continue
            one.channel = channel
            one.opaque = opaque
            expected[opaque] = one
        channel.ask_all(expected, frames, deadline_ms)

    # In line

    async def _wait(self) -> None:
        while self._tries:
            try:
                self.channel = await self._ready(self._tries[-1].deadline_ms)
            except (TooManyRequests, TimedOut):
                self._tell_overdue()
            except (Unreachable, NoRoute) as error:
                self._tell_all(type(error), str(error))
            else:
                self._write_some(self.channel, self.channel.room_in_turn)
        self._end_line()

    def _waited(self, task: "asyncio.Task[None]") -> None:
        if task is self._line:  # it was cancelled
            self._end_line()
            self._tell_all(Closed, "closed before it could be sent")

    def _end_line(self) -> None:
        assert self._alarm is not None, "there is a line"
        self._alarm.cancel()
        self._line = None

    def _look_later(self) -> None:
        self._alarm = self._clock.call_later(_IN_LINE_MS, self._look_at_line)

    def _look_at_line(self) -> None:
        self._tell_overdue()
        self._look_later()

    def _tell_overdue(self) -> None:
        now_ms = self._clock.monotonic_ms()
        overdue = [one for one in self._tries if one.deadline_ms <= now_ms]
        self._tries = [one for one in self._tries if one.deadline_ms > now_ms]
        for one in overdue:
            _tell_later(one, self._not_taken_by(one.queue.broker_name))

    def _not_taken_by(self, broker: str) -> Exception:
        if self.channel is None or not self.channel.is_open:
            return Unreachable(f"no connection to broker {broker} in time: is it up?")
        return TooManyRequests(
            f"broker {broker} has too much to do, or does not read what it is sent: send less"
        )

    def _tell_all(self, kind: type[Exception], text: str) -> None:
        tries, self._tries = self._tries, []
        for one in tries:
            _tell_later(one, kind(text))  # its own: it collects a traceback, and notes


def _tell_later(one: Try, outcome: Outcome) -> None:
    """In a turn of its own: a flush may come in the middle of anything."""

    def tell() -> None:
        if not one.done():
            one.tell(outcome)

    asyncio.get_running_loop().call_soon(tell)


class SentHeader(
    SendReplyHeader, rename=camel(region_id="MSG_REGION", trace_on="TRACE_ON"), kw_only=True
):
    """A broker's reply, also of one that says nothing about traces."""

    region_id: str = "DefaultRegion"
    trace_on: bool = True


def result_of(response: Command, sent: Outgoing, queue: MessageQueue) -> SendResult:
    """What a broker's answer says; Refused if it has not taken the message."""
    status = SEND_STATUS_OF.get(response.code)
    if status is None:
        raise refusal_of(response, f"broker {queue.broker_name}")
    reply = read_header(response, SentHeader)
    if reply.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, reply.queue_id)
    return SendResult(
        status,
        sent.message_id,
        reply.msg_id,
        queue,
        reply.queue_offset,
        reply.transaction_id,
        reply.region_id,
        reply.trace_on,
    )


def timed_out(queue: MessageQueue) -> TimedOut:
    """Of a send without an answer."""
    return TimedOut(
        f"broker {queue.broker_name} did not answer in time: it may have stored the message, or not"
    )
