"""The world behind three small interfaces: Disk, Clock, Net, with the real ones.

Stores, tables and connections never call `os`, `time` or `socket` themselves, so that a test can
cut the power, jump the clock and drop the wire.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from ssl import SSLContext
from typing import Protocol, TypeVar

T = TypeVar("T")


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


class Region(Protocol):
    """A file of fixed size, mapped and allocated: writing to its memory cannot fail."""

    path: Path
    memory: memoryview

    def find(self, pattern: bytes, start: int) -> int:
        """Where the pattern next stands; -1 if nowhere."""

    def used(self, start: int) -> list[tuple[int, int]]:
        """Stretches from `start` on, begin and end, outside of which there are only zeros."""

    def warm(self, pages_a_sync: int) -> None:
        """Have every page of a new file in memory, syncing after so many: no put waits for one.

        There they stay until it is cooled, as far as the system allows.
        """

    def cool(self) -> None:
        """Its pages may leave memory again."""

    def rewrite(self, start: int, end: int) -> None:
        """Write what stands there once more, so that the next sync covers it.

        After a sync that failed, a kernel may take for written what never reached the disk.
        """

    def sync(self) -> None:
        """Return when what was written before the call survives a power cut; OSError if not."""

    def close(self) -> None:
        """No more use of it from our side; readers that hold a view keep it alive."""


class Disk(Protocol):
    """Files. All of it may block; `begin` runs something off the loop."""

    def read(self, path: Path) -> bytes:
        """The content of a file; FileNotFoundError if there is none."""

    def replace(self, path: Path, content: bytes) -> None:
        """Give a file a new content, making its folder; a crash leaves the old one or the new."""

    def create(self, path: Path, size: int) -> Region:
        """A new file of zeros that is there, whole, after a power cut; OSError when full."""

    def map(self, path: Path, size: int) -> Region:
        """A file that is there; BadState if it has another size."""

    def size(self, path: Path) -> int:
        """Of a file; FileNotFoundError if there is none."""

    def modified_ms(self, path: Path) -> int:
        """When a file was last written to, in ms since 1970."""

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """A part of a file; less at its end."""

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """Write a part of a file, made with holes and this size if need be, and make it durable."""

    def write_all(self, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """As `write_at` of each: all are durable when it returns; on OSError some may be."""

    def delete(self, path: Path) -> None:
        """Remove a file for good; one that is not there is no error."""

    def move(self, path: Path, to: Path) -> None:
        """Rename a file durably, creating the target's folder; replaces a file of that name."""

    def names(self, folder: Path) -> list[str]:
        """What is in a folder, sorted; nothing if it is not there."""

    def used_ratio(self, folder: Path) -> float:
        """How full the file system is that holds the folder: 0 to 1."""

    def capacity(self, folder: Path) -> tuple[int, int]:
        """Bytes in all and bytes free of that file system."""

    def lock(self, path: Path) -> "Lock":
        """Hold a lock file for this process alone; InUse if another holds it."""

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Start something that blocks, on a thread; the loop awaits it with `wrap_future`."""


class Lock(Protocol):
    """A file that keeps other processes out."""

    def release(self) -> None:
        """Let others in."""


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
