"""A file of fixed size that is mapped: what a log is written to."""

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
_TOUCHED_PAGES_MAX = 64  # at a time: the interpreter lock is held meanwhile
_LOCKED_TOGETHER = 16 << 20  # bytes; the same holds: a millisecond or two
_MAP_LOCKED = 0x2000 if sys.platform == "linux" else 0  # for which the module has no name
_LOCKED = mmap.MAP_SHARED | _MAP_LOCKED


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of calls that take a descriptor name no file: add it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


class RealRegion:
    """A mapped file. Its descriptor stays open: write errors are reported to it."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._map = mmap.mmap(descriptor, size)
        self.memory = memoryview(self._map)
        self._locks: list[mmap.mmap] = []

    def find(self, pattern: bytes, start: int) -> int:
        """By the map's own search, at memory speed, and not in what was never written."""
        assert pattern[:1] != b"\0" != pattern[-1:], "it cannot reach into what was never written"
        for begin, end in self.used(start):
            found = self._map.find(pattern, begin, end)
            if found >= 0:
                return found
        return -1

    def used(self, start: int) -> list[tuple[int, int]]:
        """As the file system knows it: to read a gigabyte that was never written takes seconds.

        Not one by one: a read at the end of a stretch, by reading ahead, makes it longer.
        """
        stretches = []
        while start < len(self._map):
            try:
                begin = os.lseek(self._descriptor, start, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # nothing more
            start = os.lseek(self._descriptor, begin, os.SEEK_HOLE)
            stretches.append((begin, start))
        return stretches

    def warm(self, pages_a_sync: int) -> None:
        """One byte of each page, a few pages at a time; then they are locked, if that may be."""
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
        """By maps of its parts beside its own: what one of them locks is in memory for all."""
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
        """Unlock what is locked."""
        locks, self._locks = self._locks, []
        for part in locks:
            part.close()

    def rewrite(self, start: int, end: int) -> None:
        """One byte of each page: the kernel does not look whether it is another one."""
        pages = self.memory[start - start % _PAGE_SIZE : end : _PAGE_SIZE]
        pages[:] = bytes(pages)

    def sync(self) -> None:
        """By fdatasync: `mmap.flush` would hold the interpreter lock."""
        with naming(self.path):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """The map itself goes when the last view of it does."""
        self.cool()
        os.close(self._descriptor)
        self.memory = memoryview(b"")
