"""One connection, at either end: requests go both ways, responses are matched by opaque.

The requests of one read are handled in one call, and their responses leave in one write. A read
that takes long to serve is served in turns, so that other connections are served in between. A
handler that waits runs as a task, which closing the connection cancels. While a peer does not read
our responses, we do not read its requests; if too many bytes pile up, the connection is aborted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import FrameDecoder, reply_head, reply_heads
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.limits import FRAME_RATE_MIN, FRAME_SMALL, WRITE_SMALL
from cometmq.protocol.records.hosts import Host
from cometmq.remoting.caller import NOWHERE, Caller
from cometmq.remoting.dispatch import Call, Dispatcher, Jointly, Replies, Reply
from cometmq.remoting.endpoint import Endpoint
from cometmq.remoting.promise import Promise
from cometmq.remoting.runs import requests_end, responses_end

log = logging.getLogger(__name__)

_RESPONSE = int(CommandFlag.RESPONSE)
_ONEWAY = int(CommandFlag.ONEWAY)
# Responses settled between two looks at the clock, because callbacks run. One by one: +0.5 us each.
_ANSWERS_MAX = 8
_LOOK_EVERY = 4  # commands between two looks at the clock, which cost 0.1 us each


class Channel(Caller, asyncio.Protocol):
    """See the top of the file."""

    def __init__(self, endpoint: "Endpoint[Channel]", dispatcher: Dispatcher) -> None:
        super().__init__(endpoint, dispatcher.hooks)
        self._dispatcher = dispatcher
        self._joint_codes = dispatcher.joint_codes
        self._decoder = FrameDecoder(endpoint.memory)
        self._unserved: Iterator[list[Command]] = iter(())  # batches that follow `_decoded`
        self._decoded: list[Command] = []  # the next commands to serve
        self._alone: list[Call] = []  # the next commands, last first, if not answered jointly
        self._unserved_size = 0  # bytes that were read and not served
        self._begun_size = 0  # our part of the endpoint's `begun_size`
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies: list[tuple[Command, Reply]] = []  # to be encoded
        self._unsent: list[bytes] = []
        self._unsent_size = 0  # of both, without the heads of replies that are not encoded yet
        self._late: list[Callable[[], None]] = []  # callbacks that write more before a flush
        self._turn_is_due = False
        self._flush_is_due = False
        self._is_paused = False  # we do not read
        self.is_closing = False  # by us; a TLS transport says so only at its end
        self._closing_ms: int | None = None  # when it was first seen to be
        self._transport: asyncio.Transport | None = None
        self._received_ms = 0
        self._active_ms = self._begun_ms = endpoint.clock.monotonic_ms()
        self.gone = asyncio.Event()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._endpoint.limits.write_high_water)
        self.peer = Host(*(transport.get_extra_info("peername") or NOWHERE)[:2])
        self._writable.set()
        self._takes_requests = True
        self._endpoint.opened(self)

    def data_received(self, data: bytes) -> None:
        self._received_ms = self._endpoint.clock.wall_ms()
        read_size = self._decoder.pending_size + len(data)
        commands = self._decoder.feed_many(data)
        if self._unserved_size:  # a transport may have had more when we paused it
            commands = chain(self._unserved, commands)
        self._unserved = commands
        self._unserved_size += read_size
        self._serve_a_turn()

    def pause_writing(self) -> None:
        """Stop reading while the peer does not read: its requests would pile up here."""
        self._writable.clear()
        self._takes_requests = False
        self._pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._takes_requests = self.is_open
        self._take_a_turn_soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._takes_requests = False
        self._decoder = FrameDecoder()
        self._unserved, self._decoded, self._unserved_size = iter(()), [], 0
        self._alone = []
        self._count_begun()
        self._endpoint.backlog.forget(self)
        for task in self._tasks:
            task.cancel()
        self._writable.set()  # pending writers find that the connection is closed
        self._calls.fail_all(f"the connection to {self.peer} closed before the answer")
        self._endpoint.closed(self)
        self.gone.set()

    # For the server and the pool

    @property
    def is_open(self) -> bool:
        transport = self._transport
        return transport is not None and not self.is_closing and not transport.is_closing()

    @property
    def unsent_size(self) -> int:
        """The number of bytes that the peer has not read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def close(self) -> None:
        """Send all written bytes, then close."""
        if self._transport is not None:
            self.flush()
            self.is_closing = True
            self._takes_requests = False
            self._transport.close()

    def abort(self) -> None:
        self.is_closing = True
        self._takes_requests = False
        if self._transport is not None:
            self._transport.abort()

    def cut_off(self, reason: str) -> None:
        """Abort the connection and log the reason."""
        if self.is_open:
            log.info("connection of %s closed: %s", self.peer, reason)
        self.abort()

    def look_after(self, now_ms: int) -> None:
        """Abort a connection that is idle, stuck inside a frame, or stuck while it closes."""
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

    # Requests of the peer

    def _serve_a_turn(self) -> None:
        """Serve commands until none is left, the peer must read, or the turn is over."""
        clock, limits = self._endpoint.clock, self._endpoint.limits
        high_water = limits.write_high_water
        turn_end_ms = clock.monotonic_ms() + limits.turn_ms
        count, look_at, is_over = 0, _LOOK_EVERY, False
        was_due, self._flush_is_due = self._flush_is_due, True  # by this turn itself
        try:
            while not is_over:
                commands = self._decoded or next(self._unserved, [])
                if not commands:
                    self._unserved_size = 0
                    break
                at = 0
                while at < len(commands) and not is_over:
                    after = self._serve_next(commands, at)
                    count += after - at
                    at = after
                    if self._unsent_size > high_water and not self._peer_takes_it():
                        is_over = True
                    elif count >= look_at:
                        look_at = count + _LOOK_EVERY
                        is_over = clock.monotonic_ms() >= turn_end_ms
                self._decoded = commands[at:]
        except (Malformed, TooLarge) as error:
            self._unserved_size = 0
            log.info("connection of %s closed: %s", self.peer, error)
            self.close()  # after the responses to earlier requests
        finally:
            self.flush()
            self._flush_is_due = was_due
        self._active_ms = clock.monotonic_ms()
        if count or not self._begun_size:
            self._begun_ms = self._active_ms
        self._count_begun()
        if self._unserved_size or self._is_paused:
            self._pause_or_resume()

    def _serve_next(self, commands: list[Command], at: int) -> int:
        """Serve one command or a joint run. Returns the index of the next command."""
        command = commands[at]
        if command.flag & _RESPONSE:
            is_last = at + 1 == len(commands)
            after = at + 1 if is_last else responses_end(commands, at, _ANSWERS_MAX)
            self._calls.settle(commands[at:after])
            return after
        if self._alone:
            self._serve(self._alone.pop())
            return at + 1
        if command.code in self._joint_codes:
            after = requests_end(commands, at)
            if after > at + 1:
                return at + self._serve_jointly(commands[at:after])
        self._serve(Call(command, self, self._received_ms))
        return at + 1

    def _serve_jointly(self, commands: list[Command]) -> int:
        """Answer all requests, or only the first. Returns the number of answered requests."""
        calls = [Call(command, self, self._received_ms) for command in commands]
        outcome = self._dispatcher.answer_jointly(calls)
        if outcome is None:
            self._alone = calls[:0:-1]
            self._serve(calls[0])
            return 1
        if type(outcome) is Promise:
            outcome.then(partial(self._soon, self._reply_all, commands))
        else:
            self._reply_all(commands, cast(Jointly, outcome))
        return len(commands)

    def _serve(self, call: Call) -> None:
        command = call.command
        outcome = self._dispatcher.answer(call)
        if type(outcome) is Reply:
            self._reply(command, outcome)
        elif type(outcome) is Promise:
            outcome.then(partial(self._soon, self._reply, command))
        else:
            outcome = cast(Awaitable[Reply], outcome)
            task = asyncio.get_running_loop().create_task(self._reply_later(command, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _peer_takes_it(self) -> bool:
        self.flush()
        return self._writable.is_set() and self.is_open

    def _pause_or_resume(self) -> None:
        """After a turn: resume reading if all is served and the peer reads."""
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
        """Count unserved bytes. Aborts a large frame that exceeds the limit of all connections."""
        endpoint = self._endpoint
        size = self._decoder.pending_size + self._unserved_size
        endpoint.begun_size += size - self._begun_size
        self._begun_size = size
        if size > FRAME_SMALL and endpoint.begun_size > endpoint.limits.inbound_size_max:
            self.cut_off("too many large frames at once")

    # Responses to the peer

    async def _reply_later(self, command: Command, outcome: Awaitable[Reply]) -> None:
        self._soon(self._reply, command, await outcome)

    def _soon(self, reply: Callable[[Any, Any], None], asked: object, outcome: object) -> None:
        if self.is_open:
            reply(asked, outcome)
            self._flush_soon()

    def _reply_all(self, commands: list[Command], replies: Jointly) -> None:
        if type(replies) is Replies and not self._hooks:
            self._encode_replies()  # which come before
            heads = reply_heads(commands, replies.code, replies.fields)
            self._unsent += heads
            self._unsent_size += sum(map(len, heads))
            return
        each = replies.each() if type(replies) is Replies else cast(list[Reply], replies)
        for command, reply in zip(commands, each, strict=True):
            self._reply(command, reply)

    def _reply(self, request: Command, reply: Reply) -> None:
        """A short one is kept until the flush: replies are encoded sooner side by side.

        The processor keeps in its caches what it does again and again, and all that a request
        takes does not fit: 3 us of a send (bench/broker.py).
        """
        if request.flag & _ONEWAY:
            self._dispatcher.after(self.peer, request, reply)
            return
        self._replies.append((request, reply))
        self._unsent_size += len(reply.body)
        if reply.header is not None and not reply.header.is_short:
            self._encode_replies()

    def _encode_replies(self) -> None:
        replies, self._replies = self._replies, []
        for request, reply in replies:
            try:  # `_head`, without a call: 0.2 us
                fields = write_header(reply.header)
                head = reply_head(request, reply.code, fields, reply.remark, len(reply.body))
            except TooLarge as error:
                reply = Reply(ResponseCode.SYSTEM_ERROR.value, remark=str(error))
                head = _head(request, reply)
            if self._hooks:
                told = self._dispatcher.after(self.peer, request, reply)
                if told is not reply:
                    reply, head = told, _head(request, told)
            self._unsent.append(head)
            self._unsent_size += len(head)
            if body := reply.body:
                self._unsent.append(body)

    # Bytes

    def write_later(self, write: Callable[[], None]) -> None:
        """Register a callback that runs just before the flush and may still write."""
        self._late.append(write)
        self._flush_soon()

    def _write_all(self, frames: Sequence[bytes]) -> None:
        if self._late:
            self._write_what_is_late()  # it was begun before
        self._unsent += frames
        self._unsent_size += sum(map(len, frames))
        if self._unsent_size > self._endpoint.limits.write_high_water:
            self.flush()  # the next caller in this turn then sees that the peer does not read
        else:
            self._flush_soon()

    def _flush_soon(self) -> None:
        """Flush at the end of this turn of the loop: one write for all frames of a turn."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush_what_is_due)

    def _write_what_is_late(self) -> None:
        was_due, self._flush_is_due = self._flush_is_due, True  # by our caller
        late, self._late = self._late, []
        try:
            for write in late:
                write()
        finally:
            self._flush_is_due = was_due

    def _flush_what_is_due(self) -> None:
        self._flush_is_due = False
        self.flush()

    def flush(self) -> None:
        """Send all written bytes now."""
        transport = self._transport
        if self._late:
            self._write_what_is_late()
        if self._replies:
            self._encode_replies()
        if not self._unsent or transport is None:
            return
        if self._writable.is_set():
            self._active_ms = self._endpoint.clock.monotonic_ms()
        parts, self._unsent = self._unsent, []
        size, self._unsent_size = self._unsent_size, 0
        transport.write(b"".join(parts))  # `writelines` of uvloop takes 0.3 us a part
        unsent_size = transport.get_write_buffer_size()
        if unsent_size > self._endpoint.limits.write_size_max:
            self.cut_off("it does not read what it is sent")
        elif unsent_size > WRITE_SMALL:
            self._endpoint.backlog.note(self, size, unsent_size)


def _head(request: Command, reply: Reply) -> bytes:
    fields = write_header(reply.header)
    return reply_head(request, reply.code, fields, reply.remark, len(reply.body))
