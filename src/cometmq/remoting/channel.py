"""One connection, at either end: requests go both ways, answers are matched by opaque.

What arrives in one read is handled in one call, and the answers to it leave in one write. A
handler that waits runs as a task, and closing the connection cancels it. A peer that does not
read what we send is not read from, and what it has asked already waits until it does; one that
lets too much pile up is cut off.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from cometmq.errors import Malformed, TimedOut, TooLarge, TooManyRequests, Unreachable
from cometmq.protocol.codes import LANGUAGE, VERSION, ResponseCode
from cometmq.protocol.command import Command, response_to
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import FrameDecoder, encode_frame, reply_head
from cometmq.protocol.headers.base import Header, write_header
from cometmq.protocol.hosts import Host
from cometmq.protocol.limits import FRAME_RATE_MIN, FRAME_SMALL
from cometmq.remoting.calls import WaitingCalls
from cometmq.remoting.dispatch import FAILED, Call, Dispatcher, Reply
from cometmq.remoting.limits import Limits
from cometmq.seams import Clock

log = logging.getLogger(__name__)

_RESPONSE = int(CommandFlag.RESPONSE)
_ONEWAY = int(CommandFlag.ONEWAY)
_NOWHERE = Host("", 0)


@dataclass(slots=True)
class Endpoint:
    """What the connections of one side share, and who is told when they come and go."""

    clock: Clock
    limits: Limits
    opened: Callable[["Channel"], None]
    closed: Callable[["Channel"], None]
    begun_size: int = 0  # bytes of begun frames, of all connections
    oneway_permits: asyncio.Semaphore = field(init=False)
    async_permits: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.oneway_permits = asyncio.Semaphore(self.limits.oneway_max)
        self.async_permits = asyncio.Semaphore(self.limits.async_max)


class Channel(asyncio.Protocol):
    """See the top of the file."""

    def __init__(self, endpoint: Endpoint, dispatcher: Dispatcher) -> None:
        self._endpoint = endpoint
        self._dispatcher = dispatcher
        self._decoder = FrameDecoder()
        self._calls = WaitingCalls(endpoint.clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsent: list[bytes] = []
        self._unsent_size = 0
        self._unserved: deque[tuple[Command, int]] = deque()  # read before the peer stopped reading
        self._flush_is_due = False
        self._is_closing = False  # of TLS, a transport says so only after its last goodbye
        self._writable = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._active_ms = self._begun_ms = endpoint.clock.monotonic_ms()
        self.peer = _NOWHERE
        self.gone = asyncio.Event()

    # What the loop tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The peer is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._endpoint.limits.write_high_water)
        self.peer = Host(*(transport.get_extra_info("peername") or _NOWHERE)[:2])
        self._writable.set()
        self._endpoint.opened(self)

    def data_received(self, data: bytes) -> None:
        """Commands, or parts of them."""
        received_ms = self._endpoint.clock.wall_ms()
        was_begun = self._decoder.pending_size
        completed = False
        try:
            for command in self._decoder.feed(data):
                completed = True
                if command.flag & _RESPONSE:
                    self._calls.settle(command)
                elif self._unserved or self._unsent_size > self._endpoint.limits.write_high_water:
                    self._unserved.append((command, received_ms))
                else:
                    self._serve(command, received_ms)
        except (Malformed, TooLarge) as error:
            log.info("connection of %s closed: %s", self.peer, error)
            self.close()  # after the answers to what came before
        self._flush()
        if self._unserved:
            self._serve_the_rest()
        self._active_ms = self._endpoint.clock.monotonic_ms()
        if completed or not was_begun:
            self._begun_ms = self._active_ms
        self._weigh(was_begun)

    def pause_writing(self) -> None:
        """The peer does not read: what it asks would only pile up here."""
        self._writable.clear()
        assert self._transport is not None
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._writable.set()
        assert self._transport is not None
        if self.is_open:
            self._transport.resume_reading()
            if self._unserved:
                asyncio.get_running_loop().call_soon(self._serve_the_rest)

    def connection_lost(self, error: Exception | None) -> None:
        """Gone, by whomever."""
        self._transport = None
        self._endpoint.begun_size -= self._decoder.pending_size
        self._decoder = FrameDecoder()
        self._unserved.clear()
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

    def look_after(self, now_ms: int) -> None:
        """Close a connection that is idle, or stuck inside a frame."""
        limits = self._endpoint.limits
        if not self.is_open:
            self.abort()  # closed by us, and the peer does not read the rest
        elif now_ms - self._active_ms > limits.idle_ms_max:
            self._cut_off("idle")
        elif self._decoder.pending_size:
            seconds = self._decoder.wanted_size // FRAME_RATE_MIN
            if now_ms - self._begun_ms > limits.frame_patience_ms + seconds * 1000:
                self._cut_off(f"{self._decoder.pending_size} bytes of a frame that does not end")

    # Requests of ours

    async def invoke(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> Command:
        """The response. TimedOut, Unreachable or TooManyRequests when there is none."""
        async with _Permit(self._endpoint.async_permits, timeout_ms):
            await self._until_writable(timeout_ms)
            request = self._request(code, header, body)
            answer = self._calls.wait_for(request.opaque, timeout_ms)
            try:
                self._write(encode_frame(request))
                response = await answer
            except TimedOut:
                raise TimedOut(
                    f"{self.peer} did not answer request {code} in {timeout_ms} ms"
                ) from None
            finally:
                self._calls.forget(request.opaque)
        for hook in self._dispatcher.hooks:
            hook.after(str(self.peer), request, response)
        return response

    async def send_oneway(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> None:
        """Write a request that wants no answer."""
        async with _Permit(self._endpoint.oneway_permits, timeout_ms):
            await self._until_writable(timeout_ms)
            request = self._request(code, header, body)
            request.flag |= _ONEWAY
            self._write(encode_frame(request))

    def _request(self, code: int, header: Header | None, body: bytes) -> Command:
        request = Command(
            code=code,
            opaque=self._calls.next_opaque(),
            language=LANGUAGE,
            version=VERSION,
            fields=write_header(header),
            body=body,
        )
        for hook in self._dispatcher.hooks:
            hook.before(str(self.peer), request)
        return request

    async def _until_writable(self, timeout_ms: int) -> None:
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._writable.wait()
            except TimeoutError:
                raise TooManyRequests(f"{self.peer} does not read what it is sent") from None
        if not self.is_open:
            raise Unreachable(f"the connection to {self.peer} is closed")

    # Requests of theirs

    def _serve(self, command: Command, received_ms: int) -> None:
        outcome = self._dispatcher.answer(Call(command, self, received_ms))
        if isinstance(outcome, Reply):
            self._reply(command, outcome)
        else:
            task = asyncio.get_running_loop().create_task(self._reply_later(command, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _serve_the_rest(self) -> None:
        """What was read and not served, as far as the peer reads the answers."""
        while self._unserved and self._writable.is_set() and self.is_open:
            self._serve(*self._unserved.popleft())
            if self._unsent_size > self._endpoint.limits.write_high_water:
                self._flush()
        self._flush()

    async def _reply_later(self, command: Command, outcome: Awaitable[Reply]) -> None:
        reply = await outcome
        if self.is_open:
            self._reply(command, reply)
            self._flush_soon()

    def _reply(self, request: Command, reply: Reply) -> None:
        if self._dispatcher.hooks:
            reply = self._hooked(request, reply)
        if request.flag & _ONEWAY:
            return
        body = reply.body
        try:
            head = reply_head(
                request, reply.code, write_header(reply.header), reply.remark, len(body)
            )
        except TooLarge as error:
            self._reply(request, Reply(ResponseCode.SYSTEM_ERROR.value, remark=str(error)))
            return
        self._unsent.append(head)
        self._unsent_size += len(head) + len(body)
        if body:
            self._unsent.append(body)

    def _hooked(self, request: Command, reply: Reply) -> Reply:
        """Show the answer to the hooks; one that fails must not cost the peer its answer."""
        response = response_to(request, reply.code, write_header(reply.header), reply.remark)
        response.body = reply.body
        try:
            for hook in self._dispatcher.hooks:
                hook.after(str(self.peer), request, response)
        except Exception:
            log.exception("hook after request %d from %s", request.code, self.peer)
            return FAILED
        return reply

    # Bytes

    def _write(self, frame: bytes) -> None:
        self._unsent.append(frame)
        self._unsent_size += len(frame)
        self._flush_soon()

    def _flush_soon(self) -> None:
        """At the end of this turn of the loop: what is written in one turn leaves in one write."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        transport = self._transport
        if not self._unsent or transport is None:
            return
        unsent, self._unsent, self._unsent_size = self._unsent, [], 0
        transport.writelines(unsent)
        if self._writable.is_set():
            self._active_ms = self._endpoint.clock.monotonic_ms()
        if transport.get_write_buffer_size() > self._endpoint.limits.write_size_max:
            self._cut_off("it does not read what it is sent")

    def _weigh(self, was_begun: int) -> None:
        """Count this connection's begun frame; one too many of the large ones is cut off."""
        begun = self._decoder.pending_size
        self._endpoint.begun_size += begun - was_begun
        if (
            begun > FRAME_SMALL
            and self._endpoint.begun_size > self._endpoint.limits.inbound_size_max
        ):
            self._cut_off("too many large frames at once")

    def _cut_off(self, reason: str) -> None:
        if self.is_open:
            log.info("connection of %s closed: %s", self.peer, reason)
            self.abort()


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


class _Permit:
    """A permit of a semaphore for the time of a call; TooManyRequests if none comes in time."""

    __slots__ = ("_permits", "_timeout_ms")

    def __init__(self, permits: asyncio.Semaphore, timeout_ms: int) -> None:
        self._permits = permits
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> None:
        if not self._permits.locked():
            await self._permits.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._permits.acquire()
        except TimeoutError:
            raise TooManyRequests("too many requests in flight; raise the limit or wait") from None

    async def __aexit__(self, *_: object) -> None:
        self._permits.release()
