"""A disk for tests that is full, slow or failing when the test says so."""

import errno
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from cometmq.client.durations import Duration, duration_ms
from cometmq.disk import RealDisk
from cometmq.seams import Disk, Lock, Region

T = TypeVar("T")


class FaultyDisk:
    """A disk that a test fills, slows down or breaks while a broker uses it.

        disk = FaultyDisk()
        async with EmbeddedCluster(disk=disk) as cluster:
            disk.fill()     # the broker refuses messages once it needs another file
            disk.free()     # and accepts them again
            disk.slow(0.5)  # each write takes half a second longer
            disk.fail()     # writes and syncs raise OSError

    All data is on a real disk, so nothing is lost when a fault ends. Reads never fail. After a
    failed sync of the log, a broker accepts no messages until it is restarted, because nobody knows
    what is on the disk; `repair` does not change that.

    Args:
        disk: The disk below. The default is the file system.
    """

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or RealDisk()
        self._is_full = False
        self._delay_ms = 0
        self._error: int | None = None

    # Faults

    def fill(self) -> None:
        """Let every write that may need room fail with ENOSPC, and report no free bytes.

        Messages still fit into the allocated part of the log, and files can be deleted.
        """
        self._is_full = True

    def free(self) -> None:
        """Make room again after `fill`."""
        self._is_full = False

    def slow(self, delay: Duration) -> None:
        """Let each write and sync take this much longer; 0 ends it."""
        self._delay_ms = duration_ms(delay, "delay")

    def fail(self, error: int = errno.EIO) -> None:
        """Let each write, sync and deletion raise OSError with this number."""
        self._error = error

    def repair(self) -> None:
        """Remove all faults: the disk works again."""
        self._is_full, self._delay_ms, self._error = False, 0, None

    def check(self, path: Path, *, needs_room: bool) -> None:
        """Apply the faults to a write that is about to begin."""
        if self._delay_ms:
            time.sleep(self._delay_ms / 1000)
        error = errno.ENOSPC if self._is_full and needs_room else self._error
        if error is not None:
            raise OSError(error, os.strerror(error), str(path))

    # The disk

    def read(self, path: Path) -> bytes:
        """Do what `Disk.read` does, with the faults applied."""
        return self._disk.read(path)

    def replace(self, path: Path, content: bytes) -> None:
        """Do what `Disk.replace` does, with the faults applied."""
        self.check(path, needs_room=True)
        self._disk.replace(path, content)

    def back_up(self, path: Path) -> None:
        """See `Disk.back_up`."""
        self.check(path, needs_room=True)
        self._disk.back_up(path)

    def create(self, path: Path, size: int) -> Region:
        """See `Disk.create`."""
        self.check(path, needs_room=True)
        return FaultyRegion(self, self._disk.create(path, size))

    def map(self, path: Path, size: int) -> Region:
        """See `Disk.map`."""
        return FaultyRegion(self, self._disk.map(path, size))

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return self._disk.size(path)

    def modified_ms(self, path: Path) -> int:
        """See `Disk.modified_ms`."""
        return self._disk.modified_ms(path)

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """See `Disk.read_at`."""
        return self._disk.read_at(path, offset, size)

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """See `Disk.write_at`."""
        self.check(path, needs_room=True)
        self._disk.write_at(path, offset, data, file_size)

    def write_all(self, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """See `Disk.write_all`."""
        if writes:
            self.check(writes[0][0], needs_room=True)
        self._disk.write_all(writes)

    def delete(self, path: Path) -> None:
        """See `Disk.delete`."""
        self.check(path, needs_room=False)
        self._disk.delete(path)

    def move(self, path: Path, to: Path) -> None:
        """See `Disk.move`."""
        self.check(path, needs_room=False)
        self._disk.move(path, to)

    def names(self, folder: Path) -> list[str]:
        """See `Disk.names`."""
        return self._disk.names(folder)

    def used_ratio(self, folder: Path) -> float:
        """1.0 if the disk is filled, otherwise that of the disk below."""
        return 1.0 if self._is_full else self._disk.used_ratio(folder)

    def capacity(self, folder: Path) -> tuple[int, int]:
        """Bytes in total and bytes free: none if the disk is filled."""
        total, free = self._disk.capacity(folder)
        return total, 0 if self._is_full else free

    def lock(self, path: Path) -> Lock:
        """See `Disk.lock`."""
        return self._disk.lock(path)

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """See `Disk.begin`."""
        return self._disk.begin(work)


class FaultyRegion:
    """A mapped file of a `FaultyDisk`: its syncs are slow or fail."""

    def __init__(self, disk: FaultyDisk, region: Region) -> None:
        self._disk = disk
        self._region = region
        self.path = region.path
        self.memory = region.memory

    def find(self, pattern: bytes, start: int) -> int:
        """See `Region.find`."""
        return self._region.find(pattern, start)

    def used(self, start: int) -> list[tuple[int, int]]:
        """See `Region.used`."""
        return self._region.used(start)

    def warm(self, pages_a_sync: int) -> None:
        """See `Region.warm`."""
        self._region.warm(pages_a_sync)

    def cool(self) -> None:
        """See `Region.cool`."""
        self._region.cool()

    def rewrite(self, start: int, end: int) -> None:
        """See `Region.rewrite`."""
        self._region.rewrite(start, end)

    def sync(self) -> None:
        """See `Region.sync`."""
        self._disk.check(self.path, needs_room=False)
        self._region.sync()

    def close(self) -> None:
        """See `Region.close`."""
        self.memory = memoryview(b"")
        self._region.close()
