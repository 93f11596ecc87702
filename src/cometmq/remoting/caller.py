"""The calling side of a connection: our requests, each with one deadline for all its waits."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cometmq.errors import StoredState, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.codes import LANGUAGE, VERSION
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import Header, write_header
from cometmq.protocol.records.hosts import Host
from cometmq.remoting.calls import Answer, WaitingCalls
from cometmq.remoting.dispatch import Hook
from cometmq.remoting.endpoint import Endpoint

_ONEWAY = int(CommandFlag.ONEWAY)
NOWHERE = Host("", 0)


class Caller(ABC):
    """See the top of the file."""

    def __init__(self, endpoint: Endpoint[Any], hooks: tuple[Hook, ...]) -> None:
        self._endpoint = endpoint
        self._hooks = hooks
        self._calls = WaitingCalls(endpoint.clock)
        self._in_flight_max = endpoint.limits.async_max
        self.next_opaque = self._calls.next_opaque  # for a frame that `ask` or `tell` is given
        self.next_opaques = self._calls.next_opaques
        self._writable = asyncio.Event()  # set while the peer reads, and once it is closed
        self._takes_requests = False  # open, and the peer reads
        self._turn = asyncio.Lock()  # callers that must wait send in order of arrival
        self._waiting = 0  # number of waiting callers: they are not overtaken
        self.peer = NOWHERE

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Requests may be sent."""

    def _write(self, frame: bytes) -> None:
        self._write_all((frame,))

    @abstractmethod
    def _write_all(self, frames: Sequence[bytes]) -> None:
        """Send frames together with all others of this turn of the loop."""

    @abstractmethod
    def write_later(self, write: Callable[[], None]) -> None:
        """Register a callback that runs just before the flush and may still write."""

    @abstractmethod
    def flush(self) -> None:
        """Send all written bytes now instead of at the end of this turn."""

    # Batches of requests, whose frames the caller makes: no task, timer or permit for each

    @property
    def is_hooked(self) -> bool:
        """Return whether hooks must see each request: use `hooked`, `invoke` or `send_oneway`."""
        return bool(self._hooks)

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent now: the peer reads, few are in flight, no caller waits."""
        return self.room > 0

    @property
    def room(self) -> int:
        return 0 if self._waiting else self.room_in_turn

    @property
    def room_in_turn(self) -> int:
        """The number of requests that fit in flight, for a caller that has waited."""
        return self._in_flight_max - len(self._calls.answers) if self._takes_requests else 0

    async def until_ready(self, deadline_ms: int) -> None:
        """Wait until `is_ready`. Raises TooManyRequests or Unreachable."""
        self._waiting += 1
        try:
            async with self._endpoint.until(deadline_ms), self._turn:
                await self._writable.wait()
                await self._calls.until_fewer(self._in_flight_max)
                await self._writable.wait()
        except TimeoutError:
            raise TooManyRequests(
                f"{self.peer} has too much to do, or does not read what it is sent: send less"
            ) from None
        finally:
            self._waiting -= 1
        if not self.is_open:
            raise Unreachable(f"the connection to {self.peer} is closed", stored=StoredState.NO)

    def ask(self, opaque: int, frame: bytes, answer: Answer, deadline_ms: int) -> None:
        """Write the frame of a request with this opaque; only while it `is_ready`."""
        self._calls.expect(opaque, answer, deadline_ms)
        self._write(frame)

    def ask_all(
        self, answers: Mapping[int, Answer], frames: Sequence[bytes], deadline_ms: int
    ) -> None:
        """As `ask` for several opaques; only while there is room for them."""
        self._calls.expect_all(answers, deadline_ms)
        self._write_all(frames)

    def forget(self, opaque: int) -> None:
        """Drop a request whose caller has stopped waiting."""
        self._calls.forget(opaque)

    def hooked(
        self, opaque: int, code: int, header: Header | None, body: bytes, answer: Answer | None
    ) -> tuple[bytes, Answer | None]:
        """The frame of a request that `is_hooked`, and the answer to expect for `ask_all`.

        Without an answer the request is one-way.
        """
        request = self._request(code, header, body, opaque)
        if answer is None:
            request.flag |= _ONEWAY
            return encode_frame(request), None
        return encode_frame(request), _HookedAnswer(answer, request, str(self.peer), self._hooks)

    # Any request

    async def invoke(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> Command:
        """Return the response. Raises TimedOut, Unreachable or TooManyRequests."""
        deadline_ms = self._endpoint.clock.monotonic_ms() + timeout_ms
        async with _Permit(self._endpoint, self._endpoint.async_permits, deadline_ms):
            await self._until_writable(deadline_ms)
            request = self._request(code, header, body, self._calls.next_opaque())
            answer = self._calls.wait_for(request.opaque, deadline_ms)
            try:
                self._write(encode_frame(request))
                response = await answer
            except TimedOut:
                raise TimedOut(
                    f"{self.peer} did not answer request {code} in {timeout_ms} ms"
                ) from None
            finally:
                self._calls.forget(request.opaque)
        for hook in self._hooks:
            hook.after(str(self.peer), request, response)
        return response

    async def send_oneway(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> None:
        """Write a request that has no response."""
        deadline_ms = self._endpoint.clock.monotonic_ms() + timeout_ms
        async with _Permit(self._endpoint, self._endpoint.oneway_permits, deadline_ms):
            await self._until_writable(deadline_ms)
            request = self._request(code, header, body, self._calls.next_opaque())
            request.flag |= _ONEWAY
            self._write(encode_frame(request))

    def _request(self, code: int, header: Header | None, body: bytes, opaque: int) -> Command:
        request = Command(
            code=code,
            opaque=opaque,
            language=LANGUAGE,
            version=VERSION,
            fields=write_header(header),
            body=body,
        )
        for hook in self._hooks:
            hook.before(str(self.peer), request)
        return request

    async def _until_writable(self, deadline_ms: int) -> None:
        if not self._writable.is_set():
            try:
                async with self._endpoint.until(deadline_ms):
                    await self._writable.wait()
            except TimeoutError:
                raise TooManyRequests(f"{self.peer} does not read what it is sent") from None
        if not self.is_open:
            raise Unreachable(f"the connection to {self.peer} is closed", stored=StoredState.NO)


class _HookedAnswer:
    """Shows the response to the hooks before it settles the answer."""

    __slots__ = ("_answer", "_hooks", "_peer", "_request")

    def __init__(
        self, answer: Answer, request: Command, peer: str, hooks: tuple[Hook, ...]
    ) -> None:
        self._answer = answer
        self._request = request
        self._peer = peer
        self._hooks = hooks

    def done(self) -> bool:
        return self._answer.done()

    def set_result(self, response: Command, /) -> None:
        for hook in self._hooks:
            hook.after(self._peer, self._request, response)
        self._answer.set_result(response)

    def set_exception(self, error: Exception, /) -> None:
        self._answer.set_exception(error)


class _Permit:
    """A permit of a semaphore for the time of a call. Raises TooManyRequests on timeout."""

    __slots__ = ("_deadline_ms", "_endpoint", "_permits")

    def __init__(
        self, endpoint: Endpoint[Any], permits: asyncio.Semaphore, deadline_ms: int
    ) -> None:
        self._endpoint = endpoint
        self._permits = permits
        self._deadline_ms = deadline_ms

    async def __aenter__(self) -> None:
        if not self._permits.locked():
            await self._permits.acquire()  # does not wait
            return
        try:
            async with self._endpoint.until(self._deadline_ms):
                await self._permits.acquire()
        except TimeoutError:
            raise TooManyRequests("too many requests in flight; raise the limit or wait") from None

    async def __aexit__(self, *_: object) -> None:
        self._permits.release()
