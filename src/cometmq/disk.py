"""The file system, as the Disk seam: what it says is durable survives a power cut."""

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cometmq.errors import BadState

T = TypeVar("T")

_THREADS_MAX = 4  # flushes of log, queues and index, and the making of a file, side by side


class RealRegion:
    """A mapped file. Its descriptor stays open: write errors are reported to it."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._map = mmap.mmap(descriptor, size)
        self.memory = memoryview(self._map)

    def find(self, pattern: bytes, start: int) -> int:
        """By the map's own search, at memory speed."""
        return self._map.find(pattern, start)

    def sync(self) -> None:
        """By fdatasync: `mmap.flush` would hold the interpreter lock."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """The map itself goes when the last view of it does."""
        os.close(self._descriptor)
        self.memory = memoryview(b"")


class RealLock:
    """An flock, which ends with the process however that ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others in."""
        os.close(self._descriptor)


class RealDisk:
    """See the top of the file."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        return path.read_bytes()

    def replace(self, path: Path, content: bytes) -> None:
        """Temp file, fsync, rename, fsync of the folder."""
        path = path.resolve()  # a link stays one
        with _new_file(path) as descriptor:
            if path.exists():
                os.fchmod(descriptor, path.stat().st_mode & 0o7777)
            _write_all(descriptor, content, 0)

    def create(self, path: Path, size: int) -> RealRegion:
        """Temp file, allocated so that a full disk is told now and not by a signal later."""
        with _new_file(path) as descriptor:
            os.posix_fallocate(descriptor, 0, size)
        return self.map(path, size)

    def map(self, path: Path, size: int) -> RealRegion:
        """Shared, to read and write."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor).st_size
            if found != size:
                raise BadState(f"{path} has {found} bytes, not {size}")
            return RealRegion(path, descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise

    def size(self, path: Path) -> int:
        """Of a file."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """Its mtime, which a mapped file gets when its pages are written out."""
        return path.stat().st_mtime_ns // 1_000_000

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """One pread."""
        with _opened(path, os.O_RDONLY) as descriptor:
            return os.pread(descriptor, size, offset)

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """A full disk is an OSError here, where a mapped hole would be a signal."""
        if not path.exists():
            with _new_file(path) as descriptor:
                os.ftruncate(descriptor, file_size)
        with _opened(path, os.O_WRONLY) as descriptor:
            if os.fstat(descriptor).st_size < file_size:  # a crash came before it was whole
                os.ftruncate(descriptor, file_size)
            _write_all(descriptor, data, offset)
            os.fdatasync(descriptor)

    def delete(self, path: Path) -> None:
        """Unlink, fsync of the folder."""
        path.unlink(missing_ok=True)
        if path.parent.exists():
            _sync_folder(path.parent)

    def names(self, folder: Path) -> list[str]:
        """What is in a folder."""
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def used_ratio(self, folder: Path) -> float:
        """As df counts: blocks that only root may use count as used."""
        while not folder.exists():  # it will be made there
            folder = folder.parent
        stat = os.statvfs(folder)
        used = stat.f_blocks - stat.f_bfree
        return used / (used + stat.f_bavail) if used + stat.f_bavail else 1.0

    def lock(self, path: Path) -> RealLock:
        """By flock."""
        _make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise BadState(f"{path} is held: another process uses this store") from error
        return RealLock(descriptor)

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """On one of a few threads, made at the first use."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="disk")
        return self._threads.submit(work)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _new_file(path: Path) -> Iterator[int]:
    """A file under another name, which takes its own once it is complete and durable."""
    _make_folder(path.parent)
    temp = path.with_name(path.name + ".tmp")
    try:
        with _opened(temp, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as descriptor:
            yield descriptor
            os.fsync(descriptor)
        temp.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temp.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _make_folder(folder: Path) -> None:
    """With its parents; each is durable in the one above it."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    with _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
