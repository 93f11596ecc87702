"""What a shadow disk holds: files, each as it is seen and as it is durable, and their names."""

from random import Random

SECTOR_SIZE = 512
ALWAYS_NEW_MS = 2**52


class ShadowFile:
    """What a name leads to: `seen` by the process, and `durable`."""

    def __init__(self, seen: bytearray, durable: bytes, modified_ms: int = ALWAYS_NEW_MS) -> None:
        self.seen = seen
        self.durable = durable
        self.modified_ms = modified_ms
        self._dropped: dict[int, bytes] = {}  # sectors that a failed sync was to write

    def sync(self) -> None:
        """What is seen is durable, but for what a failed sync dropped and nobody wrote again."""
        self.durable = self._but_for_dropped(bytes(self.seen))

    def write_back(self, chance: Random) -> None:
        """Some of what is not durable yet becomes so, but for what a failed sync dropped."""
        self.durable = self._but_for_dropped(self.after_cut(chance))

    def _but_for_dropped(self, content: bytes) -> bytes:
        self.notice()
        left = bytearray(content)
        for at, sector in self._dropped.items():
            if at < len(left):
                old = self.durable[at : at + SECTOR_SIZE]
                left[at : at + SECTOR_SIZE] = old.ljust(len(sector), b"\0")
        return bytes(left)

    def notice(self) -> None:
        """A dropped sector that is another now was written to, through a map."""
        for at, sector in list(self._dropped.items()):
            if self.seen[at : at + SECTOR_SIZE] != sector:
                del self._dropped[at]

    @property
    def has_dropped(self) -> bool:
        """It looks synced in parts that are not."""
        return bool(self._dropped)

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
        self.rewrite(offset, offset + len(data))

    def rewrite(self, start: int, end: int) -> None:
        """With the same bytes: the sectors are to be synced again."""
        for at in [at for at in self._dropped if at < end and start < at + SECTOR_SIZE]:
            del self._dropped[at]

    def image(self, content: bytes) -> "ShadowFile":
        """As old as this one, with a content that is durable."""
        return ShadowFile(bytearray(content), content, self.modified_ms)

    def copy(self) -> "ShadowFile":
        """The same, apart."""
        copy = ShadowFile(bytearray(self.seen), self.durable, self.modified_ms)
        copy._dropped = dict(self._dropped)
        return copy

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


# The folder, the name that goes, the name that comes, its file; without one it is a folder.
_Change = tuple[str, str | None, str | None, ShadowFile | None]


class Names:
    """What is in each folder, and the changes to it that are not durable yet."""

    def __init__(self, files: dict[str, ShadowFile], folders: set[str]) -> None:
        self.files = files
        self.folders = folders
        self.durable_files = dict(files)
        self.durable_folders = set(folders)
        self.changes: list[_Change] = []

    def change(self, gone: str | None, come: str | None, file: ShadowFile | None) -> None:
        """In one folder, at once."""
        self.changes.append((folder_of(come or gone or ""), gone, come, file))
        _apply(self.files, self.folders, self.changes[-1])

    def sync(self, folder: str) -> None:
        """The changes of a folder are durable."""
        for change in self.changes:
            if change[0] == folder:
                _apply(self.durable_files, self.durable_folders, change)
        self.changes = [change for change in self.changes if change[0] != folder]

    def after_cut(self, chance: Random) -> "Names":
        """The durable names with some of the changes since: some first ones, or any."""
        files, folders = dict(self.durable_files), set(self.durable_folders)
        first = chance.randint(0, len(self.changes)) if chance.random() < 0.5 else None
        for number, change in enumerate(self.changes):
            if number < first if first is not None else chance.random() < 0.5:
                _apply(files, folders, change)
        for folder in sorted(folders):  # a folder goes with the one it is in
            if folder_of(folder) not in folders:
                folders.discard(folder)
        kept = {path: file for path, file in files.items() if folder_of(path) in folders}
        left = {path: file.image(file.after_cut(chance)) for path, file in kept.items()}
        return Names(left, folders)

    def copy(self) -> "Names":
        """The same, apart."""
        changed = [change[3] for change in self.changes if change[3] is not None]
        every = [*self.files.values(), *self.durable_files.values(), *changed]
        copies = {id(file): file.copy() for file in every}
        other = Names({path: copies[id(file)] for path, file in self.files.items()}, set())
        other.folders, other.durable_folders = set(self.folders), set(self.durable_folders)
        other.durable_files = {path: copies[id(file)] for path, file in self.durable_files.items()}
        other.changes = [(*change[:3], copies.get(id(change[3]))) for change in self.changes]
        return other


def folder_of(name: str) -> str:
    """Which a file or a folder is in."""
    return name.rpartition("/")[0] or "/"


def _apply(files: dict[str, ShadowFile], folders: set[str], change: _Change) -> None:
    _, gone, come, file = change
    if gone is not None:
        files.pop(gone, None)
    if come is not None and file is not None:
        files[come] = file
    elif come is not None:
        folders.add(come)
