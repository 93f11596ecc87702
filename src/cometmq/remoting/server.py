"""Listens on one or more ports, keeps the connections that come, and sweeps out the dead ones."""

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Coroutine
from ssl import SSLContext

from cometmq.errors import CannotListen
from cometmq.protocol.limits import TLS_HANDSHAKE_MS_MAX
from cometmq.remoting.channel import Channel
from cometmq.remoting.closing import close_all
from cometmq.remoting.dispatch import Dispatcher
from cometmq.remoting.endpoint import Endpoint
from cometmq.remoting.limits import Limits
from cometmq.remoting.tls import HANDSHAKE, ServerTls, TlsMode
from cometmq.seams import Clock, Net

log = logging.getLogger(__name__)

_CLOSE_MS_MAX = 1_000  # for what is still unsent when the server stops
_ACCEPT_RETRY_MS = 100  # after the machine refused us a connection, out of descriptors perhaps
_PORT_IS_BAD = (errno.EADDRINUSE, errno.EACCES)  # else the address is
_FILES_KEPT_BACK = 256  # descriptors that connections may not take


class Server:
    """The serving side of many connections. Each port has a table of its own."""

    def __init__(
        self,
        clock: Clock,
        net: Net,
        *,
        limits: Limits | None = None,
        tls: ServerTls | None = None,
        on_close: Callable[[Channel], None] = lambda channel: None,
    ) -> None:
        self._clock = clock
        self._net = net
        self._limits = limits or Limits()
        self._tls = tls or ServerTls()
        self._on_close = on_close
        self._endpoint = Endpoint(clock, self._limits, self._opened, self._closed)
        self._channels: set[Channel] = set()
        # Accepted, and not yet open. One that is open is closed as such: cancelling its welcome
        # would close it under its channel, and a TLS transport closed twice cannot be aborted.
        self._welcoming: dict[Channel, tuple[socket.socket, asyncio.Task[None]]] = {}
        self._listeners: list[socket.socket] = []
        self._listening: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES_KEPT_BACK
        self._connections_max = max(1, min(self._limits.connections_max, files_max))

    @property
    def connection_count(self) -> int:
        """How many peers are connected."""
        return len(self._channels)

    def listen(self, host: str, port: int, dispatcher: Dispatcher) -> int:
        """Answer on this address from now on; the port, which is chosen for us if 0 is given."""
        listener = self.bind(host, port)
        self.serve(listener, dispatcher)
        return int(listener.getsockname()[1])

    def bind(self, host: str, port: int) -> socket.socket:
        """Take an address, and let who connects wait until it is served."""
        try:
            listener = self._net.listen(host, port, self._limits.backlog)
        except OSError as error:
            why = (error.strerror or str(error)).partition(" (while ")[0]
            setting = "listenPort" if error.errno in _PORT_IS_BAD else "bindAddress"
            raise CannotListen(f"cannot listen on {host}:{port}: {why}", setting) from error
        self._listeners.append(listener)
        return listener

    def serve(self, listener: socket.socket, dispatcher: Dispatcher) -> None:
        """Answer who connects to an address that was taken."""
        if not self._listening:
            self._listening.append(self._start(self._sweep()))
        self._listening.append(self._start(self._accept(listener, dispatcher)))

    async def close(self) -> None:
        """Stop listening, send what is written, close every connection."""
        welcoming = list(self._welcoming.values())
        for task in [*self._listening, *(task for _, task in welcoming)]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for sock in [*self._listeners, *(sock for sock, _ in welcoming)]:
            sock.close()
        await close_all(self._channels, _CLOSE_MS_MAX)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Connections come and go

    async def _accept(self, listener: socket.socket, dispatcher: Dispatcher) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("cannot take a connection: %s", error)
                await self._clock.sleep_ms(_ACCEPT_RETRY_MS)
                continue
            if len(self._channels) + len(self._welcoming) >= self._connections_max:
                log.warning("connection refused: there are %d, the limit", self._connections_max)
                sock.close()
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                channel = Channel(self._endpoint, dispatcher)
                task = self._start(self._welcome(sock, channel))
                self._welcoming[channel] = sock, task
            await asyncio.sleep(0)  # sock_accept does not wait while there are more: others may

    async def _welcome(self, sock: socket.socket, channel: Channel) -> None:
        """Hand a socket to a channel, through TLS if that is what its mode and first byte say."""
        try:
            async with asyncio.timeout(self._limits.idle_ms_max / 1000):
                context = await self._context_for(sock)
            async with asyncio.timeout(TLS_HANDSHAKE_MS_MAX / 1000):
                await self._net.accepted(lambda: channel, sock, context)
        except (OSError, TimeoutError) as error:
            log.info("connection given up before its first request: %s", error or "too slow")
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise
        finally:
            self._welcoming.pop(channel, None)

    async def _context_for(self, sock: socket.socket) -> SSLContext | None:
        if self._tls.mode is TlsMode.PERMISSIVE and self._tls.context is not None:
            first = await self._net.peek(sock)
            return self._tls.context if first == HANDSHAKE else None
        return self._tls.context if self._tls.mode is TlsMode.ENFORCING else None

    def _opened(self, channel: Channel) -> None:
        self._welcoming.pop(channel, None)
        self._channels.add(channel)

    def _closed(self, channel: Channel) -> None:
        self._channels.discard(channel)
        self._on_close(channel)

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep_ms(self._limits.sweep_ms)
            now_ms = self._clock.monotonic_ms()
            for channel in list(self._channels):
                channel.look_after(now_ms)
