"""The asking half of a connection: our requests, each with one deadline for all its waits."""

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from cometmq.errors import TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.codes import LANGUAGE, VERSION
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import Header, write_header
from cometmq.protocol.hosts import Host
from cometmq.remoting.calls import WaitingCalls
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
        self._writable = asyncio.Event()  # set while the peer reads, and once it is gone
        self.peer = NOWHERE

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Requests may be sent."""

    @abstractmethod
    def _write(self, frame: bytes) -> None:
        """Send it with whatever else is written in this turn of the loop."""

    async def invoke(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> Command:
        """The response. TimedOut, Unreachable or TooManyRequests when there is none."""
        deadline_ms = self._endpoint.clock.monotonic_ms() + timeout_ms
        async with _Permit(self._endpoint, self._endpoint.async_permits, deadline_ms):
            await self._until_writable(deadline_ms)
            request = self._request(code, header, body)
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
        """Write a request that wants no answer."""
        deadline_ms = self._endpoint.clock.monotonic_ms() + timeout_ms
        async with _Permit(self._endpoint, self._endpoint.oneway_permits, deadline_ms):
            await self._until_writable(deadline_ms)
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
            raise Unreachable(f"the connection to {self.peer} is closed")


class _Permit:
    """A permit of a semaphore for the time of a call; TooManyRequests if none comes in time."""

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
