"""Disk, Clock and Net: interfaces to the outside world, and the real Clock and Net.

Stores, tables and connections never call `os`, `time` or `socket` themselves. So a test can cut the
power, set the clock and drop connections.
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
    """A call that is scheduled."""

    def cancel(self) -> None:
        """Cancel the call, if it has not been made yet."""


class Clock(Protocol):
    """Wall time is for people and records, monotonic time for every wait and expiry."""

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
        """The next position of the pattern from `start` on; -1 if it does not occur."""

    def used(self, start: int) -> list[tuple[int, int]]:
        """The ranges (begin, end) from `start` on that may hold data; all other bytes are zero."""

    def warm(self, pages_a_sync: int) -> None:
        """Load every page of a new file into memory and lock it there, so that no put waits for it.

        Syncs after each `pages_a_sync` pages. Pages stay locked until `cool`, if the system allows.
        """

    def cool(self) -> None:
        """Unlock the pages."""

    def rewrite(self, start: int, end: int) -> None:
        """Mark a range as changed, so that the next sync writes it again.

        After a failed sync, the kernel may consider pages written that never reached the disk.
        """

    def sync(self) -> None:
        """Make all earlier writes durable. Raises OSError if that failed."""

    def close(self) -> None:
        """Release the file. Views that readers still hold stay valid."""


class Disk(Protocol):
    """Files. Every call may block; `begin` runs work on a thread."""

    def read(self, path: Path) -> bytes:
        """The content of a file. Raises FileNotFoundError."""

    def replace(self, path: Path, content: bytes) -> None:
        """Replace the content of a file durably; a crash leaves the old or the new content."""

    def back_up(self, path: Path) -> None:
        """Copy a file durably to its name with .bak, with the same permissions."""

    def create(self, path: Path, size: int) -> Region:
        """Create and allocate a file of zeros durably. Raises OSError if the disk is full."""

    def map(self, path: Path, size: int) -> Region:
        """Map an existing file. Raises BadState if it has another size."""

    def size(self, path: Path) -> int:
        """The size of a file. Raises FileNotFoundError."""

    def modified_ms(self, path: Path) -> int:
        """The time of the last write to a file, in ms since 1970."""

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """A part of a file; shorter if the file ends before it."""

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """Write a part of a file durably; a missing file is created, sparse, with `file_size`."""

    def write_all(self, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """Do several `write_at`: all are durable when it returns; after an OSError some may be."""

    def delete(self, path: Path) -> None:
        """Remove a file durably; a missing file is not an error."""

    def move(self, path: Path, to: Path) -> None:
        """Rename a file durably, creating the target's folder; replaces a file of that name."""

    def names(self, folder: Path) -> list[str]:
        """The sorted names in a folder; empty if the folder is missing."""

    def used_ratio(self, folder: Path) -> float:
        """The used share of the file system of a folder: 0 to 1."""

    def capacity(self, folder: Path) -> tuple[int, int]:
        """The total and the free bytes of the file system of a folder."""

    def lock(self, path: Path) -> "Lock":
        """Lock a file for this process. Raises InUse if another process holds it."""

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Run blocking work on a thread; the loop awaits the result with `wrap_future`."""


class Lock(Protocol):
    """A lock file that this process holds."""

    def release(self) -> None:
        """Release the lock."""


class Net(Protocol):
    """TCP connections."""

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        """A listening socket. Raises OSError if the address is not available."""

    async def peek(self, sock: socket.socket) -> bytes:
        """The first byte that arrives, without consuming it; empty if the peer closes first."""

    async def accepted(
        self, factory: Callable[[], asyncio.Protocol], sock: socket.socket, tls: SSLContext | None
    ) -> None:
        """Connect an accepted socket to a protocol."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, tls: SSLContext | None
    ) -> None:
        """Open a connection for a protocol. Raises OSError."""


class RealClock:
    """The clocks of the machine, and timers of the running loop."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, call)

    async def sleep_ms(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)


class RealNet:
    """Sockets of the running loop."""

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        """Use IPv6 if the host contains a colon, otherwise IPv4."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=backlog)
        listener.setblocking(False)
        return listener

    async def peek(self, sock: socket.socket) -> bytes:
        """MSG_PEEK: the byte stays in the kernel's buffer for the protocol."""
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
        """With a TLS handshake if `tls` is set."""
        await asyncio.get_running_loop().connect_accepted_socket(factory, sock, ssl=tls)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, tls: SSLContext | None
    ) -> None:
        """With a TLS handshake if `tls` is set."""
        await asyncio.get_running_loop().create_connection(factory, host, port, ssl=tls)
