"""Address to connection: connect once, share it, drop it when it breaks."""

import asyncio
from functools import partial
from ssl import SSLContext
from typing import Protocol

from cometmq.errors import StoredState, Unreachable
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header
from cometmq.remoting.address import parse_address
from cometmq.remoting.channel import Channel
from cometmq.remoting.closing import close_all
from cometmq.remoting.dispatch import Dispatcher
from cometmq.remoting.endpoint import Endpoint
from cometmq.remoting.limits import CLIENT_LIMITS, Limits
from cometmq.seams import Clock, Net

_CLOSE_MS_MAX = 1_000  # for what is still unsent when the pool closes


class PoolObserver(Protocol):
    """Receives the changes of a pool's connections, by address."""

    def connected(self, address: str) -> None:
        """A connection is open."""

    def disconnected(self, address: str, reason: str) -> None:
        """The peer closed a connection, or an attempt to open one failed."""


class Pool:
    """The calling side: one connection per address. Peers may send requests too, by our table."""

    def __init__(
        self,
        clock: Clock,
        net: Net,
        dispatcher: Dispatcher,
        *,
        limits: Limits = CLIENT_LIMITS,
        tls: SSLContext | None = None,
        observer: PoolObserver | None = None,
    ) -> None:
        self._clock = clock
        self._net = net
        self._dispatcher = dispatcher
        self._limits = limits
        self._tls = tls
        self._observer = observer
        self._endpoint = Endpoint(clock, limits, self._opened, self._closed)
        self._alive: set[Channel] = set()  # with those that are dropped and not yet closed
        self._channels: dict[str, Channel] = {}
        self._connecting: dict[str, asyncio.Task[Channel]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._is_closed = False

    async def invoke(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int,
    ) -> Command:
        """Send a request to `host:port`. Raises Unreachable, TimedOut or TooManyRequests."""
        channel = self._open_to(address)
        if channel is None:
            channel, timeout_ms = await self._connected(address, timeout_ms)
        return await channel.invoke(code, header, body, timeout_ms=timeout_ms)

    async def send_oneway(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int,
    ) -> None:
        """Send a request without a response to `host:port`."""
        channel = self._open_to(address)
        if channel is None:
            channel, timeout_ms = await self._connected(address, timeout_ms)
        await channel.send_oneway(code, header, body, timeout_ms=timeout_ms)

    async def connection(self, address: str, timeout_ms: int | None = None) -> Channel:
        """The connection to an address, opened if needed. Concurrent callers share one attempt."""
        if self._is_closed:
            raise Unreachable("the pool is closed", stored=StoredState.NO)
        channel = self._open_to(address)
        if channel is not None:
            return channel
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(partial(self._connect_ended, address))
        # A caller that is cancelled must not cancel the attempt of the others.
        await asyncio.wait([task], timeout=None if timeout_ms is None else timeout_ms / 1000)
        if not task.done():
            raise Unreachable(
                f"no connection to {address} within {timeout_ms} ms", stored=StoredState.NO
            )
        if task.cancelled():
            raise Unreachable("the pool is closed", stored=StoredState.NO)
        return task.result()

    async def _connected(self, address: str, timeout_ms: int) -> tuple[Channel, int]:
        """A connection, and the rest of the timeout."""
        begun_ms = self._clock.monotonic_ms()
        channel = await self.connection(address, timeout_ms)
        return channel, max(0, begun_ms + timeout_ms - self._clock.monotonic_ms())

    def drop(self, address: str) -> None:
        """Close the connection to an address, if there is one."""
        channel = self._channels.pop(address, None)
        if channel is not None:
            channel.close()

    def leave_behind(self) -> None:
        """Drop all connections in a forked child without touching them: the parent uses them."""
        self._is_closed = True
        self._channels = {}

    async def close(self) -> None:
        """Send all written bytes and close all connections. Later calls raise Unreachable."""
        self._is_closed = True
        self._channels.clear()
        tasks = [*self._connecting.values()] + ([self._sweeper] if self._sweeper else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await close_all(self._alive, _CLOSE_MS_MAX)

    def _open_to(self, address: str) -> Channel | None:
        channel = self._channels.get(address)
        return channel if channel is not None and channel.is_open else None

    async def _connect(self, address: str) -> Channel:
        host, port = parse_address(address)
        channel = Channel(self._endpoint, self._dispatcher)
        try:
            async with asyncio.timeout(self._limits.connect_ms_max / 1000):
                await self._net.connect(lambda: channel, host, port, self._tls)
        except TimeoutError:
            waited = self._limits.connect_ms_max
            raise Unreachable(
                f"no connection to {address} within {waited} ms", stored=StoredState.NO
            ) from None
        except (OSError, ValueError) as error:  # ValueError: a host name that no resolver accepts
            raise Unreachable(
                f"no connection to {address}: {error}", stored=StoredState.NO
            ) from error
        self._channels[address] = channel
        if self._observer is not None:
            self._observer.connected(address)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return channel

    def _connect_ended(self, address: str, task: "asyncio.Task[Channel]") -> None:
        del self._connecting[address]
        if not task.cancelled():
            error = task.exception()  # retrieved here: all callers may have given up
            if error is not None and self._observer is not None:
                self._observer.disconnected(address, str(error))

    def _opened(self, channel: Channel) -> None:
        self._alive.add(channel)

    def _closed(self, channel: Channel) -> None:
        self._alive.discard(channel)
        for address in [known for known, one in self._channels.items() if one is channel]:
            del self._channels[address]
            if self._observer is not None and not channel.is_closing:
                self._observer.disconnected(address, "the connection was closed by the peer")

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep_ms(self._limits.sweep_ms)
            now_ms = self._clock.monotonic_ms()
            for channel in list(self._alive):
                channel.look_after(now_ms)
