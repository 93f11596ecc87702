"""A disk in memory that knows what a power cut would leave of it.

Each file has a content that the process sees and one that is durable. Every call is made of the
steps that `RealDisk` takes (make a folder, write, fsync, rename, fsync of the folder), and before
each of them the power can go, or a test can take an image of the disk as a cut would leave it.

What a cut leaves: of each file what was last synced, plus any of the 512-byte sectors written
since; of each folder what was last synced, plus any of the creations, renames and deletions since.
A file that was never synced may have its size or none.
"""

import errno
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from cometmq.errors import BadState

T = TypeVar("T")

SECTOR_SIZE = 512


class PowerCut(BaseException):
    """The machine is off. No code may catch it, as none would run."""


class ShadowFile:
    """What a name leads to: `seen` by the process, and `durable`."""

    def __init__(self, seen: bytearray, durable: bytes) -> None:
        self.seen = seen
        self.durable = durable
        self._dropped: dict[int, bytes] = {}  # sectors that a failed sync was to write

    def sync(self) -> None:
        """What is seen is durable, but for what a failed sync dropped and nobody wrote again."""
        durable = bytearray(self.seen)
        for at, sector in self._dropped.items():
            if self.seen[at : at + SECTOR_SIZE] == sector:
                durable[at : at + SECTOR_SIZE] = self.durable[at : at + SECTOR_SIZE]
        self.durable = bytes(durable)

    def drop(self) -> None:
        """A sync failed: the kernel takes what it was to write for written."""
        for at in range(0, len(self.seen), SECTOR_SIZE):
            sector = bytes(self.seen[at : at + SECTOR_SIZE])
            if self.durable[at : at + SECTOR_SIZE] != sector:
                self._dropped[at] = sector

    def write(self, offset: int, data: bytes) -> None:
        """By a call and not through a map: even the same bytes are to be synced again."""
        self.seen.extend(bytes(max(0, offset + len(data) - len(self.seen))))
        self.seen[offset : offset + len(data)] = data
        for at in [at for at in self._dropped if at < offset + len(data) and offset < at + 512]:
            del self._dropped[at]

    def after_cut(self, chance: Random) -> bytes:
        """The durable content with some of what was written since."""
        if self.seen == self.durable:
            return self.durable
        grown = len(self.seen) == len(self.durable) or chance.random() < 0.5
        left = bytearray(self.durable)
        if grown:
            left = left[: len(self.seen)].ljust(len(self.seen), b"\0")
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for at in range(0, len(left), SECTOR_SIZE):
            sector = self.seen[at : at + SECTOR_SIZE]
            if left[at : at + SECTOR_SIZE] != sector and chance.random() < share:
                left[at : at + SECTOR_SIZE] = sector[: len(left) - at]
        return bytes(left)


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


# The folder, the name that goes, the name that comes, its file; without one it is a folder.
_Change = tuple[str, str | None, str | None, ShadowFile | None]


class _Names:
    """What is in each folder, and the changes to it that are not durable yet."""

    def __init__(self, files: dict[str, ShadowFile], folders: set[str]) -> None:
        self.files = files
        self.folders = folders
        self.durable_files = dict(files)
        self.durable_folders = set(folders)
        self.changes: list[_Change] = []

    def change(self, gone: str | None, come: str | None, file: ShadowFile | None) -> None:
        """In one folder, at once."""
        self.changes.append((_folder_of(come or gone or ""), gone, come, file))
        _apply(self.files, self.folders, self.changes[-1])

    def sync(self, folder: str) -> None:
        """The changes of a folder are durable."""
        for change in self.changes:
            if change[0] == folder:
                _apply(self.durable_files, self.durable_folders, change)
        self.changes = [change for change in self.changes if change[0] != folder]

    def after_cut(self, chance: Random) -> "_Names":
        """The durable names with some of the changes since: some first ones, or any."""
        files, folders = dict(self.durable_files), set(self.durable_folders)
        first = chance.randint(0, len(self.changes)) if chance.random() < 0.5 else None
        for number, change in enumerate(self.changes):
            if number < first if first is not None else chance.random() < 0.5:
                _apply(files, folders, change)
        for folder in sorted(folders):  # a folder goes with the one it is in
            if _folder_of(folder) not in folders:
                folders.discard(folder)
        kept = {path: file for path, file in files.items() if _folder_of(path) in folders}
        left = {path: file.after_cut(chance) for path, file in kept.items()}
        return _Names({path: ShadowFile(bytearray(b), b) for path, b in left.items()}, folders)

    def copy(self) -> "_Names":
        """The same, apart."""
        changed = [change[3] for change in self.changes if change[3] is not None]
        every = [*self.files.values(), *self.durable_files.values(), *changed]
        copies = {id(file): ShadowFile(bytearray(file.seen), file.durable) for file in every}
        other = _Names({path: copies[id(file)] for path, file in self.files.items()}, set())
        other.folders, other.durable_folders = set(self.folders), set(self.durable_folders)
        other.durable_files = {path: copies[id(file)] for path, file in self.durable_files.items()}
        other.changes = [(*change[:3], copies.get(id(change[3]))) for change in self.changes]
        return other


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0] or "/"


def _apply(files: dict[str, ShadowFile], folders: set[str], change: _Change) -> None:
    _, gone, come, file = change
    if gone is not None:
        files.pop(gone, None)
    if come is not None and file is not None:
        files[come] = file
    elif come is not None:
        folders.add(come)


class ShadowDisk:
    """See the top of the file. `steps` counts what was done, syncs of files apart in `syncs`."""

    def __init__(self, names: _Names | None = None) -> None:
        self._names = names or _Names({}, {"/"})
        self._locks: set[Path] = set()
        self._held: list[HeldWork[Any]] | None = None
        self.steps = 0
        self.syncs = 0
        self.is_off = False
        self.cut_at: int | None = None  # the power goes before this step
        self.fail_sync_at: int | None = None  # this sync fails, and what it was to write is lost
        self.room: int | None = None  # bytes that may yet be allocated or written to new places
        self.before_step: Callable[[], None] | None = None

    # Trouble

    def crash(self, chance: Random) -> "ShadowDisk":
        """A disk as after a power cut now. This one goes on."""
        return ShadowDisk(self._names.after_cut(chance))

    def kill(self) -> "ShadowDisk":
        """A disk as after a kill -9 now: nothing is lost, and no more is durable than was."""
        return ShadowDisk(self._names.copy())

    def write_back(self, chance: Random) -> None:
        """The kernel writes some sectors by itself, as it may at any time."""
        for file in self._names.files.values():
            file.durable = file.after_cut(chance)

    def overwrite(self, path: Path, content: bytes) -> None:
        """Give a file a content, durably and in no step: by a test's own hand."""
        file = self._names.files[str(path)] = ShadowFile(bytearray(content), content)
        self._names.durable_files[str(path)] = file

    def hold(self) -> None:
        """From now on work is not done when it is begun, but by `release` or when waited for."""
        self._held = []

    def release(self) -> None:
        """Do the work that was held; what it begins is held again."""
        held, self._held = self._held or [], []
        for work in held:
            work.run()

    def step(self) -> None:
        """Before each thing that the disk does: the power may go."""
        if self.is_off:
            raise PowerCut
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
            raise OSError(errno.EIO, "the disk failed a sync")
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
        """It keeps no times: all files are as new as can be."""
        return 2**52

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

    def delete(self, path: Path) -> None:
        """Unlink, fsync of the folder."""
        name = str(path)
        if name in self._names.files:
            self.step()
            self._names.change(name, None, None)
        if _folder_of(name) in self._names.folders:
            self._sync_folder(_folder_of(name))

    def names(self, folder: Path) -> list[str]:
        """What is in a folder."""
        start = f"{folder}/"
        everything = (*self._names.files, *self._names.folders)
        inside = (path[len(start) :] for path in everything if path.startswith(start))
        return sorted(name for name in inside if name and "/" not in name)

    def used_ratio(self, folder: Path) -> float:
        """Full or not."""
        return 1.0 if self.room == 0 else 0.0

    def lock(self, path: Path) -> ShadowLock:
        """One holder at a time."""
        if path in self._locks:
            raise BadState(f"{path} is held: another process uses this store")
        self._make_folder(_folder_of(str(path)))
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
        self._make_folder(_folder_of(str(path)))
        temp = f"{path}.tmp"
        self.step()
        file = ShadowFile(bytearray(), b"")
        self._names.change(None, temp, file)
        return file, temp

    def _rename(self, temp: str, path: Path, file: ShadowFile) -> None:
        self.step()
        self._names.change(temp, str(path), file)
        self._sync_folder(_folder_of(str(path)))

    def _make_folder(self, folder: str) -> None:
        if folder not in self._names.folders:
            self._make_folder(_folder_of(folder))
            self.step()
            self._names.change(None, folder, None)
            self._sync_folder(_folder_of(folder))

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
