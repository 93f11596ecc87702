"""The world behind three small interfaces: Disk, Clock, Net, with the real ones.

Stores, tables and connections never call `os`, `time` or `socket` themselves, so that a test can
cut the power, jump the clock and drop the wire.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext
from typing import Protocol


class Timer(Protocol):
    """A call that is yet to come."""

    def cancel(self) -> None:
        """It does not come."""


class Clock(Protocol):
    """Time. Wall time is for people and records, monotonic time for every wait and expiry."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment; never steps back."""

    def call_later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Call on the running loop after the delay."""

    async def sleep_ms(self, delay_ms: int) -> None:
        """Return after the delay."""


class Disk(Protocol):
    """Files. What `replace` has returned from survives a power cut, whole."""

    def read(self, path: Path) -> bytes:
        """The content of a file; FileNotFoundError if there is none."""

    def replace(self, path: Path, content: bytes) -> None:
        """Give a file a new content, making its folder; a crash leaves the old one or the new."""


class Net(Protocol):
    """TCP."""

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        """A listening socket; OSError if the address cannot be had."""

    async def peek(self, sock: socket.socket) -> bytes:
        """The first byte that comes, left unread; none if the peer closes first."""

    async def accepted(
        self, factory: Callable[[], asyncio.Protocol], sock: socket.socket, tls: SSLContext | None
    ) -> None:
        """Give an accepted socket to a protocol."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, tls: SSLContext | None
    ) -> None:
        """Connect a protocol; OSError if it cannot be."""


class RealClock:
    """The machine's own."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since the machine started, or so."""
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """By the running loop."""
        return asyncio.get_running_loop().call_later(delay_ms / 1000, call)

    async def sleep_ms(self, delay_ms: int) -> None:
        """By the running loop."""
        await asyncio.sleep(delay_ms / 1000)


class RealDisk:
    """The file system."""

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        return path.read_bytes()

    def replace(self, path: Path, content: bytes) -> None:
        """Temp file, fsync, rename, fsync of the folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_name(path.name + ".tmp")
        with temp.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class RealNet:
    """The running loop's sockets."""

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        """IPv6 if the host is written so, else IPv4."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=backlog)
        listener.setblocking(False)
        return listener

    async def peek(self, sock: socket.socket) -> bytes:
        """By the kernel: the byte stays in its buffer for the protocol."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(sock, arrived.set)
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(sock)
        return sock.recv(1, socket.MSG_PEEK)

    async def accepted(
        self, factory: Callable[[], asyncio.Protocol], sock: socket.socket, tls: SSLContext | None
    ) -> None:
        """With the TLS handshake, if there is a context."""
        await asyncio.get_running_loop().connect_accepted_socket(factory, sock, ssl=tls)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, tls: SSLContext | None
    ) -> None:
        """With the TLS handshake, if there is a context."""
        await asyncio.get_running_loop().create_connection(factory, host, port, ssl=tls)
