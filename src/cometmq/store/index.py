"""The key index: which messages of a topic have a key, by a row of hash files.

The files are named by the local time at which they were made, yyyyMMddHHmmssSSS. Keys go to the
newest one; when it is full, another is made. All of it can be made again from the log: a file that
is not to be trusted is removed with those after it, and `end_offset` says from where on the log has
to be read again. What is found is a hint: hashes collide, and times are kept in seconds. The caller
looks at the record.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from cometmq.protocol.key_hash import key_hash, key_hashes
from cometmq.seams import Clock, Disk, Region
from cometmq.store.index_file import IndexFile, file_size

_NAME_DIGITS = 17
_NAME_FORMAT = "%Y%m%d%H%M%S%f"  # the last three of its 20 digits are left out
_UNFINISHED = ".tmp"  # how Disk calls a file that it makes
_MAKE_AHEAD = 0.9  # how full a file is when the next one is begun


class Index:
    """Oldest file first. Runs on the loop, but for the making of files and their syncing."""

    def __init__(self, folder: Path, slots: int, entries: int, disk: Disk, clock: Clock) -> None:
        assert slots >= 1 and entries >= 2, "at least one entry; there is no entry 0"
        self._folder = folder
        self._slots = slots
        self._entries = entries
        self._disk = disk
        self._clock = clock
        self._files: list[IndexFile] = []
        self._newest: IndexFile | None = None  # the last of them
        self._next: Future[Region] | None = None  # made ahead of need
        self._newest_name = ""
        self.last_stored_ms = 0  # for the checkpoint: see `dirty_regions`

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """Oldest first."""
        return tuple(self._files)

    @property
    def end_offset(self) -> int:
        """Where the last message of the index is in the log; 0 if there is none."""
        return 0 if self._newest is None else self._newest.end_offset

    # Writing

    def put(self, topic: str, keys: Sequence[str], physical_offset: int, stored_ms: int) -> None:
        """All keys of one message. OSError if a file is needed and cannot be: nothing was put.

        A message before `end_offset` is known already.
        """
        if not keys:
            return
        hashes = key_hashes(topic, keys)
        newest = self._newest
        if newest is None or not newest.put(hashes, physical_offset, stored_ms):
            self._put_across(hashes, physical_offset, stored_ms)

    def _put_across(self, hashes: Sequence[int], physical_offset: int, stored_ms: int) -> None:
        """Fill the newest file, and begin another."""
        room = 0 if self._newest is None else self._newest.room
        made = self._make_for(len(hashes) - room)
        for file in self._files[-1:] + made:
            if room := file.room:
                file.put(hashes[:room], physical_offset, stored_ms)
                hashes = hashes[room:]
        assert not hashes, "they are all put"
        self._files += made
        self._newest = made[-1]

    def _make_for(self, count: int) -> list[IndexFile]:
        """As many files as so many entries need: one, but for tiny files."""
        made: list[IndexFile] = []
        try:
            while count > 0:
                coming, self._next = self._next, None
                region = self._make(self._new_name()) if coming is None else coming.result()
                made.append(IndexFile(region, self._slots, self._entries))
                made[-1].settle(self.last_stored_ms)
                count -= made[-1].room
        except OSError:
            for file in made:
                self._remove(file)
            raise
        return made

    def make_room(self, count: int) -> None:
        """Have room for so many entries, as far as one more file goes; OSError if it cannot be."""
        if self._newest is not None and self._newest.room >= count:
            return
        coming, self._next = self._next, None
        if coming is None or coming.exception() is not None:
            coming = Future()
            coming.set_result(self._make(self._new_name()))
        self._next = coming

    def _new_name(self) -> str:
        """Later than all others, whatever the clock and daylight saving do."""
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000)
        if self._newest_name >= _name_of(now):
            now = datetime.strptime(self._newest_name, _NAME_FORMAT) + timedelta(milliseconds=1)
        self._newest_name = _name_of(now)
        return self._newest_name

    def _make(self, name: str) -> Region:
        return self._disk.create(self._folder / name, file_size(self._slots, self._entries))

    def begin_next(self) -> None:
        """Have the next file ready before the newest one, nearly full, is full."""
        newest = self._newest
        if self._next is None and newest and newest.count > self._entries * _MAKE_AHEAD:
            self._next = self._disk.begin(partial(self._make, self._new_name()))

    def dirty_regions(self) -> list[Region]:
        """What was written to since the last call, to be synced.

        Then, and not before, a checkpoint may say `last_stored_ms` as this call has left it.
        """
        dirty = [file for file in self._files if file.is_dirty()]
        self.last_stored_ms = max([self.last_stored_ms, *(file.end_ms for file in dirty)])
        for file in dirty:
            file.settle(self.last_stored_ms)
        return [file.region for file in dirty]

    # Reading

    def query(self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int) -> list[int]:
        """Physical offsets, newest first, of messages that may have the key and be of the time."""
        wanted = key_hash(topic, key)
        found: list[int] = []
        for file in reversed(self._files):
            file.query(wanted, begin_ms, end_ms, count_max, found)
        return found

    # Starting, cutting, forgetting

    def load(
        self, unclean: bool, safe_end: int, safe_ms: int, on_odd: Callable[[str], None]
    ) -> None:
        """Map the files that are there. After an unclean stop, what may be torn is cut off.

        `safe_end` is where the log ended at the last checkpoint: messages from there on may be here
        in part, and are to be put again from `end_offset` on. `safe_ms` is the `last_stored_ms` of
        then.
        """
        assert not self._files, "only once"
        trusted = True
        for name in self._disk.names(self._folder):
            path = self._folder / name
            if name.endswith(_UNFINISHED) and _is_name(name.removesuffix(_UNFINISHED)):
                self._remove_odd(path, "was never finished", on_odd)
            elif not _is_name(name):
                on_odd(f"{path} is no file of the index; left alone")
            else:
                self._newest_name = name
                fault = (
                    self._open(path, unclean, safe_end) if trusted else "follows a cut or bad one"
                )
                if fault:
                    trusted = False
                    self._remove_odd(path, fault, on_odd)
                elif unclean and self._cut_torn(safe_end):
                    trusted = False
        self._find_newest()
        # What a checkpoint on disk may say; a damaged one may say anything.
        safe_ms = min(safe_ms, self._clock.wall_ms())
        self.last_stored_ms = max([safe_ms, *(file.end_ms for file in self._files)])
        for file in self._files:  # what a killed process wrote may be in memory only
            file.settle(self.last_stored_ms, synced=not unclean)

    def _open(self, path: Path, unclean: bool, safe_end: int) -> str:
        """Add a file to the row, or tell what is wrong with it."""
        size = file_size(self._slots, self._entries)
        found = self._disk.size(path)
        if found != size:
            return f"has {found} bytes, not {size}"
        file = IndexFile(self._disk.map(path, size), self._slots, self._entries)
        fault = ""
        if not file.is_possible():
            fault = "has an impossible header"
        elif file.count == 1:
            fault = "is empty"
        elif unclean and file.end_offset >= safe_end and file.count_below(safe_end) == 1:
            fault = "has nothing that is surely whole"
        if fault:
            file.close()
            return fault
        self._files.append(file)
        return ""

    def _cut_torn(self, safe_end: int) -> bool:
        """Cut the file just opened to what is surely whole; True if there was more."""
        file = self._files[-1]
        if file.end_offset >= safe_end:
            file.cut(file.count_below(safe_end))
            return True
        if file.is_torn():
            file.cut(file.count)
        return False

    def _remove_odd(self, path: Path, fault: str, on_odd: Callable[[str], None]) -> None:
        try:
            self._disk.delete(path)
        except OSError as error:
            on_odd(f"{path} {fault}; it cannot be removed: {error}")
        else:
            on_odd(f"{path} {fault}; removed")

    def cut(self, log_end: int) -> None:
        """Forget the messages from `log_end` on: the log lost them."""
        while self._files and self._files[-1].begin_offset >= log_end:
            self._remove(self._files.pop())
        if self._files and self._files[-1].end_offset >= log_end:
            self._files[-1].cut(self._files[-1].count_below(log_end))
        self._find_newest()

    def forget_before(self, log_start: int) -> None:
        """Remove the files that know only messages before `log_start`, but never the newest."""
        while len(self._files) > 1 and self._files[0].end_offset < log_start:
            self._remove(self._files.pop(0))

    def close(self) -> None:
        """Unmap everything."""
        for file in self._files:
            file.close()
        self._files.clear()
        self._newest = None
        coming, self._next = self._next, None
        if coming is not None and coming.exception() is None:
            unused = coming.result()
            unused.close()
            self._disk.delete(unused.path)

    def _find_newest(self) -> None:
        self._newest = self._files[-1] if self._files else None

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._disk.delete(file.region.path)


def _name_of(moment: datetime) -> str:
    return moment.strftime(_NAME_FORMAT)[:_NAME_DIGITS]


def _is_name(name: str) -> bool:
    try:  # the last year is not for us: there must be a name after every name
        return _name_of(datetime.strptime(name, _NAME_FORMAT)) == name < "9999"
    except ValueError:
        return False
