"""RealRegion: a mapped file of fixed size, for the log and the index."""

import errno
import logging
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

_PAGE_SIZE = mmap.PAGESIZE
_TOUCHED_PAGES_MAX = 64  # in one call, which holds the interpreter lock
_LOCKED_TOGETHER = 16 << 20  # bytes in one call, which holds the interpreter lock for 1 to 2 ms
_MAP_LOCKED = 0x2000 if sys.platform == "linux" else 0  # the mmap module does not define it
_LOCKED = mmap.MAP_SHARED | _MAP_LOCKED


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to errors of calls that take a descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


class RealRegion:
    """A mapped file. Its descriptor stays open, because the kernel reports write errors to it."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._map = mmap.mmap(descriptor, size)
        self.memory = memoryview(self._map)
        self._locks: list[mmap.mmap] = []

    def find(self, pattern: bytes, start: int) -> int:
        """Search the parts of the file that were written, at memory speed."""
        assert pattern[:1] != b"\0" != pattern[-1:], "a match must not reach into a hole"
        for begin, end in self.used(start):
            found = self._map.find(pattern, begin, end)
            if found >= 0:
                return found
        return -1

    def used(self, start: int) -> list[tuple[int, int]]:
        """Ask the file system: reading a gigabyte of holes would take seconds.

        Returns a list, because a read at the end of a range may extend it by reading ahead.
        """
        stretches = []
        while start < len(self._map):
            try:
                begin = os.lseek(self._descriptor, start, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # no data after `start`
            start = os.lseek(self._descriptor, begin, os.SEEK_HOLE)
            stretches.append((begin, start))
        return stretches

    def warm(self, pages_a_sync: int) -> None:
        """Write one byte of each page, a few pages at a time, then lock the pages if allowed."""
        step = _TOUCHED_PAGES_MAX * _PAGE_SIZE
        unsynced = 0
        for start in range(0, len(self.memory), step):
            pages = self.memory[start : start + step : _PAGE_SIZE]
            pages[:] = bytes(len(pages))
            unsynced += len(pages)
            if unsynced >= pages_a_sync:
                self.sync()
                unsynced = 0
        self.sync()
        self._lock()

    def _lock(self) -> None:
        """Map the file a second time with MAP_LOCKED: a locked page is in memory for all maps."""
        size = len(self._map)
        try:
            for start in range(0, size, _LOCKED_TOGETHER):
                part = mmap.mmap(
                    self._descriptor, min(_LOCKED_TOGETHER, size - start), _LOCKED, offset=start
                )
                self._locks.append(part)
        except OSError as error:
            self.cool()
            log.warning(
                "%s is not locked in memory (%s): allow it with `ulimit -l`, or do without",
                self.path,
                error,
            )

    def cool(self) -> None:
        locks, self._locks = self._locks, []
        for part in locks:
            part.close()

    def rewrite(self, start: int, end: int) -> None:
        """Write one byte of each page: the kernel marks the page dirty even if it is the same."""
        pages = self.memory[start - start % _PAGE_SIZE : end : _PAGE_SIZE]
        pages[:] = bytes(pages)

    def sync(self) -> None:
        """Use fdatasync, because `mmap.flush` would hold the interpreter lock."""
        with naming(self.path):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """The file is unmapped when the last view of it is released."""
        self.cool()
        os.close(self._descriptor)
        self.memory = memoryview(b"")
