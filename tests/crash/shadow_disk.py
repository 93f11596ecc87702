"""A disk in memory that knows what a power cut would leave of it.

Each file has a content that the process sees and one that is durable. Every call is made of the
steps that `RealDisk` takes (make a folder, write, fsync, rename, fsync of the folder), and before
each of them the power can go, or a test can take an image of the disk as a cut would leave it.

What a cut leaves: of each file what was last synced, plus any of the 512-byte sectors written
since; of each folder what was last synced, plus any of the creations, renames and deletions since.
A file that was never synced may have its size or none.
"""

import errno
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from cometmq.errors import BadState, InUse
from crash.shadow_files import ALWAYS_NEW_MS, Names, ShadowFile, folder_of

T = TypeVar("T")


class PowerCut(BaseException):
    """The machine is off. No code may catch it, as none would run."""


class ShadowRegion:
    """A mapped file."""

    def __init__(self, disk: "ShadowDisk", path: Path, file: ShadowFile) -> None:
        self.path = path
        self.memory = memoryview(file.seen)
        self._disk = disk
        self._file = file
        self._is_open = True

    def find(self, pattern: bytes, start: int) -> int:
        """As bytes do."""
        return self._file.seen.find(pattern, start)

    def used(self, start: int) -> list[tuple[int, int]]:
        """All of it may be."""
        return [(start, len(self._file.seen))]

    def warm(self, pages_a_sync: int) -> None:
        """It is in memory."""
        self.sync()

    def cool(self) -> None:
        """It stays there."""

    def rewrite(self, start: int, end: int) -> None:
        """In no step: the power may go before a sync."""
        self._file.rewrite(start, end)

    def sync(self) -> None:
        """One fdatasync."""
        if not self._is_open:
            raise OSError(errno.EBADF, "a sync of a closed file")
        self._disk.sync_file(self._file)

    def close(self) -> None:
        """The memory stays with those who hold a view."""
        self._is_open = False
        self.memory = memoryview(b"")


class ShadowLock:
    """Held until it is released."""

    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        """Let others in."""
        self._held.discard(self._path)


class ShadowDisk:
    """See the top of the file. `steps` counts what was done, syncs of files apart in `syncs`."""

    def __init__(self, names: Names | None = None) -> None:
        self._names = names or Names({}, {"/"})
        self._locks: set[Path] = set()
        self._unsynced_folders: set[str] = set()
        self._held: list[HeldWork[Any]] | None = None
        self._dropping = [file for file in self._names.files.values() if file.has_dropped]
        self.steps = 0
        self.syncs = 0
        self.is_off = False
        self.cut_at: int | None = None  # the power goes before this step
        self.fail_sync_at: int | None = None  # this sync fails, and what it was to write is lost
        self.room: int | None = None  # bytes that may yet be allocated or written to new places
        self.before_step: Callable[[], None] | None = None
        self.wall_ms: Callable[[], int] = lambda: ALWAYS_NEW_MS  # what time a write is given

    # Trouble

    def crash(self, chance: Random) -> "ShadowDisk":
        """A disk as after a power cut now. This one goes on."""
        self._date_what_is_written()
        return ShadowDisk(self._names.after_cut(chance))

    def kill(self) -> "ShadowDisk":
        """A disk as after a kill -9 now: nothing is lost, and no more is durable than was."""
        return ShadowDisk(self._names.copy())

    def write_back(self, chance: Random) -> None:
        """The kernel writes some sectors by itself, as it may at any time."""
        self._date_what_is_written()
        for file in self._names.files.values():
            file.write_back(chance)

    def _date_what_is_written(self) -> None:
        """Whoever writes sectors by and by writes with them when that was."""
        for file in self._names.files.values():
            if file.seen != file.durable:
                file.modified_ms = self.wall_ms()

    def overwrite(self, path: Path, content: bytes) -> None:
        """Give a file a content, durably and in no step: by a test's own hand."""
        file = self._names.files[str(path)] = ShadowFile(bytearray(content), content)
        self._names.durable_files[str(path)] = file

    def hold(self) -> None:
        """From now on work is not done when it is begun, but by `release` or when waited for."""
        self._held = []

    def release(self) -> None:
        """Do the work that was held; what it begins is held again."""
        if self._held is None:
            return
        held, self._held = self._held, []
        for work in held:
            work.run()

    def step(self) -> None:
        """Before each thing that the disk does: the power may go."""
        if self.is_off:
            raise PowerCut
        for file in self._dropping:
            file.notice()
        if self.before_step is not None:
            self.before_step()
        if self.steps == self.cut_at:
            self.is_off = True
            raise PowerCut
        self.steps += 1

    def sync_file(self, file: ShadowFile) -> None:
        """As fdatasync: a failed one leaves nothing to be written by the next."""
        self.step()
        self.syncs += 1
        if self.syncs - 1 == self.fail_sync_at:
            file.drop()
            self._dropping.append(file)
            raise OSError(errno.EIO, "the disk failed a sync")
        if file.seen != file.durable:
            file.modified_ms = self.wall_ms()
        file.sync()

    def _take(self, size: int) -> None:
        if self.room is not None and size > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room = None if self.room is None else self.room - size

    # As seams.Disk

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        return bytes(self._file(path).seen)

    def replace(self, path: Path, content: bytes) -> None:
        """Temp file, fsync, rename, fsync of the folder."""
        file, temp = self._new_file(path)
        self.step()
        try:
            self._take(len(content))
            file.write(0, content)
            self.sync_file(file)
        except OSError:
            self._names.change(temp, None, None)
            raise
        self._rename(temp, path, file)

    def back_up(self, path: Path) -> None:
        """As `replace` of the .bak."""
        self.replace(path.with_name(f"{path.name}.bak"), self.read(path))

    def create(self, path: Path, size: int) -> ShadowRegion:
        """Temp file, allocation, fsync, rename, fsync of the folder."""
        self.replace(path, bytes(size))
        return self.map(path, size)

    def map(self, path: Path, size: int) -> ShadowRegion:
        """Shared, to read and write."""
        file = self._file(path)
        if len(file.seen) != size:
            raise BadState(f"{path} has {len(file.seen)} bytes, not {size}")
        return ShadowRegion(self, path, file)

    def size(self, path: Path) -> int:
        """Of a file."""
        return len(self._file(path).seen)

    def modified_ms(self, path: Path) -> int:
        """When a sync last had something to write."""
        return self._file(path).modified_ms

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """One pread."""
        return bytes(self._file(path).seen[offset : offset + size])

    def write_at(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """Make it if need be (truncate, rename, fsync of the folder), write, fdatasync."""
        if str(path) not in self._names.files:
            file, temp = self._new_file(path)
            self.step()
            file.seen.extend(bytes(file_size))
            self._rename(temp, path, file)
        file = self._file(path)
        self.step()
        self._take(len(data))
        file.write(offset, data)
        self.sync_file(file)

    def write_all(self, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """All is written, then files are synced, then folders that have new names in them."""
        for path, offset, data, file_size in writes:
            if str(path) in self._names.files:
                self.step()
                self._fill(self._file(path), offset, data, file_size)
            else:
                self._note_new(str(path))
                self._make_filled(path, offset, data, file_size)
        for path, _, _, _ in writes:
            self.sync_file(self._file(path))
        for folder in sorted(self._unsynced_folders, reverse=True):
            self._sync_folder(folder)
            self._unsynced_folders.discard(folder)

    def _make_filled(self, path: Path, offset: int, data: bytes, file_size: int) -> None:
        """It has its name last; on disk, the name may come without the rest."""
        file, temp = self._new_temp(path)
        self.step()
        try:
            self._fill(file, offset, data, file_size)
        except OSError:
            self._names.change(temp, None, None)
            raise
        self.step()
        self._names.change(temp, str(path), file)

    def _fill(self, file: ShadowFile, offset: int, data: bytes, file_size: int) -> None:
        self._take(len(data))
        file.seen.extend(bytes(max(0, file_size - len(file.seen))))
        file.write(offset, data)

    def _note_new(self, path: str) -> None:
        folder = folder_of(path)
        self._unsynced_folders.add(folder)
        if folder not in self._names.folders:
            self._note_new(folder)
            self.step()
            self._names.change(None, folder, None)

    def delete(self, path: Path) -> None:
        """Unlink, fsync of the folder."""
        name = str(path)
        if name in self._names.files:
            self.step()
            self._names.change(name, None, None)
        if folder_of(name) in self._names.folders:
            self._sync_folder(folder_of(name))

    def move(self, path: Path, to: Path) -> None:
        """Rename, fsync of both folders."""
        file = self._file(path)
        self._make_folder(folder_of(str(to)))
        self.step()
        self._names.change(str(path), str(to), file)
        self._sync_folder(folder_of(str(to)))
        self._sync_folder(folder_of(str(path)))

    def names(self, folder: Path) -> list[str]:
        """What is in a folder."""
        start = f"{folder}/"
        everything = (*self._names.files, *self._names.folders)
        inside = (path[len(start) :] for path in everything if path.startswith(start))
        return sorted(name for name in inside if name and "/" not in name)

    def used_ratio(self, folder: Path) -> float:
        """Full or not."""
        return 1.0 if self.room == 0 else 0.0

    def capacity(self, folder: Path) -> tuple[int, int]:
        """Bytes that may still be allocated or written; very many without a limit."""
        free = 1 << 50 if self.room is None else self.room
        return (free, free)

    def lock(self, path: Path) -> ShadowLock:
        """One holder at a time."""
        if path in self._locks:
            raise InUse(f"{path} is held: another process uses this store")
        self._make_folder(folder_of(str(path)))
        self._locks.add(path)
        return ShadowLock(self._locks, path)

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Done when this returns, unless held."""
        held: HeldWork[T] = HeldWork(work)
        if self._held is None:
            held.run()
        else:
            self._held.append(held)
        return held

    # Steps

    def _file(self, path: Path) -> ShadowFile:
        file = self._names.files.get(str(path))
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", str(path))
        return file

    def _new_file(self, path: Path) -> tuple[ShadowFile, str]:
        self._make_folder(folder_of(str(path)))
        return self._new_temp(path)

    def _new_temp(self, path: Path) -> tuple[ShadowFile, str]:
        temp = f"{path}.tmp"
        self.step()
        file = ShadowFile(bytearray(), b"", self.wall_ms())
        self._names.change(None, temp, file)
        return file, temp

    def _rename(self, temp: str, path: Path, file: ShadowFile) -> None:
        self.step()
        self._names.change(temp, str(path), file)
        self._sync_folder(folder_of(str(path)))

    def _make_folder(self, folder: str) -> None:
        if folder not in self._names.folders:
            self._make_folder(folder_of(folder))
            self.step()
            self._names.change(None, folder, None)
            self._sync_folder(folder_of(folder))

    def _sync_folder(self, folder: str) -> None:
        self.step()
        self._names.sync(folder)


class HeldWork(Future[T]):
    """Something to be done later, or as soon as somebody waits for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        """Do it, once."""
        if self.done():
            return
        try:
            self.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 - as a thread pool does
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> T:
        """Does it first."""
        self.run()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Does it first."""
        self.run()
        return super().exception(timeout)
