"""One connection, at either end: requests go both ways, answers are matched by opaque.

What arrives in one read is handled in one call, and the answers to it leave in one write; but a
read that takes long to serve is served in turns, so that other connections have theirs. A handler
that waits runs as a task, and closing the connection cancels it. A peer that does not read what we
send is not read from, and what it has asked already waits until it does; one that lets too much
pile up is cut off.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import cast

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import FrameDecoder, reply_head
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.hosts import Host
from cometmq.protocol.limits import FRAME_RATE_MIN, FRAME_SMALL, WRITE_SMALL
from cometmq.remoting.caller import NOWHERE, Caller
from cometmq.remoting.dispatch import Call, Dispatcher, Reply
from cometmq.remoting.endpoint import Endpoint

log = logging.getLogger(__name__)

_RESPONSE = int(CommandFlag.RESPONSE)
_ONEWAY = int(CommandFlag.ONEWAY)
_LOOK_EVERY = 4  # commands, at the clock: a look costs 0.1 us, and one command may take long


class Channel(Caller, asyncio.Protocol):
    """See the top of the file."""

    def __init__(self, endpoint: "Endpoint[Channel]", dispatcher: Dispatcher) -> None:
        super().__init__(endpoint, dispatcher.hooks)
        self._dispatcher = dispatcher
        self._decoder = FrameDecoder()
        self._commands: Iterator[Command] = iter(())  # of what was read, those not yet served
        self._unserved_size = 0  # bytes that are kept for them
        self._begun_size = 0  # of ours, in the endpoint's
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsent: list[bytes] = []
        self._unsent_size = 0
        self._turn_is_due = False
        self._flush_is_due = False
        self._is_paused = False  # by us: nothing is read
        self._is_closing = False  # of TLS, a transport says so only after its last goodbye
        self._closing_ms: int | None = None  # when it was first seen to be
        self._transport: asyncio.Transport | None = None
        self._received_ms = 0
        self._active_ms = self._begun_ms = endpoint.clock.monotonic_ms()
        self.gone = asyncio.Event()

    # What the loop tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The peer is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._endpoint.limits.write_high_water)
        self.peer = Host(*(transport.get_extra_info("peername") or NOWHERE)[:2])
        self._writable.set()
        self._endpoint.opened(self)

    def data_received(self, data: bytes) -> None:
        """Commands, or parts of them."""
        self._received_ms = self._endpoint.clock.wall_ms()
        read_size = self._decoder.pending_size + len(data)
        commands = self._decoder.feed(data)
        if self._unserved_size:  # a transport may have had more when we paused it
            commands = chain(self._commands, commands)
        self._commands = commands
        self._unserved_size += read_size
        self._serve_a_turn()

    def pause_writing(self) -> None:
        """The peer does not read: what it asks would only pile up here."""
        self._writable.clear()
        self._pause_reading()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._writable.set()
        self._take_a_turn_soon()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone, by whomever."""
        self._transport = None
        self._decoder = FrameDecoder()
        self._commands, self._unserved_size = iter(()), 0
        self._count_begun()
        self._endpoint.backlog.forget(self)
        for task in self._tasks:
            task.cancel()
        self._writable.set()  # whoever waits to write learns that it is closed
        self._calls.fail_all(f"the connection to {self.peer} closed before the answer")
        self._endpoint.closed(self)
        self.gone.set()

    # What the server or the pool asks

    @property
    def is_open(self) -> bool:
        """Requests may be sent."""
        transport = self._transport
        return transport is not None and not self._is_closing and not transport.is_closing()

    @property
    def unsent_size(self) -> int:
        """How many bytes wait for the peer to read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def close(self) -> None:
        """Send what is written, then close."""
        if self._transport is not None:
            self._flush()
            self._is_closing = True
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def cut_off(self, reason: str) -> None:
        """Close at once, and say why."""
        if self.is_open:
            log.info("connection of %s closed: %s", self.peer, reason)
        self.abort()

    def look_after(self, now_ms: int) -> None:
        """Close a connection that is idle, or stuck: inside a frame, or in its closing."""
        limits = self._endpoint.limits
        if not self.is_open:
            if self._closing_ms is None:
                self._closing_ms = now_ms
            if now_ms - self._closing_ms > limits.close_patience_ms:
                self.abort()  # the peer does not read the rest
        elif now_ms - self._active_ms > limits.idle_ms_max:
            self.cut_off("idle")
        elif self._decoder.pending_size and not self._is_paused:
            seconds = self._decoder.wanted_size // FRAME_RATE_MIN
            if now_ms - self._begun_ms > limits.frame_patience_ms + seconds * 1000:
                self.cut_off(f"{self._decoder.pending_size} bytes of a frame that does not end")

    # Requests of theirs

    def _serve_a_turn(self) -> None:
        """Serve what was read: to its end, or until the peer must read or it is others' turn."""
        clock, limits = self._endpoint.clock, self._endpoint.limits
        high_water = limits.write_high_water
        turn_end_ms = clock.monotonic_ms() + limits.turn_ms
        count = 0
        try:
            for count, command in enumerate(self._commands, 1):
                if command.flag & _RESPONSE:
                    self._calls.settle(command)
                else:
                    self._serve(command)
                if self._unsent_size > high_water and not self._peer_takes_it():
                    break
                if not count % _LOOK_EVERY and clock.monotonic_ms() >= turn_end_ms:
                    break
            else:
                self._unserved_size = 0
        except (Malformed, TooLarge) as error:
            self._unserved_size = 0
            log.info("connection of %s closed: %s", self.peer, error)
            self.close()  # after the answers to what came before
        self._flush()
        self._active_ms = clock.monotonic_ms()
        if count or not self._begun_size:
            self._begun_ms = self._active_ms
        self._count_begun()
        if self._unserved_size or self._is_paused:
            self._pause_or_resume()

    def _serve(self, command: Command) -> None:
        outcome = self._dispatcher.answer(Call(command, self, self._received_ms))
        if isinstance(outcome, Reply):
            self._reply(command, outcome)
        else:
            task = asyncio.get_running_loop().create_task(self._reply_later(command, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _peer_takes_it(self) -> bool:
        self._flush()
        return self._writable.is_set() and not self._is_closing

    def _pause_or_resume(self) -> None:
        """After a turn: read on when all is served, and the peer reads what it asked for."""
        if not self.is_open or not self._writable.is_set():
            return
        if self._unserved_size:
            self._pause_reading()
            self._take_a_turn_soon()
        else:
            assert self._transport is not None
            self._is_paused = False
            self._begun_ms = self._active_ms  # a frame could not end while nothing was read
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        assert self._transport is not None
        self._is_paused = True
        self._transport.pause_reading()

    def _take_a_turn_soon(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._take_a_turn)

    def _take_a_turn(self) -> None:
        self._turn_is_due = False
        if self.is_open and self._writable.is_set():
            self._serve_a_turn()

    def _count_begun(self) -> None:
        """Count what is read and not served; one too many of the large ones is cut off."""
        endpoint = self._endpoint
        size = self._decoder.pending_size + self._unserved_size
        endpoint.begun_size += size - self._begun_size
        self._begun_size = size
        if size > FRAME_SMALL and endpoint.begun_size > endpoint.limits.inbound_size_max:
            self.cut_off("too many large frames at once")

    # Answers of ours

    async def _reply_later(self, command: Command, outcome: Awaitable[Reply]) -> None:
        reply = await outcome
        if self.is_open:
            self._reply(command, reply)
            self._flush_soon()

    def _reply(self, request: Command, reply: Reply) -> None:
        if request.flag & _ONEWAY:
            self._dispatcher.after(self.peer, request, reply)
            return
        try:
            head = _head(request, reply)
        except TooLarge as error:
            reply = Reply(ResponseCode.SYSTEM_ERROR.value, remark=str(error))
            head = _head(request, reply)
        if self._hooks:
            told = self._dispatcher.after(self.peer, request, reply)
            if told is not reply:
                reply, head = told, _head(request, told)
        self._unsent.append(head)
        self._unsent_size += len(head) + len(reply.body)
        if reply.body:
            self._unsent.append(reply.body)

    # Bytes

    def _write(self, frame: bytes) -> None:
        self._unsent.append(frame)
        self._unsent_size += len(frame)
        self._flush_soon()

    def _flush_soon(self) -> None:
        """At the end of this turn of the loop: what is written in one turn leaves in one write."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush_what_is_due)

    def _flush_what_is_due(self) -> None:
        self._flush_is_due = False
        if self._unsent and self._writable.is_set():
            self._active_ms = self._endpoint.clock.monotonic_ms()
        self._flush()

    def _flush(self) -> None:
        transport = self._transport
        if not self._unsent or transport is None:
            return
        parts, self._unsent = self._unsent, []
        size, self._unsent_size = self._unsent_size, 0
        transport.writelines(parts)
        unsent_size = transport.get_write_buffer_size()
        if unsent_size > self._endpoint.limits.write_size_max:
            self.cut_off("it does not read what it is sent")
        elif unsent_size > WRITE_SMALL:
            self._endpoint.backlog.note(self, size, unsent_size)


def _head(request: Command, reply: Reply) -> bytes:
    fields = write_header(reply.header)
    return reply_head(request, reply.code, fields, reply.remark, len(reply.body))


async def close_all(channels: Iterable[Channel], patience_ms: int) -> None:
    """Send what is written and close; whoever does not read it in time is cut off."""
    leaving = list(channels)
    for leave in (Channel.close, Channel.abort):
        for channel in leaving:
            leave(channel)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                for channel in leaving:
                    await channel.gone.wait()
            return
