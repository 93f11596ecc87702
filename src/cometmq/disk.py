"""The file system, as the Disk seam: what it says is durable survives a power cut."""

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

_OPEN_MAX = 256  # files that `write_all` has open, if there are descriptors for them
_SYNCS_MAX = 32  # of them that are synced side by side: the disk serves those that wait by one
_THREADS_MAX = 4  # flushes of log, queues and index, and the making of a file, side by side

# How a file without a name is opened, which gets one once it is complete; 0 where there are none.
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
# What is said where they are not known, by a file system or a sandbox, or cannot get a name.
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
        """Let others in."""
        os.close(self._descriptor)


class RealDisk:
    """See the top of the file."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._syncers: ThreadPoolExecutor | None = None
        # Half of the reserve: the other half is for files of the log and the index that are made.
        self._open_max = max(1, min(_OPEN_MAX, descriptors.reserve(descriptors.limit()) // 2))
        self._syncs_max = min(_SYNCS_MAX, self._open_max)
        self._unsynced_folders: set[Path] = set()  # a failed `write_all` leaves some to the next

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        return path.read_bytes()

    def replace(self, path: Path, content: bytes) -> None:
        """Temp file, fsync, rename, fsync of the folder."""
        path = path.resolve()  # a link stays one
        with naming(path), _new_file(path) as descriptor:
            if path.exists():
                os.fchmod(descriptor, path.stat().st_mode & 0o7777)
            _write_all(descriptor, content, 0)

    def back_up(self, path: Path) -> None:
        """With its mode: it may hold a password."""
        content, mode = path.read_bytes(), path.stat().st_mode & 0o7777
        with _new_file(path.with_name(f"{path.name}.bak")) as descriptor:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, content, 0)

    def create(self, path: Path, size: int) -> RealRegion:
        """Without a name until it is allocated: a full disk is told now, and by no signal later."""

        def allocate(descriptor: int) -> None:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)

        with naming(path):
            _make_folder(path.parent)
            os.close(_made(path, allocate))
            _sync_folder(path.parent)
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
            try:  # not `naming`: consumers wait for it
                return os.pread(descriptor, size, offset)
            except OSError as error:
                error.filename = str(path)
                raise

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """A full disk is an OSError here, where a mapped hole would be a signal."""
        if not path.exists():
            with naming(path):
                _make_folder(path.parent)
                os.close(_made(path, lambda descriptor: os.ftruncate(descriptor, file_size)))
                _sync_folder(path.parent)
        with naming(path), _opened(path, os.O_WRONLY) as descriptor:
            if os.fstat(descriptor).st_size < file_size:  # a crash came before it was whole
                os.ftruncate(descriptor, file_size)
            _write_all(descriptor, data, offset)
            os.fdatasync(descriptor)

    def write_all(self, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """Everything of a batch is written before anything is synced, and then side by side.

        The first sync then takes the names and sizes of all along, and the disk joins the others.
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
        """Each thread its share; when this returns, or fails, none is at work any more."""
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
        """The file, open, to be synced."""

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
        """Make the folders of a new file; those that get a new name are to be synced."""
        folder = path.parent
        if folder in self._unsynced_folders:
            return
        if not folder.is_dir():
            self._note_new(folder)
            folder.mkdir(exist_ok=True)
        self._unsynced_folders.add(folder)

    def delete(self, path: Path) -> None:
        """Unlink, fsync of the folder."""
        try:
            path.unlink(missing_ok=True)
        except NotADirectoryError as error:
            error.filename = str(path.parent)
            raise
        if path.parent.exists():
            _sync_folder(path.parent)

    def move(self, path: Path, to: Path) -> None:
        """Rename, fsync of both folders."""
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
        """Free is what others than root may use."""
        stat = _file_system_of(folder)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

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
            raise InUse(f"{path} is held: another process uses this store") from error
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
    temp = _temp_of(path)
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


def _made(path: Path, fill: Callable[[int], None]) -> int:
    """A new file, open, that gets its name after `fill`: a killed process leaves no half of one.

    Nor one of another name, where the file system knows files without: the original refuses a
    store in which a file of log or queues has another size, or a name that is no number.
    """
    descriptor = _made_nameless(path, fill) if _NAMELESS else None
    return _made_by_temp(path, fill) if descriptor is None else descriptor


def _made_nameless(path: Path, fill: Callable[[int], None]) -> int | None:
    """None where there are no files without a name, or they cannot get one."""
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
    try:  # without a folder, os.link would make a link to the link that `source` is
        os.link(source, path, src_dir_fd=descriptor)
    except FileExistsError:  # its folder could not be synced, and it was never in use
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
        with suppress(OSError):  # the first error is the one to tell
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
    while not folder.exists():  # it will be made there
        folder = folder.parent
    return os.statvfs(folder)


def _make_folder(folder: Path) -> None:
    """With its parents; each is durable in the one above it."""
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
