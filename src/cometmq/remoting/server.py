"""Listens on ports, owns the accepted connections, and closes idle and stuck ones."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine
from ssl import SSLContext

from cometmq import descriptors
from cometmq.errors import CannotListen, TooFewDescriptors
from cometmq.protocol.limits import TLS_HANDSHAKE_MS_MAX
from cometmq.refusal_log import RefusalLog
from cometmq.remoting.channel import Channel
from cometmq.remoting.closing import close_all
from cometmq.remoting.dispatch import Dispatcher
from cometmq.remoting.endpoint import Endpoint
from cometmq.remoting.limits import Limits
from cometmq.remoting.tls import HANDSHAKE, ServerTls, TlsMode
from cometmq.seams import Clock, Net

log = logging.getLogger(__name__)

_CLOSE_MS_MAX = 1_000  # for what is still unsent when the server stops
_ACCEPT_RETRY_MS = 100  # after `accept` failed, perhaps without descriptors
_PORT_IS_BAD = (errno.EADDRINUSE, errno.EACCES)  # else the address is
_CONNECTIONS_LEAST = 8  # a server that can accept fewer does not start
_CONNECTIONS_FEW = 200  # a server that can accept fewer logs a warning at start


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
        self._refusals = RefusalLog(log, clock, "connections")
        self._descriptor_limit = descriptors.limit()
        # The system gives out the lowest free number: one from here on means that as many are open.
        self._first_reserved = self._descriptor_limit - descriptors.reserve(self._descriptor_limit)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._channels)

    def listen(self, host: str, port: int, dispatcher: Dispatcher) -> int:
        """Listen on an address. Returns the port; with port 0 the system chooses one."""
        listener = self.bind(host, port)
        self.serve(listener, dispatcher)
        return int(listener.getsockname()[1])

    def bind(self, host: str, port: int) -> socket.socket:
        """Bind an address. Connections are queued by the system until `serve`."""
        try:
            listener = self._net.listen(host, port, self._limits.backlog)
        except OSError as error:
            why = (error.strerror or str(error)).partition(" (while ")[0]
            setting = "listenPort" if error.errno in _PORT_IS_BAD else "bindAddress"
            raise CannotListen(f"cannot listen on {host}:{port}: {why}", setting) from error
        self._listeners.append(listener)
        return listener

    def serve(self, listener: socket.socket, dispatcher: Dispatcher) -> None:
        """Answer connections to a bound address."""
        if not self._listening:
            self._check_descriptors()
            self._listening.append(self._start(self._sweep()))
        self._listening.append(self._start(self._accept(listener, dispatcher)))

    def _check_descriptors(self) -> None:
        """Raise TooFewDescriptors if almost no connection fits; warn if few do."""
        wanted = self._limits.connections_max
        room = self._first_reserved - descriptors.in_use()
        bound = f"`ulimit -n` is {self._descriptor_limit}"
        if room < min(_CONNECTIONS_LEAST, wanted):
            raise TooFewDescriptors(
                f"{bound}, and the files of this server leave {max(room, 0)} descriptors for "
                f"connections: set it to {self._descriptor_limit + 1024} or more"
            )
        if room < min(_CONNECTIONS_FEW, wanted):
            log.warning(
                "%s: only %d connections can be accepted; raise it, to 65536 if possible",
                bound,
                room,
            )

    async def close(self) -> None:
        """Stop listening, send all written bytes, close every connection."""
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
                self._refusals.refused(
                    f"{error.strerror}; see `ulimit -n` and the machine's memory"
                )
                await self._clock.sleep_ms(_ACCEPT_RETRY_MS)
                continue
            reason = self._no_room_for(sock)
            if reason:
                self._refusals.refused(reason)
                sock.close()
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                channel = Channel(self._endpoint, dispatcher)
                task = self._start(self._welcome(sock, channel))
                self._welcoming[channel] = sock, task
            await asyncio.sleep(0)  # sock_accept does not wait while there are more: others may

    def _no_room_for(self, sock: socket.socket) -> str:
        """The reason to refuse a connection that was just accepted, or an empty text."""
        count = len(self._channels) + len(self._welcoming)
        if count >= self._limits.connections_max:
            return f"{count} are open, as many as a server accepts"
        if sock.fileno() >= self._first_reserved:
            return (
                f"{count} are open, and `ulimit -n` of {self._descriptor_limit} leaves no more "
                "descriptors for connections; raise it and restart"
            )
        return ""

    async def _welcome(self, sock: socket.socket, channel: Channel) -> None:
        """Hand a socket to a channel, through TLS if the mode and the first byte require it."""
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
