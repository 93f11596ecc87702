"""RealDisk: the file system behind the Disk interface, with durable writes."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cometmq import descriptors
from cometmq.errors import BadState, InUse
from cometmq.region import RealRegion, naming

T = TypeVar("T")

_OPEN_MAX = 256  # open files of `write_all`, if there are enough descriptors
_SYNCS_MAX = 32  # concurrent syncs: the disk serves waiting syncs with one flush
_THREADS_MAX = 4  # flushes of log, queues and index, and file creation

# The flag that opens a file without a name, which is linked once it is complete; 0 if unsupported.
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
# Errors of file systems and sandboxes that do not support files without a name.
_KNOWS_NO_NAMELESS = (
    errno.EOPNOTSUPP,
    errno.EISDIR,
    errno.EINVAL,
    errno.ENOENT,
    errno.EXDEV,
    errno.EPERM,
    errno.ENOSYS,
)


class RealLock:
    """An flock, which ends with the process however that ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class RealDisk:
    """Files of the operating system. Writes that are documented as durable are fsynced."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._syncers: ThreadPoolExecutor | None = None
        # Half of the reserve: the other half is for new files of the log and the index.
        self._open_max = max(1, min(_OPEN_MAX, descriptors.reserve(descriptors.limit()) // 2))
        self._syncs_max = min(_SYNCS_MAX, self._open_max)
        self._unsynced_folders: set[Path] = (
            set()
        )  # a failed `write_all` leaves them to the next one

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        return path.read_bytes()

    def replace(self, path: Path, content: bytes) -> None:
        """Write a temporary file, fsync, rename it, fsync the folder."""
        path = path.resolve()  # a symbolic link stays a link
        with naming(path), _new_file(path) as descriptor:
            if path.exists():
                os.fchmod(descriptor, path.stat().st_mode & 0o7777)
            _write_all(descriptor, content, 0)

    def back_up(self, path: Path) -> None:
        """Copy the mode as well: the file may contain a password."""
        content, mode = path.read_bytes(), path.stat().st_mode & 0o7777
        with _new_file(path.with_name(f"{path.name}.bak")) as descriptor:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, content, 0)

    def create(self, path: Path, size: int) -> RealRegion:
        """Allocate it now: a full disk is an OSError here and would be a SIGBUS later."""

        def allocate(descriptor: int) -> None:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)

        with naming(path):
            _make_folder(path.parent)
            os.close(_made(path, allocate))
            _sync_folder(path.parent)
            return self.map(path, size)

    def map(self, path: Path, size: int) -> RealRegion:
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
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """The mtime. That of a mapped file changes when its pages are written out."""
        return path.stat().st_mtime_ns // 1_000_000

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        with _opened(path, os.O_RDONLY) as descriptor:
            try:  # not `naming`, which is slower: consumers wait for this
                return os.pread(descriptor, size, offset)
            except OSError as error:
                error.filename = str(path)
                raise

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """Not mapped: on a full disk this raises OSError; a write to a mapped hole is a SIGBUS."""
        if not path.exists():
            with naming(path):
                _make_folder(path.parent)
                os.close(_made(path, lambda descriptor: os.ftruncate(descriptor, file_size)))
                _sync_folder(path.parent)
        with naming(path), _opened(path, os.O_WRONLY) as descriptor:
            if os.fstat(descriptor).st_size < file_size:  # a crash left it incomplete
                os.ftruncate(descriptor, file_size)
            _write_all(descriptor, data, offset)
            os.fdatasync(descriptor)

    def write_all(self, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """Write all files of a batch, then sync them concurrently.

        The first sync then covers the metadata of all files, and the disk merges the others.
        """
        for start in range(0, len(writes), self._open_max):
            with ExitStack() as opened:
                files = []
                for write in writes[start : start + self._open_max]:
                    with naming(write[0]):
                        files.append((write[0], self._written(*write)))
                    opened.callback(os.close, files[-1][1])
                self._sync_side_by_side(_sync_data, files)
        folders = list(self._unsynced_folders)
        self._sync_side_by_side(_sync_folder, folders)
        self._unsynced_folders.difference_update(folders)

    def _sync_side_by_side(self, sync: Callable[[T], None], things: list[T]) -> None:
        """Sync on several threads. No thread is still working when this returns or raises."""
        if self._syncers is None:
            self._syncers = ThreadPoolExecutor(self._syncs_max, thread_name_prefix="sync")

        def sync_each(share: list[T]) -> None:
            for thing in share:
                sync(thing)

        count = min(self._syncs_max, len(things))
        shares = [things[first::count] for first in range(count)]
        syncs = [self._syncers.submit(sync_each, share) for share in shares]
        wait(syncs)
        for one in syncs:
            one.result()

    def _written(self, path: Path, offset: int, data: bytes, file_size: int) -> int:
        """Write to a file and return its open descriptor, to be synced."""

        def write(descriptor: int) -> None:
            with naming(path):
                if os.fstat(descriptor).st_size < file_size:
                    os.ftruncate(descriptor, file_size)
                _write_all(descriptor, data, offset)

        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._note_new(path)
            return _made(path, write)
        try:
            write(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _note_new(self, path: Path) -> None:
        """Create the folders of a new file; `write_all` syncs the folders that got a new entry."""
        folder = path.parent
        if folder in self._unsynced_folders:
            return
        if not folder.is_dir():
            self._note_new(folder)
            folder.mkdir(exist_ok=True)
        self._unsynced_folders.add(folder)

    def delete(self, path: Path) -> None:
        """Unlink it and fsync the folder."""
        try:
            path.unlink(missing_ok=True)
        except NotADirectoryError as error:
            error.filename = str(path.parent)
            raise
        if path.parent.exists():
            _sync_folder(path.parent)

    def move(self, path: Path, to: Path) -> None:
        """Rename it and fsync both folders."""
        _make_folder(to.parent)
        path.replace(to)
        _sync_folder(to.parent)
        _sync_folder(path.parent)

    def names(self, folder: Path) -> list[str]:
        """What is in a folder; NotADirectoryError if it is something else."""
        try:
            return sorted(path.name for path in folder.iterdir())
        except FileNotFoundError:
            return []

    def used_ratio(self, folder: Path) -> float:
        """As df counts: blocks that only root may use count as used."""
        stat = _file_system_of(folder)
        used = stat.f_blocks - stat.f_bfree
        return used / (used + stat.f_bavail) if used + stat.f_bavail else 1.0

    def capacity(self, folder: Path) -> tuple[int, int]:
        """Free bytes do not include those reserved for root."""
        stat = _file_system_of(folder)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def lock(self, path: Path) -> RealLock:
        _make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise InUse(f"{path} is held: another process uses this store") from error
        return RealLock(descriptor)

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Run it on one of a few threads, which are started at the first use."""
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
    """A temporary file that is renamed to `path` once it is complete and durable."""
    _make_folder(path.parent)
    temp = _temp_of(path)
    try:
        with _opened(temp, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as descriptor:
            yield descriptor
            os.fsync(descriptor)
        temp.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to report
            temp.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _made(path: Path, fill: Callable[[int], None]) -> int:
    """Create a file that gets its name after `fill`, so that a killed process leaves no part of it.

    If the file system supports files without a name, it leaves no temporary file either: Apache's
    broker refuses a store with a log or queue file of another size or a name that is not a number.
    """
    descriptor = _made_nameless(path, fill) if _NAMELESS else None
    return _made_by_temp(path, fill) if descriptor is None else descriptor


def _made_nameless(path: Path, fill: Callable[[int], None]) -> int | None:
    """Returns None if the file system does not support files without a name."""
    try:
        descriptor = os.open(path.parent, _NAMELESS | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno not in _KNOWS_NO_NAMELESS:
            raise
        return None
    try:
        fill(descriptor)
        is_named = _give_name(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    if not is_named:
        os.close(descriptor)
    return descriptor if is_named else None


def _give_name(descriptor: int, path: Path) -> bool:
    source = f"/proc/self/fd/{descriptor}"
    try:  # without src_dir_fd, os.link would link the symbolic link itself
        os.link(source, path, src_dir_fd=descriptor)
    except FileExistsError:  # left by a failed sync of its folder, and never used
        path.unlink()
        return _give_name(descriptor, path)
    except OSError as error:
        if error.errno not in _KNOWS_NO_NAMELESS:
            raise
        return False
    return True


def _made_by_temp(path: Path, fill: Callable[[int], None]) -> int:
    temp = _temp_of(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(temp, flags, 0o644)
    try:
        fill(descriptor)
        temp.replace(path)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):  # the first error is the one to report
            temp.unlink(missing_ok=True)
        raise
    return descriptor


def _temp_of(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _file_system_of(folder: Path) -> os.statvfs_result:
    while not folder.exists():  # it will be created there
        folder = folder.parent
    return os.statvfs(folder)


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, each durable in its parent."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_data(file: tuple[Path, int]) -> None:
    with naming(file[0]):
        os.fdatasync(file[1])


def _sync_folder(folder: Path) -> None:
    with naming(folder), _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
